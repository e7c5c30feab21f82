"""RocksDB inside the native client: real databases, in real directories."""

import errno
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from open_files import opened
from rocksdb_store import RECORDS, Store, built, loaded

from engines.rocksdb import options
from engines.rocksdb.background import background_tasks
from engines.rocksdb.installation import ask
from harness import paths
from harness.engine import FileSettings
from harness.errors import RunFailed, UsageError
from harness.experiment.tuning import settings_for
from harness.registry import engine as factory_of
from harness.supervise.process import alive
from harness.workloads.ycsb.params import PROPORTIONS

RECORDINGS = Path(__file__).parent / "recordings"
TABLE_FACTORY = "block_based_table_factory"
ROW_CACHE = 16 << 20
NOTHING: dict[str, Any] = dict.fromkeys(PROPORTIONS, 0.0)


@pytest.fixture(scope="module")
def golden(module_lab):
    return loaded(module_lab)


@pytest.fixture
def elsewhere():
    """A directory on another file system than the lab's."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tb-test-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path


def test_data_and_log_lie_where_they_were_placed(lab, golden, elsewhere):
    wal = elsewhere / "wal"
    wal.mkdir(mode=0o777)
    wal.chmod(0o777)
    places = lab.places(wal=wal)
    store = Store.of(lab).restored(golden, places)
    seen: list[Path] = []
    store.run(measuring=lambda: seen.extend(opened(store.engine.processes()[0].pid)))
    logs = {path.parent for path in seen if re.fullmatch(r"\d{6}\.log", path.name)}
    tables = {path.parent for path in seen if path.suffix == ".sst"}
    assert logs == {places["wal"] / "rocksdb"}
    assert tables == {places["data"] / "rocksdb"}
    assert not list((places["data"] / "rocksdb").glob("*.log"))
    assert places["wal"].stat().st_dev != places["data"].stat().st_dev
    written = sum(f.stat().st_size for f in (places["wal"] / "rocksdb").glob("*.log"))
    assert written > 0
    assert store.engine.processes() == []
    store.engine.stop()


def test_restored_data_hold_every_record_wherever_they_lie(lab, golden):
    for _ in range(2):
        places = lab.places()
        store = Store.of(lab).restored(golden, places)
        counts = store.verified()
        assert (counts.records, counts.missing, counts.malformed) == (RECORDS, 0, 0)
        config = store.engine.effective_config()
        assert config["wal_dir"] == str(places["wal"] / "rocksdb")
        for path in (places["data"] / "rocksdb").glob("OPTIONS-*"):
            assert f"wal_dir={places['wal']}/rocksdb" in path.read_text()
        store.engine.stop()


def test_a_dataset_does_not_contain_the_place_of_its_load(golden):
    assert {path.name for path in golden.iterdir()} == {"data", "wal"}
    assert not list((golden / "data").glob("LOG*"))
    assert list((golden / "data").glob("*.sst"))
    assert sum(path.stat().st_size for path in (golden / "wal").glob("*.log")) == 0


def test_options_are_those_that_rocksdb_then_writes(lab, golden):
    requested = {
        "block_cache": "16M", "write_buffer_size": "4M", "max_background_jobs": "3",
        "filter_policy": "bloomfilter:9:false", "allow_mmap_reads": "on", "sync": "on",
        "bytes_per_sync": "65536", "max_bytes_for_level_multiplier": "8",
    }  # fmt: skip
    store = Store.of(lab, requested).restored(golden, lab.places())
    store.run(duration_ns=200_000_000)
    config = store.engine.effective_config()
    assert config["write_buffer_size"] == str(4 << 20)
    assert config["max_background_jobs"] == "3"
    assert config["allow_mmap_reads"] == "true"
    assert config["filter_policy"] == "bloomfilter:9:false"
    assert float(config["max_bytes_for_level_multiplier"]) == 8
    assert (config["block_cache"], config["sync"]) == (str(16 << 20), "true")
    store.engine.stop()  # which compares all of them


@pytest.mark.parametrize(
    ("requested", "size"),
    [("64M", 64 << 20), ("1g", 1 << 30), ("65536K", 64 << 20), ("67108864", 64 << 20), ("0", 0)],
)
def test_sizes_of_caches_are_read_back(lab, golden, requested, size):
    caches = {"block_cache": requested, "row_cache": requested}
    store = Store.of(lab, caches).restored(golden, lab.places())
    config, connection = store.engine.effective_config(), store.connection
    assert {name: config[name] for name in caches} == dict.fromkeys(caches, str(size))
    assert f"block_cache={size};" in connection["options"][TABLE_FACTORY]
    assert connection["row_cache_bytes"] == size
    assert "row_cache" not in connection["options"] | connection["db_options"]
    properties = store.engine.ycsb_properties(connection, {"update": "blind"})
    assert properties["rocksdb.row_cache_bytes"] == str(size)


def test_a_block_cache_of_another_size_is_refused(lab, monkeypatch):
    """Planted: a library that takes half of it."""
    monkeypatch.setattr(options, "ask", lambda library, *requested: replace(
        ask(library, *requested), block_cache_bytes=8 << 20
    ))  # fmt: skip
    with pytest.raises(UsageError, match="block_cache=16777216 would be 8388608"):
        lab.engine("rocksdb", {"block_cache": "16M"})


def test_a_run_without_an_options_file_is_not_taken_for_one_that_was_checked(lab, golden):
    store = Store.of(lab).restored(golden, lab.places())
    store.run(duration_ns=100_000_000)
    for path in store.engine.files():
        for written in path.glob("OPTIONS-*"):
            written.unlink()
    with pytest.raises(RunFailed, match="no OPTIONS file"):
        store.engine.stop()


def test_the_paper_s_settings_are_those_it_runs_with(lab, golden):
    requested = settings_for(
        "paper", "rocksdb", {"memory": 2.0**34, "cores": 4.0, "connections": 2.0}
    )
    store = Store.of(lab, requested)
    store.load(lab.places())
    store.restored(golden, lab.places()).run(duration_ns=200_000_000)
    config = store.engine.effective_config()
    store.engine.stop()  # which compares all of them
    assert config["compression_per_level"] == requested["compression_per_level"]
    assert config["max_background_compactions"] == "8"
    assert config["level_compaction_dynamic_level_bytes"] == "false"


def settings_of(path: Path) -> FileSettings:
    factory = factory_of("rocksdb")
    return factory.settings_of_file({"options_file": str(path)}, paths.engines_prefix())


def test_options_come_from_a_file_as_rocksdb_writes_it(lab, golden, tmp_path):
    levels = "kNoCompression:kNoCompression:kLZ4Compression"
    first = Store.of(lab, {"write_buffer_size": "5242880", "compression_per_level": levels})
    places = lab.places()
    first.restored(golden, places).run(duration_ns=200_000_000)
    first.engine.stop()
    written = sorted((places["data"] / "rocksdb").glob("OPTIONS-*"))[-1]
    settings = settings_of(written).values
    assert settings["write_buffer_size"] == "5242880"
    assert settings["compression_per_level"] == levels
    assert "wal_dir" not in settings
    second = Store.of(lab, {**settings, "block_cache": "8M"}).restored(golden, lab.places())
    second.run(duration_ns=200_000_000)
    assert second.engine.effective_config()["write_buffer_size"] == "5242880"
    second.engine.stop()


@pytest.mark.parametrize(
    ("release", "left_out"),
    [
        ("5.17.2", ("wal_dir", "base_background_compactions", "compaction_options_fifo.ttl")),
        ("7.8.3", ("random_access_max_buffer_size", "level_compaction_dynamic_file_size")),
    ],
)
def test_what_does_not_apply_of_an_older_release_is_listed(lab, release, left_out):
    settings = settings_of(RECORDINGS / f"rocksdb-{release}.OPTIONS")
    (warning,) = settings.warnings
    assert warning.code == "options-file-not-applied"
    assert [name for name in left_out if f"{name}=" not in warning.context] == []
    assert not set(left_out) & set(settings.values)
    assert settings.values["max_bytes_for_level_multiplier"] == "10.000000"
    Store.of(lab, settings.values)  # which opens a database with them


def test_only_options_that_decide_the_files_are_in_the_dataset_key(lab):
    def key(**settings: str) -> Mapping[str, str]:
        options: Mapping[str, str] = lab.engine("rocksdb", settings).format_options()
        return options

    assert key() == {}
    assert key(write_buffer_size="4M", block_cache="1M", sync="true", use_direct_reads="on") == {}
    assert key(block_size="8192") == {"block_size": "8192"}
    assert key(block_size="4K") == {}  # which it is anyway
    assert key(compression="kNoCompression") != key(compression="kLZ4Compression")


def test_settings_that_lose_commits_with_the_power_are_reported(lab):
    def lost(**settings: str) -> list[str]:
        return list(lab.engine("rocksdb", settings).lost_without_power())

    assert lost() == ["sync=false"]
    assert lost(sync="true") == []
    assert lost(disable_wal="true") == ["disable_wal=true"]
    assert lost(sync="true", manual_wal_flush="true") == ["manual_wal_flush=true"]


def test_tickers_and_levels_are_reported(lab, golden):
    store = Store.of(lab).restored(golden, lab.places())
    for _ in range(5):  # the first reading comes with the first operations, or late
        result = store.run(operations=50_000)
        engine = result.engine
        if engine.begin["rocksdb_wal_bytes"] < engine.end["rocksdb_wal_bytes"]:
            break
    done = {name: present(operation.count) for name, operation in result.operations.items()}
    moments = (engine.begin, engine.end)
    read = [moment["rocksdb_number_keys_read_count"] for moment in moments]
    wrote = [moment["rocksdb_number_keys_written_count"] for moment in moments]
    # The last reading comes behind all of them.
    assert 0 <= read[0] < read[1] == done["read"] + done["update"] == 50_000
    assert 0 <= wrote[0] <= wrote[1] == done["update"]
    assert "Level Files Size" in engine.text["rocksdb_levels"]
    assert "rocksdb_blobdb_blob_index_evicted_bytes" in engine.end
    assert not [name for name in engine.end if name.endswith("_size_count")]
    assert engine.end["rocksdb_wal_bytes"] > engine.begin["rocksdb_wal_bytes"]


def test_java_s_tickers_have_the_native_client_s_names(lab, golden):
    told = {
        "tickers": "rocksdb.blobdb.blob.index.evicted.size COUNT : 7\n"
        "rocksdb.blobdb.blob.index.evicted.count COUNT : 2\n"
        "rocksdb.block.cache.bytes.read COUNT : 3\nrocksdb.stall.micros COUNT : 5\n",
        "pending_compaction_bytes": 0, "levels": "", "statistics": "",
    }  # fmt: skip
    store = Store.of(lab).restored(golden, lab.places())
    counters, _ = store.engine.ycsb_counters(told)
    assert counters == {
        "rocksdb_blobdb_blob_index_evicted_bytes": 7, "rocksdb_blobdb_blob_index_evicted_count": 2,
        "rocksdb_block_cache_read_bytes": 3, "rocksdb_stall_ns": 5000,
        "rocksdb_pending_compaction_bytes": 0,
    }  # fmt: skip
    assert counters.keys() <= store.run(duration_ns=100_000_000).engine.end.keys()


def test_without_statistics_there_are_no_tickers(lab, golden):
    store = Store.of(lab, options={"statistics": "off"}).restored(golden, lab.places())
    told = store.run(duration_ns=200_000_000).engine.end
    assert "rocksdb_number_keys_read_count" not in told


def test_a_damaged_table_fails_the_run_in_rocksdbs_words(lab, golden):
    places = lab.places()
    store = Store.of(lab, {"compression": "kNoCompression"}).restored(golden, places)
    (table, *_) = (places["data"] / "rocksdb").glob("*.sst")
    with table.open("r+b") as file:
        file.seek(1000)
        file.write(b"\0" * 4000)
    with pytest.raises(RunFailed, match="Corruption"):
        store.run(operations=20_000)


def test_a_killed_client_does_not_keep_the_data_open(lab, golden):
    store = Store.of(lab).restored(golden, lab.places())
    killed = []

    def kill() -> None:
        (client,) = store.engine.processes()
        os.kill(client.pid, signal.SIGKILL)
        killed.append(client)

    with pytest.raises(RunFailed, match="killed by signal 9"):
        store.run(measuring=kill, duration_ns=20_000_000_000)
    assert not alive(killed[0]) and store.engine.processes() == []
    # RocksDB recovers what was acknowledged from its log: all records are there.
    assert store.verified().missing == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted by root only")
def test_a_full_disk_fails_the_run_with_its_reason(lab, golden):
    small = lab.directory("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "none", small], check=True)
    try:
        store = Store.of(lab).restored(golden, lab.places(wal=small))
        with pytest.raises(RunFailed, match=os.strerror(errno.ENOSPC)):
            store.run(duration_ns=60_000_000_000)
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_flush_of_a_run_is_found_in_its_log(lab, golden):
    store = Store.of(lab, {"write_buffer_size": "65536"}).restored(golden, lab.places())
    before = time.monotonic_ns()
    store.run(operations=20_000, **NOTHING | {"updateproportion": 1.0})
    after = time.monotonic_ns()
    tasks = store.engine.background_tasks()
    assert tasks["flush"]
    times = [at for spans in tasks.values() for span in spans for at in span]
    assert all(before < at < after for at in times)


# The cache of whole records ---------------------------------------------------------


def counted(lab, golden: Path, **settings: str) -> tuple[Store, dict[str, float]]:
    """A store, and RocksDB's counters behind a run of reads alone; they begin with the client."""
    store = Store.of(lab, settings).restored(golden, lab.places())
    counters = store.run(operations=10 * RECORDS, **NOTHING | {"readproportion": 1.0}).engine.end
    return store, {name: value for name, value in counters.items() if name.endswith("_count")}


