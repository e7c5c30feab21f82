"""Artifacts of a run, ``artifacts/NAME.json``: what reports and repetitions rely on in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.query_plan import Operator
from harness.structs import Misfit, Struct, whole

Stamp = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Counter = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Calls = Annotated[int, Meta(ge=1, le=2**63 - 1)]
_Count = Annotated[int, Meta(ge=0, le=10**18)]


class Artifact(Struct, frozen=True, forbid_unknown_fields=False):
    """Base of artifacts and their parts, which may have more keys for people to read."""

    documented = "docs/results.md"


class SeriesPoint(Artifact, frozen=True):
    """The operations that ended in an interval, by name."""

    monotonic_ns: Stamp
    counts: Mapping[str, _Count]


class Latency(Artifact, frozen=True):
    """Percentiles of an operation's latency in an interval."""

    count: _Count
    p50_ns: _Count
    p95_ns: _Count
    p99_ns: _Count


class LatencyPoint(Artifact, frozen=True):
    """The latencies of the operations that ended in an interval, by name."""

    monotonic_ns: Stamp
    operations: Mapping[str, Latency]


class TimelineEntry(Artifact, frozen=True):
    """Times when a query or a refresh function was submitted, and ended."""

    submitted_ns: Stamp
    ended_ns: Stamp
    query: str | None = None
    stream: str | None = None
    function: str | None = None


class BackgroundTask(Artifact, frozen=True):
    """Times when a background task of an engine began, and ended."""

    begin_ns: Stamp
    end_ns: Stamp


class Unexplained(Artifact, frozen=True):
    """Reason why plans that were requested are missing."""

    why: str


class PlanAccount(Artifact, frozen=True):
    """Reason why a plan does not add up to the measured time; empty where it does."""

    why: str = ""


class StoredPlan(Artifact, frozen=True):
    """An executed plan (harness.query_plan)."""

    operators: Operator


class IoCalls(Artifact, frozen=True):
    """Counters of one part, operation and role (harness.iotrace.page), with calls by size."""

    part: Literal["data", "wal", "temp", "index", "relations"]
    operation: Literal["read", "write", "sync"]
    role: Literal["foreground", "background", "unknown"]
    calls: _Calls
    bytes: _Counter
    dirtied_bytes: _Counter
    delayed: _Counter
    delay_ns: _Counter
    errors: _Counter = 0
    timed: _Counter = 0
    ns: _Counter = 0
    sequential: _Counter = 0
    direct: _Counter = 0
    durable: _Counter = 0
    submitted: _Counter = 0
    submitted_bytes: _Counter = 0
    extending: _Counter = 0
    datasync: _Counter = 0
    modelled: _Counter = 0
    late: _Counter = 0
    cached: _Counter = 0
    probed: _Counter = 0
    queue_known: _Counter = 0
    queued: Annotated[_Counter | None, Meta(description="null: unknown")] = None
    due_ns: Mapping[str, Annotated[float, Meta(ge=0, le=1e19)]] = {}
    achieved_ns: Mapping[str, Annotated[float, Meta(ge=0, le=1e19)]] = {}
    distance: Annotated[float, Meta(ge=0, le=1)] = 0.0
    sizes: Mapping[Annotated[str, whole("(more|[1-9][0-9]{2,6})")], _Calls] = {}


class StoredSuite(Artifact, frozen=True):
    """The documents that a suite of microbenchmarks was read from, by path."""

    name: str
    documents: Mapping[str, Any]


class _Caches(Artifact, frozen=True):
    llc_bytes: int | None = None


class _ProgramResult(Artifact, frozen=True):
    cpu: _Caches = _Caches()


class StoredProgramResult(Artifact, frozen=True):
    """The result that the microbenchmark's program printed."""

    result: _ProgramResult


class MonitorSamples(Artifact, frozen=True):
    """The samples of a monitor: each has ``monotonic_ns`` and what the monitor reads."""

    interval_s: Annotated[float, Meta(gt=0, le=1e9)] = 1.0
    disks: Mapping[str, tuple[str, ...]] = {}
    samples: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for number, sample in enumerate(self.samples):
            stamp = sample.get("monotonic_ns")
            if type(stamp) is not int or not 0 <= stamp < 2**63:
                raise Misfit(f"sample {number} has no monotonic_ns", "", "samples")


class RelationCalls(Artifact, frozen=True):
    """Calls on the files of a relation."""

    role: Literal["foreground", "background"]
    operation: Literal["read", "write", "sync"]
    calls: _Counter
    bytes: _Counter
    ns: _Counter


class RelationIo(Artifact, frozen=True):
    """A table or index, the size of its files, and what the trace saw of them."""

    kind: Literal["table", "index"]
    name: str
    table: str
    bytes: _Counter
    io: tuple[RelationCalls, ...]


#: The types of artifacts by their names.
KINDS: Mapping[str, Any] = {
    "accounting": Mapping[str, PlanAccount],
    "background": Mapping[str, tuple[BackgroundTask, ...]],
    "io-operations": Annotated[tuple[IoCalls, ...], Meta(max_length=36)],
    "io-relations": tuple[RelationIo, ...],
    "latencies": Mapping[str, tuple[LatencyPoint, ...]],
    "microbench": StoredProgramResult,
    "plans": Mapping[str, StoredPlan],
    "series": Mapping[str, tuple[SeriesPoint, ...]],
    "suite": StoredSuite,
    "timeline": tuple[TimelineEntry, ...],
    "unexplained": Unexplained,
}


def kind_of(name: str) -> Any:
    """Return the type of an artifact: that of any document where nothing relies on it."""
    return MonitorSamples if name.startswith("monitor-") else KINDS.get(name, Any)
