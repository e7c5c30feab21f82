"""PostgreSQL's wait events on a real server: restarts, checkpoints, and what observing costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from observed_waits import executing, observed
from patience import eventually

from engines.postgres.waits import ActivityObserver
from harness.monitors import MonitorContext
from harness.monitors.waits import WaitMonitor


@pytest.fixture(scope="module")
def server(module_lab: Any) -> Iterator[Any]:
    engine = module_lab.started("postgres")
    engine.connect().raw.execute("create table t as select 1 as n")
    yield engine
    engine.kill()


def test_observing_resumes_after_a_restart(server: Any) -> None:
    monitor = WaitMonitor(MonitorContext(server.processes, server.wait_observer))
    monitor.start()
    try:
        server.stop()
        server.start()
        with executing(server, "select pg_sleep(1e6)"):
            assert eventually(lambda: monitor.totals()["wait_ns[resource=other]"] > 0)
    finally:
        monitor.stop()


def test_observing_does_not_count_as_the_workload(server: Any) -> None:
    server.counters()  # connects
    before = server.counters()
    monitor = WaitMonitor(MonitorContext(server.processes, server.wait_observer))
    monitor.start()
    for _ in range(20):
        monitor.totals()
    monitor.stop()
    name = "postgres_commits_count"
    assert server.counters()[name] == before[name]


def test_the_checkpointer_is_at_work_in_a_checkpoint(server: Any) -> None:
    connection, enough = server.connect().raw, threading.Event()

    def checkpoints() -> None:
        while not enough.is_set():
            connection.execute("update t set n = n + 1")
            connection.execute("checkpoint")

    thread = threading.Thread(target=checkpoints)
    thread.start()
    try:
        observed(server, lambda totals: totals.background.get("checkpoint", 0) > 0)
    finally:
        enough.set()
        thread.join()


def test_asynchronous_reads_of_release_18_are_data_reads_of_the_foreground(lab: Any) -> None:
    server = lab.started("postgres", {"io_method": "worker"}, {"version": "18"})
    rows = server._query("select type, name from pg_wait_events")
    reads = {"IO:AioIoCompletion", "IO:AioIoUringExecution", "LWLock:AioUringCompletion"}
    assert reads <= {f"{kind}:{name}" for kind, name in rows}
    assert {ActivityObserver.events[name] for name in reads} == {"data read"}

    (title,) = server._query(
        "select 'postgres: harness: io worker ' from pg_stat_activity "
        "where backend_type = 'io worker' limit 1"
    )
    assert not f"title={title[0]}".startswith(tuple(server.background_threads))
    config = server.effective_config()
    assert (config["io_method"], config["io_workers"]) == ("worker", "3")
    server.stop()


def test_background_processes_have_the_titles_by_which_the_io_trace_knows_them(server):
    known = tuple(server.background_threads)

    def background() -> set[str]:
        found = set()
        for process in server.processes():
            with suppress(OSError):  # a worker of that moment has ended
                title = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0]
                if f"title={title}".startswith(known):
                    found.add(title.rsplit(": ")[-1].strip())
        return found

    # A process that was just forked still has the server's title.
    assert eventually(lambda: {"checkpointer", "background writer", "walwriter"} <= background())
