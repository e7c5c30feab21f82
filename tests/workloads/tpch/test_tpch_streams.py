"""Query and refresh streams: together, resumed, what a query may have seen, the figures."""

import math
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from idle_engine import IdleEngine
from narrowed import present
from patience import PATIENCE_S, eventually
from toy_session import ToySession

from harness.engine import QueryTimeout, SqlConnection, SqlResult
from harness.errors import RunFailed
from harness.store.documents import as_json
from harness.workloads.query_runs import Execution
from harness.workloads.resume import ResumeCursor
from harness.workloads.tpch import run_metrics
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.refresh import Applied, seen
from harness.workloads.tpch.statements import (
    TpchStatement,
    query_order,
    query_sql,
    stream_statements,
)
from harness.workloads.tpch.throughput import ThroughputTest, run_throughput

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

    def execute(self, sql, *, timeout_s=None, keep=None):
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


# How a sitting catches up with what an earlier one did, in each cache mode ----------


@dataclass
class Noting:
    """Notes what is done, in order."""

    done: list = field(default_factory=list)
    said: list = field(default_factory=list)

    @property
    def progress(self):
        return self

    def say(self, text):
        self.said.append(text)

    def cold_start(self, label):
        self.done.append(f"cold {label}")

    def connect(self):
        self.done.append("connect")
        return self

    def close(self):
        self.done.append("close")


#: RF1, three queries, RF2.
WORK = ["rf1", "q14", "q2", "q9", "rf2"]


def sitting(cache, finished):
    """Return the work of an attempt that finds the first ``finished`` pieces of work done."""
    session: Any = Noting()
    cursor = ResumeCursor(session, session, cache, 3)
    cursor.cold_point("run")
    for number, work in enumerate(WORK):
        if number < finished:
            again = partial(session.done.append, f"again {work}")
            cursor.skip(again, changes_data=work.startswith("rf"), query=work.startswith("q"))
        else:
            cursor.ready(work, work.upper())
            session.done.append(work)
    return session


@pytest.mark.parametrize(
    ("cache", "done"),
    [
        ("cold-per-query", ["cold rf1", "rf1", "cold q14", "q14", "cold q2", "q2", "cold q9", "q9",
                            "cold rf2", "rf2"]),
        ("cold-per-run", ["cold run", *WORK]),
        ("warm", WORK),
    ],
)  # fmt: skip
def test_a_run_in_one_sitting_does_everything_once(cache, done):
    session = sitting(cache, 0)
    assert (session.done, session.said) == (done, [])


@pytest.mark.parametrize(
    ("cache", "done"),
    [
        ("cold-per-query", ["again rf1", "cold q9", "q9", "cold rf2", "rf2"]),
        ("cold-per-run", ["cold run-resumed", "again rf1", "again q14", "again q2", "q9", "rf2"]),
        ("warm", ["again rf1", "again q14", "again q2", "q9", "rf2"]),
    ],
)
def test_a_later_sitting_makes_data_and_caches_what_they_were_and_goes_on(cache, done):
    session = sitting(cache, 3)
    assert session.done == done
    (said,) = session.said
    assert said.startswith("resuming at Q9: 2 of 3 queries kept")


@pytest.mark.parametrize("cache", ["cold-per-query", "cold-per-run", "warm"])
def test_where_everything_is_kept_nothing_is_done(cache):
    assert sitting(cache, len(WORK)).done == []


def test_data_before_a_later_cold_point_are_changed_before_it():
    """The plan pass begins cold: queries before it need not run again, refresh functions do."""
    session: Any = Noting()
    cursor = ResumeCursor(session, session, "cold-per-run", 1)
    cursor.cold_point("run")
    cursor.skip(partial(session.done.append, "again rf1"), changes_data=True)
    cursor.skip(partial(session.done.append, "again q14"), query=True)
    cursor.cold_point("run-plan")
    cursor.skip(partial(session.done.append, "again q14-plan"))
    cursor.ready("q2-plan", "Q2's plan")
    assert session.done == ["again rf1", "cold run-plan-resumed", "again q14-plan"]


