"""Refresh sets: dbgen's update sets, whole or not there."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import RunFailed
from harness.workloads.tpch import data, refresh_data
from harness.workloads.tpch.refresh_data import order_key, prepare, row_of_key

RECORDING = Path(__file__).parent / "recordings" / "dbgen-2.14.0-update-sets.tsv"
RECORDED = [
    line.split("\t") for line in RECORDING.read_text().splitlines() if not line.startswith("#")
]


def digests(refresh, sets):
    """SHA-256 over the sets' files as dbgen writes them."""
    pairs = [refresh.pair(number) for number in sets]
    texts = {
        "orders": b"".join(pair.inserted["orders"].read_bytes() for pair in pairs),
        "lineitem": b"".join(pair.inserted["lineitem"].read_bytes() for pair in pairs),
        "delete": "".join(f"{key}|\n" for p in pairs for key in p.delete_keys).encode(),
    }
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def recorded(scale, sets):
    return {name: digest for s, n, name, _, digest in RECORDED if (s, n) == (str(scale), sets)}


@pytest.fixture(scope="module")
def tenth(tmp_path_factory, quiet):
    """Sets 1 to 4 at scale 0.1."""
    return prepare(0.1, range(1, 5), tmp_path_factory.mktemp("refresh") / "sf0.1", quiet)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_sets_at_scale_one_tenth_are_those_of_dbgen(tenth, number):
    assert digests(tenth, [number]) == recorded(0.1, str(number))


@pytest.mark.parametrize("number", [3, 150, 999])
def test_sets_at_scale_one_are_those_of_dbgen(tmp_path, quiet, number):
    refresh = prepare(1, range(number, number + 1), tmp_path, quiet)
    assert digests(refresh, [number]) == recorded(1, str(number))


def test_smallest_sets_hold_the_rows_of_dbgen_in_its_order(tmp_path, quiet):
    refresh = prepare(0.01, range(1, 3), tmp_path, quiet)
    assert digests(refresh, [1, 2]) == recorded(0.01, "1-3")


def test_removed_rows_are_the_rows_of_the_base(tmp_path, quiet, sources):
    base = sources["tbl"]
    refresh = prepare(0.01, range(1, 4), tmp_path, quiet)
    for table in ("orders", "lineitem"):
        wanted = b"".join(file.read_bytes() for file in base.files[table]).splitlines(True)
        removed = [refresh.pair(number).removed[table] for number in (1, 2, 3)]
        found = b"".join(file.read_bytes() for file in removed).splitlines(True)
        assert len(found) >= 45
        assert found == wanted[: len(found)]


def test_keys_of_sets_are_disjoint_from_each_other_and_from_the_base(tenth):
    base = {order_key(row, 0) for row in range(150_000)}
    inserted = [key for n in range(1, 5) for key in tenth.pair(n).insert_keys]
    deleted = [key for n in range(1, 5) for key in tenth.pair(n).delete_keys]
    assert len(set(inserted)) == len(inserted) == 4 * 150
    assert len(set(deleted)) == len(deleted) == 4 * 150
    assert not base & set(inserted)
    assert set(deleted) < base


@pytest.mark.parametrize("gap", [0, 1, 2, 3])
def test_keys_and_rows_are_each_others_inverse(gap):
    assert all(row_of_key(order_key(row, gap)) == (row, gap) for row in range(100))


def test_a_generator_that_draws_otherwise_is_not_believed(tmp_path, quiet, monkeypatch):
    def altered(arguments, folder, *rest):
        data.run_generator(arguments, folder, *rest)
        (orders,) = (folder / "orders").iterdir()
        orders.write_text(orders.read_text().replace("|Clerk#", "|Clerk#1"))

    monkeypatch.setattr(refresh_data, "run_generator", altered)
    with pytest.raises(RunFailed, match="otherwise than dbgen"):
        prepare(0.01, range(1, 2), tmp_path, quiet)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
def test_a_full_disk_is_named_with_the_room_that_is_needed(tmp_path, quiet):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", tmp_path], check=True)
    try:
        with pytest.raises(RunFailed) as failure:
            prepare(1, range(1, 4), tmp_path, quiet)
        assert "make room" in failure.value.hint
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("set-")]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_killed_preparation_leaves_whole_sets_and_the_next_one_makes_the_others(tmp_path, quiet):
    folder = tmp_path / "sets"
    program = f"""
from pathlib import Path
from harness.progress import SilentProgress
from harness.workloads.tpch.refresh_data import prepare
prepare(0.1, range(1, 4), Path({str(folder)!r}), SilentProgress())
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    while not (folder.exists() and any(folder.glob("partial/*"))):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all(len(list(made.iterdir())) == 4 for made in folder.glob("set-*"))
    refresh = prepare(0.1, range(1, 4), folder, quiet)
    assert digests(refresh, [3]) == recorded(0.1, "3")
    assert not (folder / "partial").exists()
