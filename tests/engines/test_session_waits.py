"""Sessions on real servers: what they wait for is what was planted, and what is no footprint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from observed_waits import executing, observed

from harness.progress import SilentProgress
from harness.waits import WaitTotals
from harness.workload import Session

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
def server(request: pytest.FixtureRequest, module_lab: Any) -> Iterator[Any]:
    engine = module_lab.started(request.param)
    with closing(engine.connect()) as connection:
        connection.execute("create table t (n int primary key)")
        connection.execute("insert into t values (1)")
    yield engine
    engine.kill()


@pytest.mark.only(*ENDLESS)
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


@pytest.mark.only(*ENDLESS)
def test_a_session_that_computes_runs_and_uses_the_processor(server: Any) -> None:
    with executing(server, ENDLESS[server.name][0]):
        found = observed(server, lambda totals: totals.running_ns > 3e8 and totals.cpu_ns > 0)
    assert found.running_ns > sum(found.waits.values())


@pytest.mark.only(*ENDLESS)
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


def is_none(taken: Mapping[str, float]) -> bool:
    files, memory = taken.get("touched_file_bytes"), taken["anonymous_peak_bytes"]
    # A page or two, not catalogs: the connection queries its own statistics again.
    return files is not None and files < 64 << 10 and memory < 256 << 10


def test_what_the_harness_itself_reads_is_no_footprint(server: Any) -> None:
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
