"""DuckDB in its worker process: its parts, its times, its end."""

import os
import shutil
import tempfile
import threading
from contextlib import closing, suppress
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from lab import execute
from open_files import opened, seen_below

from engines._settings import NOT_RECORDED
from harness.engine import LoadRequest, QueryTimeout
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_values import decode, encode

SMALL = {"memory_limit": "64MiB", "threads": "1"}
SPILL = "select count(*) from (select md5(i::text) m from range(3000000) t(i) order by m) x"


@pytest.fixture
def started(lab):
    return lab.started("duckdb", fresh=True)


def check_places(engine, data: Path, wal: Path) -> None:
    """Write, checkpoint and reopen; the WAL must come back in its place each time."""
    for _ in range(2):
        connection = engine.connect()
        connection.execute("create or replace table t (i integer)")
        for _ in range(2):  # a checkpoint replaces the WAL file
            connection.execute("insert into t select range from range(1000)")
            assert {
                f.parent for f in opened(engine.processes()[0].pid) if f.name.endswith(".wal")
            } == {wal}
            assert (wal / "harness.duckdb.wal").stat().st_size > 0
            if wal != data:
                assert not list(data.rglob("*.wal"))
            connection.execute("checkpoint")
        engine.stop()
        assert not list(wal.rglob("*.wal"))
        engine.start()


def test_on_one_tier_the_wal_is_next_to_the_database(started):
    data = started.places["data"] / "duckdb"
    check_places(started, data, data)


def test_on_another_tier_the_wal_lies_in_its_own_place(lab, other_tier):
    engine = lab.started("duckdb", fresh=True, wal=other_tier)
    folder = engine.places["data"] / "duckdb"
    check_places(engine, folder, other_tier)
    (process,) = engine.processes()
    data = (folder / "harness.duckdb").stat()
    opened = set()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.add(descriptor.stat().st_ino)
    assert data.st_ino in opened
    assert "harness.duckdb" not in Path("/proc/self/mounts").read_text()
    golden = lab.stored(engine)
    # Data and WAL the other way round.
    again = lab.started("duckdb", dataset=golden, data=_emptied(other_tier))
    assert execute(again, "select count(*) from t") == [(2000,)]
    check_places(again, other_tier / "duckdb", again._opened.parent)


def test_what_is_committed_during_a_checkpoint_is_in_a_second_file_of_the_wal(lab, other_tier):
    settings = {"debug_checkpoint_scan_sleep_ms": "200", "checkpoint_threshold": "1GiB"}
    engine = lab.engine("duckdb", settings)
    places = lab.places(wal=other_tier)
    engine.initialise(places)
    engine._loading = False
    engine.start()
    connection, other, reader = engine.connect(), engine.connect(), engine.connect()
    connection.execute("create table t as select range i from range(1000)")
    connection.execute("create table u (i integer)")
    connection.execute("checkpoint")
    names = {f"harness.duckdb.wal{suffix}" for suffix in ("", ".checkpoint")}

    def write_checkpoint() -> None:
        with suppress(RunFailed):  # killed below
            other.execute("checkpoint")

    def committed_meanwhile() -> bool:
        """Return whether a commit did not wait for the end of the checkpoint."""
        connection.execute("update t set i = i + 1000")
        reader.execute("begin")
        reader.execute("select count(*) from u")
        # Committed after the reader began, so that the checkpoint may not lock others out.
        connection.execute("insert into u values (7)")
        checkpoint = threading.Thread(target=write_checkpoint, daemon=True)
        checkpoint.start()
        while checkpoint.is_alive():
            connection.execute("insert into u values (7)")
            if (other_tier / "harness.duckdb.wal.checkpoint").exists():
                return True
        reader.execute("rollback")
        return False

    assert any(committed_meanwhile() for _ in range(20))  # a busy machine may let none by
    connection.execute("insert into u values (8)")
    assert {f.name for f in engine.files()[1:]} == names
    assert {f.name for f in opened(engine.processes()[0].pid) if ".wal" in f.name} <= names
    assert not list(places["data"].rglob("*.wal*"))
    assert engine.effective_config()["storage_version"].startswith("v2.")
    engine.kill()

    engine.start()
    assert execute(engine, "select count(*) from u where i = 8") == [(1,)]
    engine.stop()
    assert not list(other_tier.glob("*.wal*"))


def test_the_storage_version_is_part_of_the_dataset_s_key(lab):
    name = "storage_compatibility_version"
    ((default,),) = duckdb.execute(f"select current_setting('{name}')").fetchall()
    assert lab.engine("duckdb").format_options()[name] == default
    assert lab.engine("duckdb", {name: "v1.2.0"}).format_options()[name] == "v1.2.0"


@pytest.fixture
def other_tier(lab):
    """A directory on another file system than the temporary files."""
    path = Path(tempfile.mkdtemp(prefix="tb-test-", dir="/dev/shm"))
    if (user := lab.credentials) is not None:
        os.chown(path, user.uid, user.gid)
    assert path.stat().st_dev != Path(tempfile.gettempdir()).stat().st_dev
    yield path
    shutil.rmtree(path)


def _emptied(folder: Path) -> Path:
    for path in folder.iterdir():
        path.unlink()
    return folder


