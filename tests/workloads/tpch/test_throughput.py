"""Query streams at the same time: all begin together, the first failure ends them all."""

import threading
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from idle_engine import IdleEngine
from patience import PATIENCE_S, eventually
from toy_session import ToySession

from harness.engine import QueryTimeout, SqlConnection, SqlResult
from harness.errors import RunFailed
from harness.workloads.query_runs import ResumeCursor
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.statements import query_order, query_sql, stream_statements
from harness.workloads.tpch.throughput import run_throughput

PARAMS = TpchParams.from_mapping(
    {"test": "throughput", "streams": 3, "scale": 0.01, "cache": "warm"}
)


@dataclass
class Toy(IdleEngine):
    """Answers at once; what one thread does can be made to wait for, or to break."""

    kind = "embedded"
    sql_folder: Path = Path("/nonexistent")
    name: str = "toy"
    running: set = field(default_factory=set)
    together: int = 0
    broken: str = ""
    slow: str = ""
    stuck: str = ""
    killed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    connections: list = field(default_factory=list)

    def connect(self):
        connection = Connection(self)
        self.connections.append(connection)
        return connection

    def kill(self):
        self.killed.set()


@dataclass
class Connection(SqlConnection):
    engine: Toy
    statements: list = field(default_factory=list)
    closed: bool = False

    def execute(self, sql, *, timeout_s=None):
        engine = self.engine
        with engine.lock:
            engine.running.add(id(self))
            engine.together = max(engine.together, len(engine.running))
        started = time.monotonic_ns()
        self.statements.append(sql)
        try:
            if sql == engine.broken:
                raise RunFailed("execute SQL", "deadlock detected")
            if sql == engine.slow:
                raise QueryTimeout
            if sql == engine.stuck:
                assert engine.killed.wait(PATIENCE_S)
                raise RunFailed("execute SQL", "the server is gone")
            if len(self.statements) == 1:  # until the others run, too
                assert eventually(lambda: engine.together >= 3)
            return SqlResult(("n",), [(1,)], started, time.monotonic_ns() - started)
        finally:
            with engine.lock:
                engine.running.discard(id(self))

    def close(self):
        self.closed = True


@pytest.fixture
def session(quiet):
    return ToySession(Toy(), quiet)


def run(session, **params):
    cursor = ResumeCursor(session, session.engine, "warm", 66)
    return run_throughput(
        replace(PARAMS, **{"warmups": 0, **params}), session, session.engine, None, 1, cursor
    )


def sql(stream, position):
    return stream_statements(PARAMS, Toy.sql_folder, stream)[position].sql


def test_every_stream_has_a_session_and_submits_its_queries_in_its_order(session):
    test = run(session)
    assert session.engine.together == 3
    assert [[e.statement.query for e in stream] for stream in test.streams] == [
        list(query_order(stream)) for stream in (1, 2, 3)
    ]
    assert len(session.engine.connections) == 3
    assert all(connection.closed for connection in session.engine.connections)
    for stream in test.streams:
        assert all(a.ended_ns <= b.submitted_ns for a, b in pairwise(stream))
        assert all(e.counters == {} for e in stream)  # nobody knows which query used what
    assert test.counters["cpu_ns"] == 1


def test_warm_ups_are_untimed_and_before_the_streams(session):
    session.engine.together = 3  # the warm-up is alone
    run(session, warmups=1)
    warm_up = session.engine.connections[0]
    assert warm_up.closed
    assert len(warm_up.statements) == 22
    assert warm_up.statements[0] == query_sql(14, {"date": "1995-09-01"})


def test_a_statement_that_fails_ends_the_test_and_names_query_and_stream(session):
    """Another stream waits in its statement; the engine's end frees it."""
    session.engine.broken = sql(2, 5)
    session.engine.stuck = sql(3, 0)
    session.engine.together = 3
    with pytest.raises(RunFailed, match="deadlock detected") as failed:
        run(session)
    assert failed.value.problem == f"TPC-H query {query_order(2)[5]} of stream 2"
    assert session.engine.killed.is_set()
    assert session.steps == {}
    assert not session.engine.running


def test_a_query_at_its_limit_has_no_time_and_its_stream_goes_on(session):
    session.engine.slow = sql(1, 3)
    test = run(session, query_timeout_s=1)
    assert not test.finished
    assert [e.finished for e in test.streams[0]].index(False) == 3
    assert len(test.streams[0]) == 22
