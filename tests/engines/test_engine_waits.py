"""Waits of sessions and threads of real engines, and the cost of observing them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from lab import execute
from patience import eventually

from engines._thread_waits import ThreadObserver
from engines.postgres.waits import ActivityObserver
from harness.errors import RunFailed
from harness.monitors import MonitorContext
from harness.monitors.waits import WaitMonitor
from harness.progress import SilentProgress
from harness.supervise.process import ProcessId, process_identity
from harness.waits import Observation, SampledWaits, WaitTotals
from harness.workload import Session


def observed(engine, enough: Callable[[WaitTotals], bool]) -> WaitTotals:
    """Totals of observations until there are enough of what is expected."""
    waits = SampledWaits(engine.wait_observer())

    def now() -> WaitTotals:
        waits.sample()
        return waits.totals()

    try:
        assert eventually(lambda: enough(now()))
        return waits.totals()
    finally:
        waits.close()


@contextmanager
def executing(engine, sql: str) -> Iterator[None]:
    """A session that executes ``sql``; it is cancelled at the end."""

    def run() -> None:
        with suppress(RunFailed):
            connection.execute(sql)

    with closing(engine.connect()) as connection:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            while thread.is_alive():  # it may not have begun
                connection.cancel()
                thread.join(0.1)


# Sessions on real servers -------------------------------------------------------

#: Statements without an end: one that computes, and one that sleeps.
ENDLESS = {
    "postgres": ("do $$ begin loop perform 1; end loop; end $$", "select pg_sleep(1e6)"),
    **dict.fromkeys(
        ("mysql", "mariadb"),
        ("select benchmark(1000000000000, sha2('a', 256))", "select sleep(1e6)"),
    ),
}


#: On a busy machine a server still does things of its own when it answers already.
TRIES = 20


@pytest.fixture(scope="module", params=(*ENDLESS, "duckdb"))
def server(request, module_lab):
    engine = module_lab.started(request.param)
    execute(engine, "create table t (n int primary key)", "insert into t values (1)")
    yield engine
    engine.kill()


@pytest.mark.only(*ENDLESS)
def test_a_session_that_needs_a_locked_row_waits_for_a_lock(server):
    # PostgreSQL reports the holder, too: within its transaction, it waits for its client.
    expected = {"lock", "client"} if server.name == "postgres" else {"lock"}

    def mostly_waits(totals: WaitTotals) -> bool:
        """Return whether it is long since it began, however long that took."""
        others = [ns for name, ns in totals.waits.items() if name not in expected]
        return totals.waits["lock"] > 5e8 + 4 * (totals.running_ns + sum(others))

    with closing(server.connect()) as holder:
        holder.execute("begin")
        holder.execute("update t set n = 2")
        with executing(server, "update t set n = 3"):
            totals = observed(server, mostly_waits)
        holder.execute("rollback")
    assert all(totals.waits[name] > 0 for name in expected)


@pytest.mark.only(*ENDLESS)
def test_a_session_that_computes_runs_and_uses_the_processor(server):
    with executing(server, ENDLESS[server.name][0]):
        observed(
            server,
            lambda totals: (
                totals.running_ns > 3e8 + sum(totals.waits.values()) and totals.cpu_ns > 0
            ),
        )


@pytest.mark.only(*ENDLESS)
def test_sleeping_is_neither_a_lock_nor_the_processor(server):
    with executing(server, ENDLESS[server.name][1]):
        totals = observed(
            server, lambda totals: totals.waits.get("other", 0) > 3e8 + totals.waits["lock"]
        )
    if server.name == "postgres":
        assert totals.waits["lock"] == 0


@pytest.mark.only("mysql", "mariadb")
def test_a_checkpoint_is_at_work_while_its_position_advances(server):
    connection = server.connect()
    connection.execute("create table c (n int primary key, text varchar(2000))")
    connection.execute("set global innodb_max_dirty_pages_pct = 0")
    numbers = iter(range(100_000))

    def checkpointed(totals: WaitTotals) -> bool:
        connection.execute(f"insert into c values ({next(numbers)}, repeat('x', 2000))")
        return totals.background.get("checkpoint", 0) > 0

    observed(server, checkpointed)


def is_none(taken: Mapping[str, float]) -> bool:
    files, memory = taken.get("touched_file_bytes"), taken["anonymous_peak_bytes"]
    # A page or two, not catalogs: the connection queries its own statistics again.
    return files is not None and files < 64 << 10 and memory < 256 << 10


def test_what_the_harness_itself_reads_is_no_footprint(server):
    """The last: it starts the server again."""
    session = Session(server, SilentProgress(), None, drop_caches=False)
    for _ in range(TRIES):
        session.cold_start("q1")
        connection = server.connect()
        footprint = session.footprint()
        session.counters("before")  # and then no statement at all
        taken = footprint.taken()
        connection.close()
        if is_none(taken):
            break
    assert is_none(taken), taken


# PostgreSQL's wait events: restarts, checkpoints, what observing costs ------------


@pytest.mark.only("postgres")
def test_observing_resumes_after_a_restart(server):
    monitor = WaitMonitor(MonitorContext(server.processes, server.wait_observer))
    monitor.start()
    try:
        server.stop()
        server.start()
        with executing(server, "select pg_sleep(1e6)"):
            assert eventually(lambda: monitor.totals()["wait_ns[resource=other]"] > 0)
    finally:
        monitor.stop()


@pytest.mark.only("postgres")
def test_observing_does_not_count_as_the_workload(server):
    server.counters()  # connects
    before = server.counters()
    monitor = WaitMonitor(MonitorContext(server.processes, server.wait_observer))
    monitor.start()
    for _ in range(20):
        monitor.totals()
    monitor.stop()
    name = "postgres_commits_count"
    assert server.counters()[name] == before[name]


@pytest.mark.only("postgres")
def test_the_checkpointer_is_at_work_in_a_checkpoint(server):
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


def test_asynchronous_reads_of_release_18_are_data_reads_of_the_foreground(lab):
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


@pytest.mark.only("postgres")
def test_background_processes_have_the_titles_by_which_the_io_trace_knows_them(server):
    titles = tuple(server.background_threads)

    def background() -> set[str]:
        names = set()
        for process in server.processes():
            with suppress(OSError):  # a worker of that moment has ended
                title = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0]
                if f"title={title}".startswith(titles):
                    names.add(title.rsplit(": ")[-1].strip())
        return names

    # A process that was just forked still has the server's title.
    assert eventually(lambda: {"checkpointer", "background writer", "walwriter"} <= background())


# Threads of a real process that waits in what a log and tables would ------------

#: Threads that write to a full log, read a table, and wait for another thread; one is idle.
PROGRAM = """
import os, sys, threading
log, table, *waiting = sys.argv[1:]

