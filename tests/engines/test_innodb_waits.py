"""Waits of MySQL and MariaDB on real servers: what a session waits for is what was planted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from observed_waits import observed

from harness.errors import RunFailed


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
        found = observed(server, lambda totals: totals.waits["other"] > 3e8)
    assert found.waits["lock"] < found.waits["other"]
