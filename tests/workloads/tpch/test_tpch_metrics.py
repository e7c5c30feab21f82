"""The figures of power and throughput tests, against the formulas of clause 5.4 by hand."""

import math

import pytest
from narrowed import present

from harness.store.documents import as_json
from harness.workloads.query_runs import Execution
from harness.workloads.tpch import workload
from harness.workloads.tpch.refresh import Applied
from harness.workloads.tpch.statements import Statement
from harness.workloads.tpch.throughput import Throughput

S = 1_000_000_000


def execution(query, duration_ns, stream=None, submitted_ns=0):
    statement = Statement(query, {}, "select", stream)
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
    assert math.isclose(present(workload.power(queries, PAIR, 1)), 3600 / 4)
    assert math.isclose(present(workload.power(queries, PAIR, 10)), 36000 / 4)


def test_a_query_counts_for_no_less_than_a_thousandth_of_the_longest():
    """Clause 5.4.1.4; refresh functions are left as they are."""
    queries = [execution(q, 1000 * S) for q in range(1, 22)] + [execution(22, S // 1000)]
    tiny = [refresh("RF1", S // 1000), refresh("RF2", S // 1000)]
    mean = (1000**21 * 1 * 0.001 * 0.001) ** (1 / 24)
    assert math.isclose(present(workload.power(queries, tiny, 1)), 3600 / mean)
    at_the_ratio = [execution(q, 1000 * S) for q in range(1, 22)] + [execution(22, S)]
    assert math.isclose(present(workload.power(at_the_ratio, tiny, 1)), 3600 / mean)


def test_without_one_of_its_24_times_there_is_no_power_figure():
    queries = [execution(q, S) for q in range(1, 23)]
    assert workload.power([*queries[:-1], execution(22, None)], PAIR, 1) is None
    assert workload.power(queries, [], 1) is None
    assert workload.power_metrics(None) == []


@pytest.fixture
def test_of_two_streams():
    """Stream 1 from 1 s to 23 s, stream 2 from 2 s to 24 s, refresh from 0 s to 40 s."""
    streams = [
        [execution(q, S, stream, submitted_ns=(stream + q - 1) * S) for q in range(1, 23)]
        for stream in (1, 2)
    ]
    pair = [refresh("RF1", S), refresh("RF2", 10 * S, submitted_ns=30 * S)]
    return Throughput(streams, pair, {"cpu_ns": 7})


def test_throughput_is_queries_per_hour_over_the_whole_interval(test_of_two_streams):
    test = test_of_two_streams
    assert test.interval_ns == 40 * S  # the refresh stream began first and ended last
    figure = present(workload.throughput(test, 10))
    assert math.isclose(figure, 2 * 22 * 3600 / 40 * 10)
    found = values(workload.throughput_metrics(test, figure))
    assert found["stream_duration_ns", "1"] == found["stream_duration_ns", "2"] == 22 * S
    assert found[("refresh_stream_duration_ns",)] == 40 * S
    assert found[("throughput_interval_ns",)] == 40 * S
    assert found[("throughput_queries_per_hour",)] == figure
    assert found[("throughput_cpu_ns",)] == 7


def test_without_a_refresh_stream_the_figure_has_another_name(test_of_two_streams):
    test = Throughput(test_of_two_streams.streams)
    assert test.interval_ns == 23 * S
    names = {m.name for m in workload.throughput_metrics(test, workload.throughput(test, 1))}
    assert names == {
        "stream_duration_ns", "query_streams_interval_ns", "query_streams_queries_per_hour"
    }  # fmt: skip


def test_a_query_at_its_limit_leaves_its_stream_and_the_figure_out(test_of_two_streams):
    slow = [*test_of_two_streams.streams[0][:-1], execution(22, None, 1, 22 * S)]
    test = Throughput([slow, test_of_two_streams.streams[1]], test_of_two_streams.refresh)
    assert workload.throughput(test, 1) is None
    found = values(workload.throughput_metrics(test, None))
    assert set(found) == {("stream_duration_ns", "2"), ("refresh_stream_duration_ns",)}


def test_the_composite_is_the_geometric_mean_of_both_or_nothing():
    (metric,) = workload.composite_metrics(100.0, 400.0)
    assert (metric.name, metric.value, metric.unit) == ("composite_queries_per_hour", 200, "1/h")
    assert workload.composite_metrics(None, 400.0) == workload.composite_metrics(100.0, None) == []


def test_a_throughput_test_comes_back_from_its_steps_as_it_was(test_of_two_streams):
    statements = [[e.statement for e in stream] for stream in test_of_two_streams.streams]
    again = Throughput.from_json(statements, as_json(test_of_two_streams))
    assert as_json(again) == as_json(test_of_two_streams)
    assert again.interval_ns == test_of_two_streams.interval_ns
    assert again.executions[0].statement == statements[0][0]
