"""Waits of MySQL and MariaDB on real servers: what a session waits for is what was planted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from observed_waits import observed

from engines._innodb.waits import SessionObserver
from harness.engine import ProcessId
from harness.errors import RunFailed
from harness.waits import WaitTotals


@pytest.fixture(scope="module", params=("mysql", "mariadb"))
def server(request: pytest.FixtureRequest, module_lab: Any, empty_engines: Any) -> Iterator[Any]:
    engine = module_lab.engine(request.param)
    engine.restore(empty_engines.data(request.param), module_lab.places())
    engine.start()
    connection = engine.connect()
    connection.execute("create table t (n int primary key)")
    connection.execute("insert into t values (1)")
    yield engine
    engine.kill()


@contextmanager
def executing(engine: Any, sql: str) -> Iterator[None]:
    """A session that executes ``sql``; it is killed at the end."""
    connection = engine.connect()
    ((number,),) = connection.execute("select connection_id()").rows

    def run() -> None:
        with suppress(RunFailed):
            connection.execute(sql)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    engine.connect().execute(f"kill {number}")
    thread.join()


def test_a_checkpoint_is_at_work_while_its_position_advances(server: Any) -> None:
    connection = server.connect()
    connection.execute("create table c (n int primary key, text varchar(2000))")
    connection.execute("set global innodb_max_dirty_pages_pct = 0")
    numbers = iter(range(100_000))

    def checkpointed(totals: WaitTotals) -> bool:
        connection.execute(f"insert into c values ({next(numbers)}, repeat('x', 2000))")
        return totals.background.get("checkpoint", 0) > 0

    observed(server, checkpointed)


class Positions:
    """A connection to an idle server whose checkpoint is at these positions, reading by reading."""

    def __init__(self, *positions: int) -> None:
        self._positions = iter(positions)

    def run(self, sql: str) -> SimpleNamespace:
        status = sql.startswith("SHOW")
        return SimpleNamespace(rows=[("lsn", str(next(self._positions)))] if status else [])

    def close(self) -> None:
        pass


def test_the_checkpoint_is_read_once_a_second() -> None:
    times = iter((0.0, 0.5, 1.0, 1.5, 2.0))
    positions: Any = Positions(10, 10, 11)
    observer = SessionObserver(lambda: positions, "mysql", tuple, lambda: next(times))
    tasks = [[one.event for one in observer.observe()] for _ in range(5)]
    assert tasks == [[], [], [], [], ["checkpoint"]]


def test_the_server_is_looked_for_once_a_connection() -> None:
    """That takes milliseconds, and observations are made dozens of times a second."""
    looked: list[str] = []

    def processes() -> list[ProcessId]:
        looked.append("once")
        return [ProcessId(17, 0)]

    positions: Any = Positions(*range(9))
    observer = SessionObserver(lambda: positions, "mysql", processes)
    for _ in range(3):
        observer.observe()
    assert looked == ["once"]
    observer.close()
    observer.observe()
    assert looked == ["once", "once"]


def test_a_session_behind_a_row_lock_waits_for_a_lock(server: Any) -> None:
    holder = server.connect()
    holder.execute("begin")
    holder.execute("update t set n = 2")
    with executing(server, "update t set n = 3"):
        found = observed(server, lambda totals: totals.waits["lock"] > 5e8)
    holder.execute("rollback")
    others = [ns for name, ns in found.waits.items() if name != "lock"]
    assert found.waits["lock"] > 4 * (found.running_ns + sum(others))


def test_a_session_that_computes_runs_and_uses_the_processor(server: Any) -> None:
    with executing(server, "select benchmark(1000000000000, sha2('a', 256))"):
        found = observed(server, lambda totals: totals.running_ns > 3e8 and totals.cpu_ns > 0)
    assert found.running_ns > sum(found.waits.values())


def test_sleeping_is_neither_a_lock_nor_the_processor(server: Any) -> None:
    with executing(server, "select sleep(1e6)"):
        found = observed(server, lambda totals: totals.waits.get("other", 0) > 3e8)
    assert found.waits["lock"] < found.waits["other"]