def test_a_run_with_it_counts_what_it_answered(lab, golden):
    store, added = counted(lab, golden, row_cache="16M")
    reads = added["rocksdb_number_keys_read_count"]
    assert reads == 10 * RECORDS
    assert added["rocksdb_row_cache_hit_count"] > 0.5 * reads
    # The block cache has seen the others alone.
    assert added["rocksdb_block_cache_data_hit_count"] < 0.5 * reads
    assert store.engine.effective_config()["row_cache"] == str(ROW_CACHE)
    store.engine.stop()  # which compares the size with what the library says
    counts = store.verified()
    assert (counts.records, counts.missing, counts.malformed) == (RECORDS, 0, 0)


def test_a_run_without_it_says_so(lab, golden):
    store, added = counted(lab, golden)
    assert added["rocksdb_row_cache_hit_count"] == added["rocksdb_row_cache_miss_count"] == 0
    assert added["rocksdb_block_cache_data_hit_count"] > 0
    assert store.engine.effective_config()["row_cache"] == "0"
    store.engine.stop()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Options.row_cache: 8388608", "row_cache=16777216 would be 8388608"),
        ("Options.row_cache: None", "row_cache=16777216 would be 0"),
        ("", "row_cache=16777216 would be unknown"),
    ],
)
def test_a_run_with_another_one_fails(lab, golden, line, words):
    """Planted: a log that names another one."""
    places = lab.places()
    store = Store.of(lab, {"row_cache": "16M"}).restored(golden, places)
    store.run(duration_ns=100_000_000)
    log = places["data"] / "rocksdb" / "LOG"
    text = log.read_text()
    assert f"Options.row_cache: {ROW_CACHE}" in text
    log.write_text(text.replace(f"Options.row_cache: {ROW_CACHE}", line))
    with pytest.raises(RunFailed, match=words):
        store.engine.stop()


