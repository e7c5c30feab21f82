"""The documents of a run: run.json, manifest.json, and points of its series."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.store.datasets import DatasetName
from harness.store.documents import as_json, from_members, members
from harness.store.spec import RUN_SCHEMA, JsonObject, RunSpec
from harness.tiers.linux.model import TierRecord
from harness.warnings import RunWarning


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
    """Times when a query or a refresh function was submitted, and ended."""

    submitted_ns: int
    ended_ns: int
    query: str | None = None
    stream: str | None = None
    function: str | None = None


Better = Literal["higher", "lower", "none"]
RunStatus = Literal["complete", "failed", "unknown"]
CheckStatus = Literal["passed", "failed", "unknown"]
#: The value of a metric's label: a name, a number or a flag.
Label = str | int | float | bool
Labels = Mapping[str, Label]


def label_text(label: Label) -> str:
    """Return a label as tables show it: ``yes`` and ``no`` for a flag."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    return f"{label:.10g}" if isinstance(label, float) else str(label)


@dataclass(frozen=True)
class Metric:
    """One measured quantity; exactly one of ``value``, ``samples`` and ``hdr`` is set.

    ``name`` ends in its unit (``query_duration_ns``); ``labels`` distinguish
    series of the same name (``{"query": "6"}``, ``{"threads": 16}``).
    ``hdr``: HdrHistogram V2 compressed, base64.
    """

    name: str
    unit: str
    better: Better
    labels: Labels = field(default_factory=dict)
    value: float | int | None = None
    samples: tuple[float | int, ...] | None = None
    hdr: str | None = None

    @property
    def median(self) -> float | None:
        """The value, or the median of several; None of a histogram, and without samples."""
        if self.value is not None or not self.samples:
            return self.value
        return statistics.median(self.samples)

    def to_json(self) -> dict[str, Any]:
        """As in run.json: only the form that is set."""
        base: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "labels": dict(self.labels),
        }
        if self.value is not None:
            return base | {"value": self.value}
        if self.samples is not None:
            return base | {"samples": list(self.samples)}
        return base | {"hdr": self.hdr}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Metric:
        """The inverse of :meth:`to_json`."""
        samples = tuple(document["samples"]) if "samples" in document else None
        return cls(**{**document, "samples": samples})


@dataclass(frozen=True)
class Check:
    """One answer to "is it right?"; a check that itself breaks is *unknown*, never passed."""

    name: str
    status: CheckStatus
    detail: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClosedLoop:
    """Closed-loop probes from which arrival rates follow: the slowest arm's operations per second.

    ``run_ids``: of the probes.
    """

    lowest_per_s: float
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """The plan that a run belongs to.

    ``hash``: of every spec of the plan. ``several_commands``: plans of several commands under this
    name are one experiment. ``looks``: at most this often, results decided whether there would be
    more repeats. ``capacity``: what the arrival rates follow from (harness.experiment.selection).
    """

    name: str
    hash: str
    several_commands: bool = False
    looks: int = 1
    capacity: ClosedLoop | None = None

    def to_json(self) -> dict[str, Any]:
        """As in run.json: without what has its default."""
        usual = vars(Experiment(self.name, self.hash))
        differing = {
            name: as_json(value) for name, value in vars(self).items() if value != usual[name]
        }
        return {"name": self.name, "hash": self.hash, **differing}


@dataclass(frozen=True)
class Emulated:
    """An emulated tier, and what stands in for it."""

    tier: str
    by: str


@dataclass(frozen=True)
class Cached:
    """Page cache residency of the data and index files at a cold start, with the engine stopped."""

    label: str
    resident_bytes: int | None
    total_bytes: int
    note: str


@dataclass(frozen=True)
class Resumption:
    """Point where a run was interrupted and resumed in another process."""

    unix_ns: int
    cut_off_run_id: str
    kept_steps: int
    after_step: str


@dataclass(frozen=True)
class Failure:
    """The error of a failed run. ``traceback``: of an exception that the harness did not expect."""

    type: str
    problem: str
    context: str
    hint: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.problem}: {self.context}"

    def to_json(self) -> dict[str, Any]:
        """As in run.json: without an empty traceback."""
        return {name: text for name, text in vars(self).items() if text or name != "traceback"}


@dataclass(frozen=True)
class RunResult:
    """The result of one run: run.json, whose schema describes each member.

    ``configurations``: of microbenchmarks, each with the hash of its settings that no label states.
    """

    run_id: str
    status: RunStatus
    spec: RunSpec
    spec_hash: str
    experiment: Experiment
    started_unix_ns: int
    duration_ns: int
    host_mode: str
    emulated: tuple[Emulated, ...] = ()
    modelled: tuple[str, ...] = ()
    uncontrolled: tuple[RunWarning, ...] = ()
    data_bytes: int | None = None
    part_bytes: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int | None = None
    residency: tuple[Cached, ...] = ()
    resumed: tuple[Resumption, ...] = ()
    metrics: tuple[Metric, ...] = ()
    configurations: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    error: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        return {"schema": RUN_SCHEMA, **members(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RunResult:
        """The inverse of :meth:`to_json`, of a valid document; UsageError for a placement."""
        return from_members(cls, document)

    @property
    def why_failed(self) -> str:
        """Its error, or the first of its checks that failed; empty of a run that did not fail."""
        if self.error:
            return str(self.error)
        failed = [check.name for check in self.checks if check.status == "failed"]
        return f"failed checks: {', '.join(failed[:5])}" if failed else ""

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one metric; None where it is not there."""
        same = (
            metric.value
            for metric in self.metrics
            if metric.name == name and metric.labels == labels
        )
        return next(same, None)


def run_status(checks: Sequence[Check]) -> RunStatus:
    """complete when every check passed, failed when one failed, else unknown."""
    states = {check.status for check in checks}
    if "failed" in states:
        return "failed"
    return "unknown" if "unknown" in states or not states else "complete"


@dataclass(frozen=True)
class HarnessVersion:
    """``revision``: the commit of a checkout."""

    version: str
    revision: str | None = None


@dataclass(frozen=True)
class Program:
    """Program that was measured: an engine, or a microbenchmark's program."""

    name: str
    version: str
    build: str
    source: str
    kind: str = "managed"
    settings: Mapping[str, str] = field(default_factory=dict)
    effective_config: Mapping[str, str] = field(default_factory=dict)
    durability_settings: Sequence[str] = ()


@dataclass(frozen=True)
class MemoryLimit:
    """Way in which a limit was enforced (``none``: it was not, or there was none)."""

    method: str
    limit_bytes: int | None


@dataclass(frozen=True)
class Manifest:
    """The document of schema manifest, which says what each member is."""

    run_id: str
    harness: HarnessVersion
    argv: tuple[str, ...]
    spec: RunSpec
    host: Mapping[str, Any]
    tiers: tuple[TierRecord, ...]
    engine: Program
    dataset: DatasetName | None
    restore_method: str
    memory_cap: MemoryLimit
    run_state: Mapping[str, str]
    clock: Mapping[str, int]
    tools: Mapping[str, str]
    conditions: JsonObject | None = None
    prices_per_gb: Mapping[str, float] = field(default_factory=dict)
    processors: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"schema": RUN_SCHEMA, **members(self)}
