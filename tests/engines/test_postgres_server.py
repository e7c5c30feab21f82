"""A managed PostgreSQL: its parts, its processes, its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from open_files import opened

from engines.postgres import counters
from harness.engine import QueryTimeout
from harness.errors import RunFailed
from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.supervise.process import alive
from harness.workload import Session

SPILL = "select count(*) from (select md5(i::text) from generate_series(1, 200000) i order by 1) x"


@pytest.fixture
def started(lab: Any) -> Any:
    engine = lab.started("postgres", {"work_mem": "64kB"})
    return engine


@pytest.fixture(scope="module")
def running(module_lab: Any) -> Iterator[Any]:
    """One server for the tests that do it no harm."""
    engine = module_lab.started("postgres", {"work_mem": "64kB"})
    yield engine
    engine.stop()


def open_files(engine: Any) -> set[Path]:
    return opened(*(process.pid for process in engine.processes()))


@pytest.mark.parametrize("release", ["machine", "18.4"])
def test_every_part_lies_where_it_was_placed(lab: Any, release: str) -> None:
    options = {} if release == "machine" else {"version": release}
    engine = lab.engine("postgres", {"work_mem": "64kB"}, options)
    places = lab.places()
    engine.initialise(places)
    engine.start()
    connection = engine.connect()
    connection.execute("create table t as select generate_series(1, 1000) as i")
    connection.execute("create index t_i on t (i) tablespace harness_index")
    connection.execute("checkpoint")
    connection.execute(SPILL)

    at = dict(
        connection.execute("select spcname, pg_tablespace_location(oid) from pg_tablespace").rows
    )
    assert Path(at["harness_index"]).is_relative_to(places["index"])
    assert Path(at["harness_temp"]).is_relative_to(places["temp"])
    index = connection.execute("select pg_relation_filepath('t_i')").rows[0][0]
    data = places["data"] / "pgdata"
    assert (data / index).resolve().is_relative_to(places["index"])
    assert list(places["temp"].rglob("pgsql_tmp")), "the sort spilled somewhere else"
    assert not list(places["data"].rglob("pgsql_tmp"))
    segments = [f for f in open_files(engine) if f.is_relative_to(places["wal"])]
    assert segments, "no process has a WAL segment open in the WAL's place"
    assert not any(f.is_relative_to(data / "pg_wal") for f in open_files(engine))
    engine.stop()


def test_kill_leaves_no_process_and_no_shared_memory(lab: Any, started: Any) -> None:
    processes = list(started.processes())
    maps = Path(f"/proc/{processes[0].pid}/maps").read_text()
    shared = {line.split()[-1] for line in maps.splitlines() if "/dev/shm/PostgreSQL" in line}
    pid_file = next(lab.root.rglob("postmaster.pid"))
    segment = pid_file.read_text().splitlines()[6].split()[1]
    assert shared and segment in [line.split()[1] for line in _segments()]
    started.kill()
    assert [p for p in processes if alive(p)] == []
    assert [path for path in shared if Path(path).exists()] == []
    assert segment not in [line.split()[1] for line in _segments()]


def _segments() -> list[str]:
    return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]


def test_values_come_back_as_python_values(running: Any) -> None:
    result = running.connect().execute("select 1, 1.50::numeric, 'x'::char(3), null, 0.5::float8")
    assert result.rows == [(1, Decimal("1.50"), "x  ", None, 0.5)]
    assert result.duration_ns > 0


def test_timeout_and_errors_leave_the_connection_usable(running: Any) -> None:
    connection = running.connect()
    with pytest.raises(QueryTimeout):
        connection.execute("select pg_sleep(60)", timeout_s=0.05)
    with pytest.raises(RunFailed, match='select nope: column "nope" does not exist'):
        connection.execute("select nope")
    assert connection.execute("select 1").rows == [(1,)]
    assert connection.execute("show statement_timeout").rows == [("0",)]


def test_settings_counters_and_secrets(running: Any) -> None:
    connection = running.connect()
    before = running.counters()
    connection.execute(SPILL)
    after = running.counters()
    written = after["spilled_bytes"] - before["spilled_bytes"]
    assert written > 200_000 * 32  # the sorted texts themselves
    config = running.effective_config()
    assert config["work_mem"] == "64kB" and config["fsync"] == "on"
    assert not any("password" in name for name in config)


def test_reading_the_counters_is_not_counted(lab: Any) -> None:
    engine = lab.started("postgres", {"autovacuum": "off"})
    connection = engine.connect()
    monitors = [ProcessMonitor(MonitorContext(engine.processes))]
    session = Session(engine, SilentProgress(), None, drop_caches=False, monitors=monitors)
    for _ in range(3):
        for _ in range(5):  # who drops the kernel's caches meanwhile makes the server's code cold
            before = session.counters("before")
            after = session.counters("after")
            if after["io_read_bytes"] == before["io_read_bytes"]:
                break
        assert delta(before, after) == {}
        assert after["io_read_bytes"] == before["io_read_bytes"]
        connection.execute("select 1")
        assert delta(before, session.counters("after"))["postgres_commits_count"] == 1
    another = engine.connect()  # it is calibrated again, which is not counted either
    before = engine.counters()
    another.execute("select 1")
    assert delta(before, engine.counters())["postgres_commits_count"] == 1
    engine.stop()


def delta(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What has changed of the sums that belong to the measured database and its backends."""
    names = [n for n in after if not n.startswith(("postgres_checkpoint", "postgres_wal"))]
    ours = [
        n for n in names if n.startswith("postgres_") and "written" not in n and "fsync" not in n
    ]
    return {n: after[n] - before[n] for n in ours if after[n] != before[n]}


def test_a_release_that_cannot_publish_its_sums_has_none() -> None:
    class Old:
        info = SimpleNamespace(server_version=140012)

    old: Any = Old()
    assert counters.read(old, "harness") == {}