# When it flushed and compacted, from its info log -------------------------------------

#: The wall clock, ahead of the monotonic one by AHEAD.
BEGAN_US, AHEAD, S = 1_700_000_000_000_000, 1_699_999_000 * 10**9, 10**9


def event(at_s: float, name: str, job: int) -> str:
    text = json.dumps({"time_micros": BEGAN_US + round(at_s * 1e6), "job": job, "event": name})
    return f"2023/11/14-22:13:20.000000 140 EVENT_LOG_v1 {text}\n"


def test_jobs_that_overlap_are_one_time_at_work():
    log = "".join([
        event(1, "compaction_started", 1),
        event(2, "compaction_started", 2),
        event(2, "flush_started", 3),
        event(3, "compaction_finished", 1),
        event(4, "flush_finished", 3),
        event(5, "compaction_finished", 2),
        event(7, "compaction_started", 4),
        event(8, "compaction_finished", 4),
    ])  # fmt: skip
    assert background_tasks(log, AHEAD, 0) == {
        "flush": [(1002 * S, 1004 * S)],
        "compaction": [(1001 * S, 1005 * S), (1007 * S, 1008 * S)],
    }


def test_a_job_that_did_not_end_lasts_until_the_database_was_closed():
    log = event(1, "flush_started", 1)
    assert background_tasks(log, AHEAD, 1009 * S) == {"flush": [(1001 * S, 1009 * S)]}


