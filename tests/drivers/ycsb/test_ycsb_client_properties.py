"""Property files that we write, read by Java itself."""

from __future__ import annotations

import pytest

from harness.drivers.ycsb.client import properties_text
from harness.workloads.ycsb import properties

GIVEN = {
    "plain": "words with = and : and # and !",
    "with space": " leading and trailing ",
    "jdbc.with.password": "p\\q=é€😀\tand\nmore",
    "rocksdb.cf_option.block_based_table_factory": "{block_cache=64M;filter_policy=bloomfilter:10}",
    "!odd": "#",
    "empty": "",
    "truth": True,
    "number": 2147483647,
    "share": 0.05,
    "left.out": None,
}
READ = {
    **{n: v for n, v in GIVEN.items() if isinstance(v, str)},
    "truth": "true", "number": "2147483647", "share": "0.05",
}  # fmt: skip


def test_java_reads_what_was_given(java):
    told = dict(line.split(" ", 1) for line in java("Told", GIVEN))
    assert {bytes.fromhex(n).decode("utf-16-be"): bytes.fromhex(v).decode("utf-16-be", "replace")
            for n, v in told.items()} == READ  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_our_own_reader_reads_it_too(name, tmp_path):
    file = tmp_path / "given.properties"
    file.write_text(properties_text(GIVEN))
    found = properties.read(file)
    # It does not put the halves of a character beyond 16 bits together.
    assert found[name].encode("utf-16-be", "surrogatepass") == READ[name].encode("utf-16-be")
    assert found.keys() == READ.keys()