def named(name, work):
    def run():
        open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(name)
        work()
    threading.Thread(target=run).start()

def fill():
    end = os.open(log, os.O_RDWR)
    while True:
        os.write(end, bytes(4096))

lock = threading.Lock()
lock.acquire()
if "log" in waiting:
    named("session", fill)
named("session", lambda: os.read(os.open(table, os.O_RDWR), 1))
named("session", lock.acquire)
named("background", lock.acquire)
"""

ENDLESS_IN_DUCKDB = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"


@pytest.fixture
def files(tmp_path):
    names = str(tmp_path / "7.log"), str(tmp_path / "7.sst")
    for name in names:
        os.mkfifo(name)
    return names


def events(files: Sequence[str], *waiting: str) -> Generator[set[str], None, None]:
    """Yield the observed events of the program's sessions, again and again."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *files, *waiting])
    try:
        identity = process_identity(process.pid)
        assert identity is not None
        observer = ThreadObserver(
            lambda: [identity],
            foreground=lambda name: name == "session",
            is_log=lambda path: path.endswith(".log"),
            idle=frozenset({"poll"}),
        )
        while True:
            yield {
                observation.event
                for observation in observer.observe()
                if observation != Observation("running")
            }
    finally:
        process.kill()
        process.wait()


def test_calls_and_files_say_what_a_thread_waits_for(files):
    seen = events(files)
    assert eventually(lambda: next(seen) == {"read data", "futex"})
    seen.close()


def test_threads_that_wait_while_one_writes_the_log_wait_for_it(files):
    seen = events(files, "log")
    expected = {"write log", "read data", "futex group commit"}
    assert eventually(lambda: next(seen) == expected)
    seen.close()


def test_a_thread_that_begins_or_ends_is_noticed_between_two_lists():
    """Threads are listed once a second, and this clock stands still."""
    process = process_identity(os.getpid())
    assert process is not None
    lists: list[int] = []

    def listed() -> list[ProcessId]:
        lists.append(1)
        return [process]

    observer = ThreadObserver(listed, None, bool, frozenset(), clock=lambda: 0.0)
    enough = threading.Event()
    waits = [threading.Thread(target=enough.wait) for _ in range(2)]
    seen = len(observer.observe())
    for number, thread in enumerate(waits, 1):
        thread.start()
        assert len(observer.observe()) == seen + number
    assert len(lists) == 3
    assert len(observer.observe()) == seen + 2
    assert len(lists) == 3
    enough.set()
    for thread in waits:
        thread.join()
    assert eventually(lambda: len(observer.observe()) == seen)
    observer.close()


def test_each_event_belongs_to_a_resource():
    observer = ThreadObserver(tuple, bool, bool, frozenset({"poll"}))
    events = ("pread data", "fdatasync data", "write log", "fsync log", "futex", "call 9")
    resources = ["data read", "data write", "log write", "log sync", "lock", "other"]
    assert [observer.resource(event) for event in events] == resources
    assert "client" in observer.events.values()


def test_duckdb_s_threads_run_while_it_executes_and_are_idle_otherwise(lab):
    engine = lab.started("duckdb", fresh=True)
    try:
        observer = engine.wait_observer()
        assert eventually(lambda: not observer.observe())
        connection = engine.connect()

        def run() -> None:
            with suppress(RunFailed):  # the worker is killed
                connection.execute(ENDLESS_IN_DUCKDB)

        thread = threading.Thread(target=run)
        thread.start()
        assert eventually(
            lambda: any(observation.state == "running" for observation in observer.observe())
        )
    finally:
        engine.kill()
    thread.join()
