"""Waits of sessions on real servers: what a session waits for is what was planted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from observed_waits import executing, observed

from harness.waits import WaitTotals

#: Statements without an end: one that computes, and one that sleeps.
ENDLESS = {
    "postgres": ("do $$ begin loop perform 1; end loop; end $$", "select pg_sleep(1e6)"),
    **dict.fromkeys(
        ("mysql", "mariadb"),
        ("select benchmark(1000000000000, sha2('a', 256))", "select sleep(1e6)"),
    ),
}


@pytest.fixture(scope="module", params=ENDLESS)
def server(request: pytest.FixtureRequest, module_lab: Any, empty_engines: Any) -> Iterator[Any]:
    engine = module_lab.started(request.param, empty_engines.data(request.param))
    with closing(engine.connect()) as connection:
        connection.execute("create table t (n int primary key)")
        connection.execute("insert into t values (1)")
    yield engine
    engine.kill()


def test_a_session_that_needs_a_locked_row_waits_for_a_lock(server: Any) -> None:
    with closing(server.connect()) as holder:
        holder.execute("begin")
        holder.execute("update t set n = 2")
        with executing(server, "update t set n = 3"):
            found = observed(server, lambda totals: totals.waits["lock"] > 5e8)
        holder.execute("rollback")
    # PostgreSQL reports the holder, too: within its transaction, it waits for its client.
    expected = {"lock", "client"} if server.name == "postgres" else {"lock"}
    assert all(found.waits[name] > 0 for name in expected)
    others = [ns for name, ns in found.waits.items() if name not in expected]
    assert found.waits["lock"] > 4 * (found.running_ns + sum(others))


def test_a_session_that_computes_runs_and_uses_the_processor(server: Any) -> None:
    with executing(server, ENDLESS[server.name][0]):
        found = observed(server, lambda totals: totals.running_ns > 3e8 and totals.cpu_ns > 0)
    assert found.running_ns > sum(found.waits.values())


def test_sleeping_is_neither_a_lock_nor_the_processor(server: Any) -> None:
    with executing(server, ENDLESS[server.name][1]):
        found = observed(server, lambda totals: totals.waits.get("other", 0) > 3e8)
    assert found.waits["lock"] < found.waits["other"]
    if server.name == "postgres":
        assert found.waits["lock"] == 0


@pytest.mark.only("mysql", "mariadb")
def test_a_checkpoint_is_at_work_while_its_position_advances(server: Any) -> None:
    connection = server.connect()
    connection.execute("create table c (n int primary key, text varchar(2000))")
    connection.execute("set global innodb_max_dirty_pages_pct = 0")
    numbers = iter(range(100_000))

    def checkpointed(totals: WaitTotals) -> bool:
        connection.execute(f"insert into c values ({next(numbers)}, repeat('x', 2000))")
        return totals.background.get("checkpoint", 0) > 0

    observed(server, checkpointed)
