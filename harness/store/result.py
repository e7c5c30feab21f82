"""The documents of a run: run.json, manifest.json, and points of its series."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from harness.store.datasets import DatasetName
from harness.store.host import HostFacts
from harness.store.spec import RUN_SCHEMA, RunSpec
from harness.structs import Misfit, Struct, whole, written
from harness.tiers.linux.model import MemoryMode, TierRecord
from harness.warnings import RunWarning

Better = Literal["higher", "lower", "none"]
RunStatus = Literal["complete", "failed", "unknown"]
RestoreMethod = Literal["copy", "reflink", "none"]
CheckStatus = Literal["passed", "failed", "unknown"]
#: The value of a metric's label: a name, a number or a flag.
_Finite = Annotated[float, Meta(ge=-1e300, le=1e300, description="a finite number")]
_Number = int | _Finite
Label = str | bool | int | _Finite
Labels = Mapping[str, Label]

_Natural = Annotated[int, Meta(ge=0)]
_Hash = Annotated[str, whole("[0-9a-f]{16}")]
#: A time, which a clock that is wrong has after the year 2200.
_UnixTime = Annotated[int, Meta(ge=0, le=7258118400000000000, description="before the year 2200")]


def label_text(label: Label) -> str:
    """Return a label as tables show it: ``yes`` and ``no`` for a flag."""
    if isinstance(label, bool):
        return "yes" if label else "no"
    return f"{label:.10g}" if isinstance(label, float) else str(label)


class Metric(Struct, frozen=True, omit_defaults=True):
    """One measured quantity; exactly one of ``value``, ``samples`` and ``hdr`` is set.

    ``name`` ends in its unit (``query_duration_ns``); ``labels`` distinguish
    series of the same name (``{"query": "6"}``, ``{"threads": 16}``).
    ``hdr``: HdrHistogram V2 compressed, base64.
    """

    name: Annotated[str, whole("[a-z][a-z0-9_]*")]
    unit: str
    better: Better
    labels: Labels = written({})
    value: _Number | None = None
    samples: tuple[_Number, ...] | None = None
    hdr: str | None = None

    def __post_init__(self) -> None:
        forms = [form for form in (self.value, self.samples, self.hdr) if form is not None]
        if len(forms) != 1:
            raise Misfit(f"{len(forms)} of value, samples and hdr; expected one of them")

    @property
    def median(self) -> float | None:
        """The value, or the median of several; None of a histogram, and without samples."""
        if self.value is not None or not self.samples:
            return self.value
        return statistics.median(self.samples)


class Check(Struct, frozen=True):
    """One answer to "is it right?"; a check that itself breaks is *unknown*, never passed."""

    name: str
    status: CheckStatus
    detail: str = ""
    labels: Mapping[str, str] = {}


class ClosedLoop(Struct, frozen=True):
    """Closed-loop probes from which arrival rates follow."""

    lowest_per_s: Annotated[
        float, Meta(gt=0, description="operations per second of the slowest arm")
    ]
    run_ids: Annotated[tuple[str, ...], Meta(description="the probes")]


#: A percentile of latencies, or their mean.
Statistic = Literal["50", "95", "99", "99.9", "mean"]


class LatencyTarget(Struct, frozen=True):
    """A latency within which an experiment searches for the most load."""

    statistic: Annotated[Statistic, Meta(description="a percentile, or the mean")]
    limit_ns: Annotated[int, Meta(ge=1)]
    parameter: Annotated[
        str, Meta(description="what is searched: the rate, or the number of users")
    ]

    @property
    def name(self) -> str:
        """``p99``, ``mean``."""
        return self.statistic if self.statistic == "mean" else f"p{self.statistic}"


class Experiment(Struct, frozen=True, omit_defaults=True):
    """The plan that a run belongs to."""

    name: str
    hash: Annotated[str, Meta(description="of the plan: every spec of it")]
    several_commands: Annotated[
        bool,
        Meta(
            description="plans of several commands under this name are one experiment; false: "
            "the latest plan is the experiment"
        ),
    ] = False
    looks: Annotated[
        int,
        Meta(
            ge=1,
            description="at most this often, results decided whether there would be more "
            "repeats; 1: never",
        ),
    ] = 1
    capacity: Annotated[
        ClosedLoop | None,
        Meta(
            description="the arrival rate is a share of what the arms do in a closed loop; "
            "null: it was given"
        ),
    ] = None
    target: Annotated[
        LatencyTarget | None,
        Meta(description="results chose the load of the next run; null: no latency was set"),
    ] = None


class Emulated(Struct, frozen=True):
    """An emulated tier, and what stands in for it."""

    tier: str
    by: str


class Cached(Struct, frozen=True):
    """Page cache residency of the data and index files at a cold start, with the engine stopped."""

    label: str
    resident_bytes: int | None
    total_bytes: int
    note: str


class Resumption(Struct, frozen=True):
    """Point where a run was interrupted and resumed in another process."""

    unix_ns: Annotated[_UnixTime, Meta(description="when it was resumed")]
    cut_off_run_id: Annotated[
        str, Meta(description="another run's where that failed under way and is stored")
    ]
    kept_steps: _Natural
    after_step: Annotated[str, Meta(description="the last step that was kept")]


class Failure(Struct, frozen=True, omit_defaults=True):
    """The error of a failed run. ``traceback``: of an exception that the harness did not expect."""

    type: str
    problem: str
    context: str
    hint: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.problem}: {self.context}"


class RunResult(Struct, frozen=True, kw_only=True, tag_field="schema", tag=RUN_SCHEMA):
    """The result of one run: run.json.

    It is written last, atomically: a directory without it is unfinished.
    """

    documented = "docs/results.md"

    run_id: Annotated[str, whole("[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9._=,-]+")]
    status: RunStatus
    spec: RunSpec
    spec_hash: _Hash
    experiment: Experiment
    started_unix_ns: _UnixTime
    duration_ns: _Natural
    host_mode: MemoryMode
    emulated: tuple[Emulated, ...]
    modelled: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(description="tiers that are devices' models, and the model of each: fast: zero"),
    ]
    uncontrolled: tuple[RunWarning, ...]
    data_bytes: Annotated[
        _Natural | None,
        Meta(
            description="size of the data and index parts after loading: redo log and temporary "
            "files are left out; external: as the server reports it"
        ),
    ]
    part_bytes: Annotated[
        Mapping[str, _Natural],
        Meta(
            description="capacity used: size of each part's files on its tier, the larger of "
            "after the restore and at the measured phase's end; files removed before that, such "
            "as spills, are not in it"
        ),
    ] = {}
    memory_bytes: Annotated[
        _Natural | None,
        Meta(
            description="what the engine and its page cache could use: the cap where there is "
            "one, else that of the nodes that it is bound to, else the host's memory"
        ),
    ]
    residency: Annotated[
        tuple[Cached, ...],
        Meta(
            description="page cache residency of the data and index files measured at each cold "
            "start (mincore), before the engine started"
        ),
    ]
    resumed: Annotated[
        tuple[Resumption, ...],
        Meta(
            description="where the run was interrupted and resumed in another process: finished "
            "steps are kept, started_unix_ns is the first attempt's, duration_ns the last one's; "
            "empty: one attempt"
        ),
    ] = ()
    metrics: tuple[Metric, ...]
    configurations: Annotated[
        Mapping[str, _Hash],
        Meta(
            description="of microbenchmarks: hash of each configuration's settings that no label "
            "states (durations, counts, processors); equal labels and an equal hash are the same "
            "work"
        ),
    ] = {}
    checks: tuple[Check, ...]
    error: Failure | None

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


class HarnessVersion(Struct, frozen=True):
    """``revision``: the commit of a checkout."""

    version: str
    revision: str | None = None


class Program(Struct, frozen=True):
    """Program that was measured: an engine, or a microbenchmark's program."""

    name: str
    version: str
    build: str
    source: str
    kind: Literal["managed", "embedded", "external"] = "managed"
    settings: Mapping[str, str] = {}
    effective_config: Mapping[str, str] = {}
    durability_settings: Annotated[
        tuple[str, ...],
        Meta(description="names of those that decide whether a commit survives a loss of power"),
    ] = ()


