"""Metrics of a run: times, counters and the composites, each with its definition.

None of them is a metric of the TPC's: nothing was audited, no load is timed, no price is
known, ACID is not tested, and intervals are neither rounded to 0.1 s nor lengthened by the
client's pause before the next query.

==================================  ====================================================
metric                              what it is
==================================  ====================================================
query_duration_ns                   of one query: statement handed over → last row held.
                                    Label ``stream`` where streams ran at the same time
queries_duration_ns                 sum over the queries of a run's one stream
queries_geomean_ns                  their geometric mean
query_timeout_ns                    the limit that a query reached, instead of a time
query_<counter>                     what the query added to a counter; only where nothing
                                    else ran
query_wait_ns                       of its time, by ``resource`` (docs/waits.md)
query_wait_cpu_ns                   of its time, on processors
query_wait_accounted_share          of its time, what waits and processor time add up to
query_wait_moments_count            how often sessions were observed
query_wait_sessions_count           how many worked on it, on average
refresh_duration_ns                 of one refresh function: first statement → last commit
                                    (clause 5.3.7.3)
refresh_<counter>                   as query_<counter>, of a refresh function run alone
power_geomean_queries_per_hour      3600 · SF / geometric mean in s over the 22 queries and
                                    RF1, RF2 (clause 5.4.1); queries shorter than 1/1000 of
                                    the longest count as that (clause 5.4.1.4)
stream_duration_ns                  of one stream: first query submitted → last ended
refresh_stream_duration_ns          the same of the refresh stream
throughput_interval_ns              first submission of any stream → last end (5.3.6)
throughput_queries_per_hour         S · 22 · 3600 · SF / interval in s (clause 5.4.2)
throughput_<counter>                what the whole test added to a counter
composite_queries_per_hour          geometric mean of power and throughput (clause 5.4.3)
query_streams_interval_ns           as throughput_interval_ns and
query_streams_queries_per_hour      throughput_queries_per_hour, without a refresh stream
plan_run_duration_ns                of one query's second, profiled execution, and
plan_operator_ns                    of its operators, by kind
==================================  ====================================================

What a composite is made of must all be there: after a query that reached its limit, or
without the refresh functions, it is left out, and what is measured without them has a
name of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.counters import counter_metrics
from harness.store.result import Metric
from harness.workloads.query_runs import (
    Execution,
    geomean,
)
from harness.workloads.tpch.refresh import Applied
from harness.workloads.tpch.statements import (
    TpchStatement,
)
from harness.workloads.tpch.throughput import ThroughputTest

_HOUR_S = 3600
_QUERIES = 22
_NS = 1e9
#: Clause 5.4.1.4: no query counts for less than the longest one divided by this.
_LARGEST_RATIO = 1000


def refresh_metrics(refresh: Sequence[Applied]) -> list[Metric]:
    """Time of every refresh function, and counters of those that ran alone."""
    metrics = []
    for applied in refresh:
        labels = applied.labels
        metrics.append(
            Metric("refresh_duration_ns", "ns", "lower", labels, value=applied.duration_ns)
        )
        metrics += counter_metrics("refresh_", labels, applied.counters)
    return metrics


def power(
    executions: Sequence[Execution[TpchStatement]], refresh: Sequence[Applied], scale: float
) -> float | None:
    """Clause 5.4.1 in queries per hour times scale; None where one of its 24 times is missing."""
    queries_ns = [e.duration_ns for e in executions if e.duration_ns is not None]
    if len(queries_ns) < _QUERIES or len(refresh) < 2:
        return None
    least_ns = max(queries_ns) / _LARGEST_RATIO
    intervals_ns = [max(duration, least_ns) for duration in queries_ns]
    intervals_ns += [applied.duration_ns for applied in refresh]
    return _HOUR_S * scale / (geomean(intervals_ns) / _NS)


def power_metrics(value: float | None) -> list[Metric]:
    """The power figure, where there is one."""
    if value is None:
        return []
    return [Metric("power_geomean_queries_per_hour", "1/h", "higher", value=value)]


def throughput(test: ThroughputTest, scale: float) -> float | None:
    """Clause 5.4.2 in queries per hour times scale; None after a query reached its limit."""
    if not test.finished:
        return None
    return len(test.executions) * _HOUR_S * scale / (test.interval_ns / _NS)


def throughput_metrics(test: ThroughputTest, value: float | None) -> list[Metric]:
    """Streams, interval, figure and counters of a throughput test."""
    metrics = [
        Metric(
            "stream_duration_ns",
            "ns",
            "lower",
            {"stream": str(stream[0].statement.stream)},
            value=_span_ns(stream),
        )
        for stream in test.streams
        if all(execution.finished for execution in stream)
    ]
    if test.refresh:
        metrics.append(
            Metric("refresh_stream_duration_ns", "ns", "lower", value=_span_ns(test.refresh))
        )
    if value is not None:
        name = "throughput" if test.refresh else "query_streams"
        interval = Metric(f"{name}_interval_ns", "ns", "lower", value=test.interval_ns)
        metrics += [interval, Metric(f"{name}_queries_per_hour", "1/h", "higher", value=value)]
    if test.warm_up.count:
        count = test.warm_up.count
        metrics.append(Metric("throughput_warmup_count", "1", "none", value=count))
    return metrics + counter_metrics("throughput_", {}, test.counters)


def composite_metrics(power_figure: float | None, throughput_figure: float | None) -> list[Metric]:
    """Clause 5.4.3's combination, where there are both."""
    if power_figure is None or throughput_figure is None:
        return []
    value = math.sqrt(power_figure * throughput_figure)
    return [Metric("composite_queries_per_hour", "1/h", "higher", value=value)]


def _span_ns(spans: Sequence[Execution[TpchStatement]] | Sequence[Applied]) -> int:
    return max(s.ended_ns for s in spans) - min(s.submitted_ns for s in spans)