def test_the_check_of_the_data_needs_the_data_alone():
    session: Any = Noting()
    cursor = ResumeCursor(session, session, "warm", 1)
    cursor.skip(partial(session.done.append, "again rf1"), changes_data=True)
    cursor.skip(partial(session.done.append, "again q14"), query=True)
    cursor.data_ready("the check")
    assert session.done == ["again rf1"]


def test_a_cold_start_ends_the_connection():
    session: Any = Noting()
    cursor = ResumeCursor(session, session, "cold-per-query", 2)
    cursor.ready("q1", "Q1")
    assert cursor.connection() is cursor.connection()
    cursor.ready("q2", "Q2")
    cursor.connection()
    cursor.close()
    assert session.done == ["cold q1", "connect", "close", "cold q2", "connect", "close"]


# Which data a query may have seen that ran while refresh functions committed --------
#
# Which data a query may have seen that ran while refresh functions committed.
#
# RF1 commits from 10 to 20, RF2 from 30 to 40.

APPLIED = [Applied("RF1", 1, 5, 20, ((10, 20),)), Applied("RF2", 1, 20, 40, ((30, 40),))]


def between(submitted_ns, ended_ns):
    statement = TpchStatement(6, {}, "select", 1)
    return Execution(statement, 1, submitted_ns=submitted_ns, ended_ns=ended_ns)


@pytest.mark.parametrize(
    ("start", "end", "states"),
    [
        (0, 9, (0,)),  # over before the first commit was sent
        (0, 10, (0, 1)),  # the commit may have been done at once
        (12, 14, (0, 1)),  # while it was under way
        (20, 29, (1,)),  # between the two
        (19, 31, (0, 1, 2)),
        (40, 99, (2,)),  # both were known to be done
        (0, 99, (0, 1, 2)),
    ],
)
def test_a_query_saw_a_state_between_its_submission_and_its_end(start, end, states):
    assert seen(between(start, end), APPLIED, 0) == (states, False)


def test_functions_before_the_test_count():
    assert seen(between(20, 29), APPLIED, 2) == ((3,), False)


def test_without_refresh_functions_all_queries_see_the_same():
    assert seen(between(0, 99), [], 0) == ((0,), False)


@pytest.mark.parametrize(
    ("start", "end", "states", "half"),
    [(0, 9, (0,), False), (0, 12, (0,), True), (16, 18, (), True), (16, 25, (1,), True),
     (26, 28, (1,), False)],
)  # fmt: skip
def test_half_a_function_is_a_state_that_nothing_can_be_compared_with(start, end, states, half):
    """RF1 in two transactions: 10 to 15 and 20 to 25."""
    function = [Applied("RF1", 1, 5, 25, ((10, 15), (20, 25)))]
    assert seen(between(start, end), function, 0) == (states, half)


# The figures of power and throughput tests, against the formulas of clause 5.4 by hand ---

S = 1_000_000_000


def execution(query, duration_ns, stream=None, submitted_ns=0):
    statement = TpchStatement(query, {}, "select", stream)
    ended_ns = submitted_ns + (duration_ns or 5 * S)
    return Execution(statement, duration_ns, submitted_ns=submitted_ns, ended_ns=ended_ns)


def refresh(function, duration_ns, pair=1, submitted_ns=0):
    return Applied(function, pair, submitted_ns, submitted_ns + duration_ns, ())


def values(metrics):
    return {(m.name, *m.labels.values()): m.value for m in metrics}


PAIR = [refresh("RF1", 2 * S), refresh("RF2", 8 * S)]


def test_power_is_the_inverse_of_the_geometric_mean_of_24_intervals():
    queries = [execution(q, 4 * S) for q in range(1, 23)]
    # sqrt(2 · 8) is 4, too
    assert math.isclose(present(run_metrics.power(queries, PAIR, 1)), 3600 / 4)
    assert math.isclose(present(run_metrics.power(queries, PAIR, 10)), 36000 / 4)