class MemoryLimit(Struct, frozen=True):
    """Way in which a limit was enforced (``none``: it was not, or there was none)."""

    method: Literal["none", "cgroup-v1", "cgroup-v2", "systemd-run"]
    limit_bytes: int | None


class Clock(Struct, frozen=True):
    """Both clocks, read at one moment, to merge clocks across hosts."""

    monotonic_ns: int
    realtime_ns: int


class Manifest(Struct, frozen=True, tag_field="schema", tag=RUN_SCHEMA):
    """All that is needed to repeat a run: manifest.json."""

    documented = "docs/results.md"

    run_id: str
    harness: HarnessVersion
    argv: tuple[str, ...]
    spec: RunSpec
    host: HostFacts
    tiers: tuple[TierRecord, ...]
    engine: Program
    dataset: DatasetName | None
    restore_method: RestoreMethod
    memory_cap: MemoryLimit
    run_state: Annotated[
        Mapping[str, str],
        Meta(description="what the run had of the host that no setting decides; compared"),
    ]
    clock: Clock
    tools: Mapping[str, str]
    conditions: Annotated[
        Mapping[str, Any] | None,
        Meta(
            description="what had to be the same for the run to be resumed; null: it would not "
            "have been"
        ),
    ] = None
    prices_per_gb: Annotated[
        Mapping[str, float],
        Meta(description="USD for 10^9 bytes of every tier of the host file that has a price"),
    ] = {}
    memory_nodes: Annotated[
        Mapping[str, tuple[int, ...]],
        Meta(description="NUMA nodes of every tier of the host that is memory, by its name"),
    ] = {}
    processors: Annotated[
        str | None,
        Meta(
            description="what the spec's cpus stood for here: the processors the engine was held "
            "to; null: all of them"
        ),
    ] = None
