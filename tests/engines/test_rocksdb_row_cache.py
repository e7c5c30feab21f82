"""RocksDB's cache of whole records: what it answers, how that is counted, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdb_store import RECORDS, Store, loaded

from harness.errors import RunFailed

SIZE = 16 << 20
#: Of each record some.
READ = 10 * RECORDS
READS: dict[str, Any] = {"readproportion": 1.0, "updateproportion": 0.0, "insertproportion": 0.0,
         "scanproportion": 0.0, "readmodifywriteproportion": 0.0}  # fmt: skip


@pytest.fixture(scope="module")
def golden(module_lab: Any) -> Path:
    return loaded(module_lab)


def counted(lab: Any, golden: Path, **settings: str) -> tuple[Store, dict[str, float]]:
    """A store, and RocksDB's counters behind a run of reads alone; they begin with the client."""
    store = Store.of(lab, settings).restored(golden, lab.places())
    counters = store.run(operations=READ, **READS).engine.end
    return store, {name: value for name, value in counters.items() if name.endswith("_count")}


def test_a_run_with_it_counts_what_it_answered(lab: Any, golden: Path) -> None:
    store, added = counted(lab, golden, row_cache="16M")
    reads = added["rocksdb_number_keys_read_count"]
    assert reads == READ
    assert added["rocksdb_row_cache_hit_count"] > 0.5 * reads
    # The block cache has seen the others alone.
    assert added["rocksdb_block_cache_data_hit_count"] < 0.5 * reads
    assert store.engine.effective_config()["row_cache"] == str(SIZE)
    store.engine.stop()  # which compares the size with what the library says
    found = store.verified()
    assert (found.records, found.missing, found.malformed) == (RECORDS, 0, 0)


def test_a_run_without_it_says_so(lab: Any, golden: Path) -> None:
    store, added = counted(lab, golden)
    assert added["rocksdb_row_cache_hit_count"] == added["rocksdb_row_cache_miss_count"] == 0
    assert added["rocksdb_block_cache_data_hit_count"] > 0
    assert store.engine.effective_config()["row_cache"] == "0"
    store.engine.stop()


@pytest.mark.parametrize("asked", ["16M", "16m", "16777216", "16384K"])
def test_its_size_is_given_in_bytes(lab: Any, golden: Path, asked: str) -> None:
    store = Store.of(lab, {"row_cache": asked}).restored(golden, lab.places())
    connection = store.connection
    assert connection["row_cache_bytes"] == SIZE
    assert "row_cache" not in connection["options"] | connection["db_options"]
    properties = store.engine.ycsb_properties(connection, {"update": "blind"})
    assert properties["rocksdb.row_cache_bytes"] == str(SIZE)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Options.row_cache: 8388608", "row_cache=16777216 would be 8388608"),
        ("Options.row_cache: None", "row_cache=16777216 would be 0"),
        ("", "row_cache=16777216 would be unknown"),
    ],
)
def test_a_run_with_another_one_fails(lab: Any, golden: Path, line: str, words: str) -> None:
    """Planted: a log that tells of another."""
    places = lab.places()
    store = Store.of(lab, {"row_cache": "16M"}).restored(golden, places)
    store.run(duration_ns=100_000_000)
    log = places["data"] / "rocksdb" / "LOG"
    text = log.read_text()
    assert f"Options.row_cache: {SIZE}" in text
    log.write_text(text.replace(f"Options.row_cache: {SIZE}", line))
    with pytest.raises(RunFailed, match=words):
        store.engine.stop()