# Changes of a record by several threads at once: none is lost, however they are made ----

THREADS, KEYS, ROUNDS = 4, 3, 2000


@pytest.fixture(scope="session")
def writers(tmp_path_factory):
    return built("rocksdb_writers", tmp_path_factory.mktemp("writers"))


def written(lab, writers: Path, verb: str, settings: dict[str, str] | None = None):
    """The records after all threads have counted up in their fields."""
    engine = lab.engine("rocksdb")
    engine.initialise(lab.places())
    connection = {**engine.native_connection(), "disable_wal": False, "options": settings or {}}
    request = {
        "connection": connection,
        "verb": verb, "threads": THREADS, "keys": KEYS, "rounds": ROUNDS,
    }  # fmt: skip
    done = subprocess.run(
        [str(writers), json.dumps(request)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


COUNTED = {
    f"key{key}": {f"field{writer}": str(ROUNDS) for writer in range(THREADS)} for key in range(KEYS)
}


@pytest.mark.parametrize("verb", ["modify", "merge"])
def test_no_change_of_a_record_is_lost(lab, writers, verb):
    assert written(lab, writers, verb) == COUNTED


def test_reading_and_writing_with_nothing_in_between_loses_changes(lab, writers):
    """Baseline of the other tests: these threads do get in each other's way."""
    tries = 20  # on a busy machine they may run one after the other
    assert any(written(lab, writers, "careless") != COUNTED for _ in range(tries))


@pytest.mark.parametrize(("call", "rows"), [("get :key", 1), ("scan :key :length", 3)])
def test_reading_touches_all_of_a_value(tmp_path, call, rows):
    """Whatever holds it is part of the latency, also where no field is verified."""
    program = built("rocksdb_touched", tmp_path, "loadgen.c")
    done = subprocess.run([str(program), call], capture_output=True, text=True, check=True)
    touched, pages = map(int, done.stdout.split())
    assert touched == pages == 8 * rows


def test_merging_is_the_same_when_operands_meet_in_compactions(lab, writers):
    """Memtables so small that operands are flushed apart and merged by compactions."""
    small = {"write_buffer_size": "65536", "level0_file_num_compaction_trigger": "2"}
    assert written(lab, writers, "merge", small) == COUNTED
