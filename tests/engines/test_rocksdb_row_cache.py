"""RocksDB's cache of whole records: what it answers, how that is counted, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdb_store import RECORDS, Store, loaded

from harness import paths
from harness.drivers.loadgen import processes
from harness.errors import RunFailed, UsageError
from harness.registry import engine as factory_of

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


def test_data_are_loaded_without_it_and_are_the_same(lab: Any) -> None:
    engine = lab.engine("rocksdb", {"row_cache": "16M"})
    assert engine.format_options() == {}
    engine.initialise(lab.places())
    assert engine.native_connection()["row_cache_bytes"] == 0


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


def test_an_options_file_that_names_it_is_refused_with_its_line(tmp_path: Path) -> None:
    """RocksDB does not write it there, and reads no file that has it."""
    path = tmp_path / "OPTIONS"
    path.write_text("[DBOptions]\n  max_background_jobs=3\n  row_cache=67108864\n")
    factory: Any = factory_of("rocksdb")
    with pytest.raises(UsageError) as caught:
        factory.settings_of_file({"options_file": str(path)}, paths.engines_prefix())
    assert f"{path}:3" in str(caught.value) and "--set row_cache=" in caught.value.hint


@pytest.fixture
def without(lab: Any) -> Path:
    """Where the pinned library lies with that function under another name."""
    prefix: Path = lab.directory("prefix")
    prefix.chmod(0o755)
    pinned = Path(lab.engine("rocksdb").library)
    library = prefix / "librocksdb.so"
    named = b"\0rocksdb_options_set_row_cache\0"
    code = pinned.read_bytes()
    assert named in code
    library.write_bytes(code.replace(named, named.replace(b"row", b"raw")))
    library.chmod(0o755)
    return prefix


def test_a_library_without_it_is_refused_if_it_is_requested(
    lab: Any, golden: Path, without: Path
) -> None:
    options = {"prefix": str(without)}
    store = Store.of(lab, {}, options).restored(golden, lab.places())
    assert store.run(duration_ns=100_000_000).operations
    assert lab.engine("rocksdb", {"row_cache": "0"}, options)
    with pytest.raises(UsageError, match="has no function rocksdb_options_set_row_cache"):
        lab.engine("rocksdb", {"row_cache": "16M"}, options)
    connection = {**store.connection, "row_cache_bytes": SIZE}
    with pytest.raises(RunFailed, match="C interface has no row cache"):
        processes.drive([store.spec(task="load", connection=connection)], store.clients)
