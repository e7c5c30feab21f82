"""What was done over time: the entries of the artifacts series, latencies and timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SeriesPoint:
    """The operations that ended in an interval, by name."""

    monotonic_ns: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Latency:
    """Percentiles of an operation's latency in an interval."""

    count: int
    p50_ns: float
    p95_ns: float
    p99_ns: float


@dataclass(frozen=True)
class LatencyPoint:
    """The latencies of the operations that ended in an interval, by name."""

    monotonic_ns: int
    operations: Mapping[str, Latency]


@dataclass(frozen=True)
class TimelineEntry:
    """When a query or a refresh function was submitted, and ended."""

    submitted_ns: int
    ended_ns: int
    query: str | None = None
    stream: str | None = None
    function: str | None = None