def test_a_query_counts_for_no_less_than_a_thousandth_of_the_longest():
    """Clause 5.4.1.4; refresh functions are left as they are."""
    queries = [execution(q, 1000 * S) for q in range(1, 22)] + [execution(22, S // 1000)]
    tiny = [refresh("RF1", S // 1000), refresh("RF2", S // 1000)]
    mean = (1000**21 * 1 * 0.001 * 0.001) ** (1 / 24)
    assert math.isclose(present(run_metrics.power(queries, tiny, 1)), 3600 / mean)
    at_the_ratio = [execution(q, 1000 * S) for q in range(1, 22)] + [execution(22, S)]
    assert math.isclose(present(run_metrics.power(at_the_ratio, tiny, 1)), 3600 / mean)


def test_without_one_of_its_24_times_there_is_no_power_figure():
    queries = [execution(q, S) for q in range(1, 23)]
    assert run_metrics.power([*queries[:-1], execution(22, None)], PAIR, 1) is None
    assert run_metrics.power(queries, [], 1) is None
    assert run_metrics.power_metrics(None) == []


@pytest.fixture
def test_of_two_streams():
    """Stream 1 from 1 s to 23 s, stream 2 from 2 s to 24 s, refresh from 0 s to 40 s."""
    streams = [
        [execution(q, S, stream, submitted_ns=(stream + q - 1) * S) for q in range(1, 23)]
        for stream in (1, 2)
    ]
    pair = [refresh("RF1", S), refresh("RF2", 10 * S, submitted_ns=30 * S)]
    return ThroughputTest(streams, pair, {"cpu_ns": 7})


def test_throughput_is_queries_per_hour_over_the_whole_interval(test_of_two_streams):
    test = test_of_two_streams
    assert test.interval_ns == 40 * S  # the refresh stream began first and ended last
    figure = present(run_metrics.throughput(test, 10))
    assert math.isclose(figure, 2 * 22 * 3600 / 40 * 10)
    by_labels = values(run_metrics.throughput_metrics(test, figure))
    assert by_labels["stream_duration_ns", "1"] == by_labels["stream_duration_ns", "2"] == 22 * S
    assert by_labels[("refresh_stream_duration_ns",)] == 40 * S
    assert by_labels[("throughput_interval_ns",)] == 40 * S
    assert by_labels[("throughput_queries_per_hour",)] == figure
    assert by_labels[("throughput_cpu_ns",)] == 7


def test_without_a_refresh_stream_the_figure_has_another_name(test_of_two_streams):
    test = ThroughputTest(test_of_two_streams.streams)
    assert test.interval_ns == 23 * S
    names = {m.name for m in run_metrics.throughput_metrics(test, run_metrics.throughput(test, 1))}
    assert names == {
        "stream_duration_ns", "query_streams_interval_ns", "query_streams_queries_per_hour"
    }  # fmt: skip


def test_a_query_at_its_limit_leaves_its_stream_and_the_figure_out(test_of_two_streams):
    slow = [*test_of_two_streams.streams[0][:-1], execution(22, None, 1, 22 * S)]
    test = ThroughputTest([slow, test_of_two_streams.streams[1]], test_of_two_streams.refresh)
    assert run_metrics.throughput(test, 1) is None
    by_labels = values(run_metrics.throughput_metrics(test, None))
    assert set(by_labels) == {("stream_duration_ns", "2"), ("refresh_stream_duration_ns",)}


def test_the_composite_is_the_geometric_mean_of_both_or_nothing():
    (metric,) = run_metrics.composite_metrics(100.0, 400.0)
    assert (metric.name, metric.value, metric.unit) == ("composite_queries_per_hour", 200, "1/h")
    assert (
        run_metrics.composite_metrics(None, 400.0)
        == run_metrics.composite_metrics(100.0, None)
        == []
    )


def test_a_throughput_test_comes_back_from_its_steps_as_it_was(test_of_two_streams):
    statements = [[e.statement for e in stream] for stream in test_of_two_streams.streams]
    again = ThroughputTest.from_json(statements, as_json(test_of_two_streams))
    assert as_json(again) == as_json(test_of_two_streams)
    assert again.interval_ns == test_of_two_streams.interval_ns
    assert again.executions[0].statement == statements[0][0]