def test_spilled_data_go_to_the_temp_part(lab):
    engine = lab.started("duckdb", SMALL)
    places = engine.places
    with seen_below(places["temp"], places["data"], places["wal"]) as seen:
        execute(engine, SPILL)
    engine.kill()
    spilled = {path for path in seen if "temp" in path.name}
    assert spilled and all(path.is_relative_to(places["temp"]) for path in spilled)


def test_a_load_uses_only_the_profile_s_settings_in_the_dataset_key(lab):
    profile = {"threads": "1", "memory_limit": "64MiB", "force_compression": "uncompressed"}
    engine = lab.started("duckdb", profile, fresh=True)
    assert engine.format_options()["force_compression"] == "uncompressed"
    config = engine.effective_config()
    loading = {"threads": "2", "memory_limit": "819.1 MiB", "force_compression": "uncompressed"}
    assert {name: config[name].lower() for name in loading} == {
        name: value.lower() for name, value in loading.items()
    }
    engine.restore(lab.stored(engine), lab.places())
    engine.start()
    config = engine.effective_config()
    assert (config["threads"], config["memory_limit"]) == ("1", "64.0 MiB")
    assert config["autoinstall_known_extensions"] == "false"
    with closing(engine.connect()) as connection:
        connection.execute("set global file_search_path = '/hunter2'")
    assert engine.effective_config()["file_search_path"] == NOT_RECORDED


def test_timeout_and_errors_leave_the_connection_usable(started):
    connection = started.connect()
    with pytest.raises(QueryTimeout):
        connection.execute("select count(*) from range(10000000000) t(i)", timeout_s=0.05)
    with pytest.raises(RunFailed, match="nope"):
        connection.execute("select nope")
    assert connection.execute("select 1", timeout_s=60).rows == [(1,)]


def test_what_is_spilled_is_counted_and_what_is_written_is_not(lab):
    """The sort reads back all that it spilled: the profiler's sum of bytes read is the same.

    (Its sum of bytes written is too small: less than the peak of the temporary directory.)
    """
    engine = lab.started("duckdb", SMALL)
    connection = engine.connect()
    connection.execute("select 1")
    assert engine.counters()["spilled_bytes"] == 0
    connection.execute("create table t as select i from range(1000000) r(i)")
    connection.execute("checkpoint")
    connection.execute("select repeat('x', 1000000)")  # a large answer goes through the pipe
    assert engine.counters()["spilled_bytes"] == 0
    profiled = engine.explain(connection, SPILL).extra
    assert engine.counters()["spilled_bytes"] == profiled["bytes_read"] > 10 << 20
    assert engine.counters()["spilled_bytes"] >= profiled["peak_temp_bytes"]
    connection.execute(SPILL)
    assert engine.counters()["spilled_bytes"] > 1.5 * profiled["bytes_read"]


def test_spilled_bytes_are_unknown_next_to_writes(started):
    reader, writer = started.connect(), started.connect()
    writer.execute("create table t (i integer)")

    def read(ended: threading.Event) -> None:
        reader.execute("select count(*) from range(30000000) t(i) where i % 7 = hash(i) % 7")
        ended.set()

    for _ in range(10):  # until they were at work together, whoever had to wait for a processor
        ended = threading.Event()
        thread = threading.Thread(target=read, args=(ended,))
        thread.start()
        while not ended.is_set():
            writer.execute("insert into t values (1)")
        thread.join()
        if "spilled_bytes" not in started.counters():
            break
    assert "spilled_bytes" not in started.counters()


@pytest.mark.parametrize(
    "value",
    [None, 1, 2**80, 0.1, float("inf"), "x  ", Decimal("1.50"), date(1998, 12, 1), True],
)
def test_values_survive_the_pipe(value):
    decoded = decode(encode(value))
    assert decoded == value and type(decoded) is type(value)


def test_load_and_plan(started, tpch_parquet):
    started.bulk_load(
        LoadRequest(
            started.sql("tpch"), tpch_parquet.files, tpch_parquet.row_counts, SilentProgress()
        )
    )
    connection = started.connect()
    rows = connection.execute("select count(*), max(l_shipdate) from lineitem").rows
    assert rows == [(tpch_parquet.row_counts["lineitem"], date(1998, 11, 29))]
    assert list(started.places["data"].rglob("*.wal")) == [], "the load ends with a checkpoint"

    plan = started.explain(
        connection,
        "select o_orderpriority, count(*) from orders join lineitem on o_orderkey = l_orderkey "
        "group by 1 order by 1",
    )
    scanned = {o.relation for o in plan.operators.walk() if o.kind == "scan"}
    assert scanned == {"orders", "lineitem"}
    assert {"scan", "join", "aggregate", "sort"} <= set(plan.time_by_kind_ns())
    total = sum(o.time_ns for o in plan.operators.walk())
    assert plan.clock == "scaled"
    cpu_ns = total * plan.extra["threads_at_work"]
    assert abs(cpu_ns - plan.extra["cpu_ns"]) <= 0.01 * cpu_ns
    assert abs(sum(plan.time_by_kind_ns().values()) - plan.duration_ns) <= 0.01 * plan.duration_ns


def test_wrong_row_count_is_a_failure(started, tpch_parquet):
    counts = tpch_parquet.row_counts | {"nation": 26}
    with pytest.raises(RunFailed, match=r"26 .*nation.*25 "):
        started.bulk_load(
            LoadRequest(started.sql("tpch"), tpch_parquet.files, counts, SilentProgress())
        )
