"""Questions to stored runs: which operations to vary, how fast a device is, what it would give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import hdr
from harness.errors import RunFailed, UsageError, unknown
from harness.explain.fit import Estimate, Refusal, estimate, predict_all
from harness.explain.whatif import WhatIf
from harness.store.runs import StoredRun
from harness.store.spec import MICRO, RunSpec
from harness.tiers.linux.model import Tier
from harness.units import NS_PER_S, format_ns, parse_duration_ns

#: Operations that are called less often have too few delayed calls in a block.
_LEAST_CALLS_PER_S = 10
#: Others take too small a share of the time in calls to change the order of the parts.
_LEAST_SHARE = 0.01
#: The metric of a suite that repeats a run's I/O.
_LIKE = "io_like_duration_ns"


@dataclass(frozen=True)
class Device:
    """The other device: the mean duration of an operation on it. ``source``: a run, or none.

    ``emulated``: whether another device stood in for it.
    """

    name: str
    call_ns: float
    source: str | None = None
    emulated: bool = False

    @property
    def title(self) -> str:
        """As legends and headers show it."""
        return f"{self.name} (EMULATED)" if self.emulated else self.name


@dataclass(frozen=True)
class Answer:
    """One fit, and what it predicts for a device and for one without latency."""

    run_id: str
    whatif: WhatIf
    device: Device | None = None

    @property
    def at_zero(self) -> Estimate | Refusal:
        """The mean latency of an operation if these calls took no time."""
        return self.whatif.at_latency(0.0)

    @property
    def counts(self) -> bool:
        """Whether it says what these calls cost: with a wide interval, or at most."""
        found = self.at_zero
        return isinstance(found, Estimate) or found.code in ("too-uncertain", "below-floor")

    def to_json(self) -> dict[str, Any]:
        """As printed."""
        fit = self.whatif.to_json()
        del fit["blocks"]
        document = {"run_id": self.run_id, **fit, "at_zero_latency": self._predicted(0.0)}
        if self.device is not None:
            document["prediction"] = {
                "device": self.device.name,
                "device_call_ns": self.device.call_ns,
                "emulated": self.device.emulated,
                "source_run_id": self.device.source,
                **self._predicted(self.device.call_ns),
            }
        return document

    def _predicted(self, call_ns: float) -> dict[str, Any]:
        found = predict_all([self.whatif.change(call_ns)])
        if isinstance(found, Refusal):
            return {"latency_ns": None, "speed_up": None, "refused": found.to_json()}
        latency, speed_up = found.latency.to_json(), found.speed_up.to_json()
        return {"latency_ns": latency, "speed_up": speed_up, "refused": None}


def answers(stored: StoredRun, device: Device | None = None) -> list[Answer]:
    """Of a finished run with varied delays; RunFailed where it has no fits."""
    document = stored.artifact("whatif")
    if document is None:
        raise RunFailed(f"run {stored.run_id}", "it has no fit", "repeat it with --again")
    return [
        Answer(stored.run_id, WhatIf.from_json(fit), device) for fit in document.get("fits", ())
    ]


@dataclass(frozen=True)
class Ranking:
    """``shares``: by part, of the latency that it would save without latency; most first.

    ``first``: the part that certainly saves most; None if that is not resolved.
    """

    shares: Mapping[str, Estimate]
    first: str | None

    def to_json(self) -> dict[str, Any]:
        """As printed."""
        shares = {part: share.to_json() for part, share in self.shares.items()}
        return {"saved_share": shares, "move_first": self.first}


def ranking(found: Sequence[Answer], without: Collection[str] = ()) -> Ranking:
    """Sums over a part's operations, each a share of all queries that count.

    What is refused because it may cost anything does not, and leaves other parts unresolved.
    ``without``: parts with an operation that has no fit.
    """
    spent: dict[tuple[str, str], Any] = defaultdict(float)
    saved: dict[tuple[str, str], Any] = defaultdict(float)
    for seed, one in enumerate(answer.whatif for answer in found if answer.counts):
        now, after = (one.fit.sampled(ns, seed) for ns in (0.0, -one.calls.mean_ns))
        spent[one.part, one.operation] += now
        saved[one.part, one.operation] += now - after.clip(min=one.floor_ns or 0.0)
    shares: dict[str, Any] = defaultdict(float)
    for place, now in spent.items():
        shares[place[0]] += saved[place] / now
    known = {part: estimate(each) for part, each in shares.items()}
    known = dict(sorted(known.items(), key=lambda item: -item[1].value))
    best = next(iter(known), None)
    unknown = {answer.whatif.part for answer in found if not answer.counts} | set(without)
    others = [share.high for part, share in known.items() if part != best]
    certain = best and known[best].low > max(others, default=0.0) and not unknown - {best}
    return Ranking(known, best if certain else None)


def ranked(found: Sequence[Answer]) -> list[Answer]:
    """By the time that these calls cost, most first; those that do not count last."""
    cost = {id(one): one.whatif.fit.slope.value * one.whatif.calls.mean_ns for one in found}
    return sorted(found, key=lambda answer: (not answer.counts, -cost[id(answer)]))


@dataclass(frozen=True)
class Operation:
    """Calls of one operation on one part that sessions make or wait for, in a run without delays.

    ``share``: of the time in all such calls; ``per_s``: calls per second. ``left_out``: why its
    delay is not varied, ``rare`` or ``small-share``; empty if it is.
    """

    part: str
    operation: str
    share: float
    per_s: float
    left_out: str = ""

    @property
    def text(self) -> str:
        """``data.write (0.3 % of the time in calls)``, of one that is left out."""
        why = f"{self.share:.1%} of the time in calls"
        if self.left_out == "rare":
            why = f"{self.per_s:.3g} calls per second"
        return f"{self.part}.{self.operation} ({why})"


#: From what on an operation is varied, in words.
LEAST = f"{_LEAST_CALLS_PER_S} calls per second and {_LEAST_SHARE:.0%} of the time in calls"


def operations_to_vary(stored: StoredRun) -> tuple[list[Operation], list[Operation]]:
    """A run's operations by threads that serve clients, and those left out; most time first.

    Of a log that only threads in the background write, theirs: sessions wait for these. RunFailed
    where all are left out.
    """
    found = _operations(stored)
    chosen = [one for one in found if not one.left_out]
    if not chosen:
        raise RunFailed(
            f"rank the parts of run {stored.run_id}",
            f"no foreground operation was called {_LEAST_CALLS_PER_S} times per second",
            "choose a workload whose users wait for its files",
        )
    return chosen, [one for one in found if one.left_out]


def _operations(stored: StoredRun) -> list[Operation]:
    cells = stored.artifact("io-operations") or []
    timed_s = _timed_ns(stored.run["metrics"]) / NS_PER_S
    serving = {cell["part"] for cell in cells if cell["role"] != "background"}
    spent: dict[tuple[str, str], float] = defaultdict(float)
    calls: dict[tuple[str, str], int] = defaultdict(int)
    for cell in cells:
        if cell["role"] != "background" or cell["part"] in {"wal"} - serving:
            spent[cell["part"], cell["operation"]] += cell["ns"]
            calls[cell["part"], cell["operation"]] += cell["calls"]
    per_s = {place: count / timed_s if timed_s else 0.0 for place, count in calls.items()}
    total = sum(spent.values()) or 1.0
    found = []
    for place, ns in sorted(spent.items(), key=lambda item: -item[1]):
        small = ns < _LEAST_SHARE * total
        why = "rare" if per_s[place] < _LEAST_CALLS_PER_S else "small-share" if small else ""
        found.append(Operation(*place, ns / total, per_s[place], why))
    return found


def _timed_ns(metrics: Sequence[Mapping[str, Any]]) -> float:
    """Of a window, or of all queries."""
    names = ("window_duration_ns", "queries_duration_ns")
    return float(next((m["value"] for m in metrics if m["name"] in names), 0.0))


def device_of_latency(text: str) -> Device:
    """``2us`` → a device of that latency."""
    return Device(text, float(parse_duration_ns(text)))


def check_tier(runs: Sequence[StoredRun], tier: str, here: Sequence[str]) -> None:
    """UsageError for a tier that is neither on this host nor that of a stored run."""
    measured = (run.spec.placement.tiers() for run in runs if run.spec.placement is not None)
    known = sorted({*here, *(name for tiers in measured for name in tiers)})
    if tier not in known:
        hint = "one of {} (harness doctor)"
        raise unknown(f"--like-tier {tier}", "there is no such tier", tier, known, hint)


def device_like_tier(
    runs: Sequence[StoredRun],
    tier: str,
    spec: RunSpec,
    part: str,
    operation: str,
    here: Mapping[str, Tier],
) -> Device:
    """The operation as a tier serves it; UsageError where no run has measured it.

    ``here``: the tiers of this host, by name.
    """
    if (device := devices(runs, spec, part, operation).get(tier)) is not None:
        return device
    is_real = tier in here and not here[tier].emulated
    stand_in = "" if is_real else f" --emulate {tier}"
    like = next((run for run in reversed(runs) if _is_same(run, spec)), None)
    if like is not None:
        command = f"harness run {MICRO} --like {like.run_id} --tier {tier}{stand_in}"
    else:
        parts = ",".join(
            f"{one}={tier if one == part else spec.placement.tier_of(one)}"
            for one in ("data", "wal")
            if spec.placement is not None
        )
        command = (
            f"harness run {spec.workload} --engine {spec.engine} --placement {parts}{stand_in}"
        )
    raise UsageError(
        f"--like-tier {tier}",
        f"no stored run has measured {part}.{operation} of {spec.engine} with {spec.workload} "
        "there",
        f"`{command}` measures it{'' if like else ', with the same parameters'}; "
        "or give a --latency",
    )


def devices(
    runs: Sequence[StoredRun], spec: RunSpec, part: str, operation: str
) -> dict[str, Device]:
    """By tier, the operation as it serves it.

    From the newest microbenchmark suite on the tier that repeats the I/O of a run of this engine
    and workload, else from the newest such run whose ``part`` was there.
    """
    place = {"part": part, "operation": operation}
    same = {run.run_id: run for run in reversed(runs) if _is_same(run, spec)}
    suites = (run for run in reversed(runs) if _origin(run) in same)
    found: dict[str, Device] = {}
    for name, of, chosen in ((_LIKE, "data", suites), ("io_duration_ns", part, same.values())):
        for run in chosen:
            tier = run.spec.placement.to_json().get(of) if run.spec.placement else None
            if tier is None or tier in found:
                continue
            if (call_ns := _mean_ns(run.run["metrics"], name, place)) is not None:
                found[tier] = Device(tier, call_ns, run.run_id, tier in run.spec.emulate)
    return found


def _origin(run: StoredRun) -> str | None:
    """The run whose I/O a suite repeats; None of failed suites and of other runs."""
    if run.spec.workload != MICRO or run.head["failed"]:
        return None
    return str(run.spec.params.get("like"))


def _is_same(run: StoredRun, spec: RunSpec) -> bool:
    """Whether it has measured this engine and workload without planted delays."""
    other = run.spec
    alike = (other.workload, other.engine) == (spec.workload, spec.engine)
    return alike and not other.plant and not run.head["failed"] and other.placement is not None


def _mean_ns(
    metrics: Sequence[Mapping[str, Any]], name: str, place: Mapping[str, str]
) -> float | None:
    """Mean over the foreground's histograms of a metric, over others if it has none."""
    found = [
        metric
        for metric in metrics
        if metric["name"] == name
        and "hdr" in metric
        and all(metric["labels"].get(key) == value for key, value in place.items())
    ]
    foreground = [metric for metric in found if metric["labels"].get("role") != "background"]
    times = [hdr.decode(metric["hdr"]) for metric in foreground or found]
    total = sum(one.total for one in times)
    return sum(one.mean * one.total for one in times) / total if total else None


def levels_text(whatif: WhatIf) -> str:
    """``wal.sync: delays of 1 ms, 2 ms, 4 ms, 8 ms, for calls of 4.2 ms``, of chosen levels."""
    suited = "" if whatif.suited_ns is None else f", for calls of {format_ns(whatif.suited_ns)}"
    levels = ", ".join(format_ns(level.planted_ns) for level in whatif.levels)
    return f"{whatif.part}.{whatif.operation}: delays of {levels}{suited}"


def rows(found: Sequence[Answer]) -> list[tuple[str, ...]]:
    """Of a table: the call, its share in an operation, the fit, and the predictions."""
    return [_row(answer) for answer in found]


def title(whatif: WhatIf) -> str:
    """What was delayed: ``data.read 6`` of query 6."""
    return " ".join([f"{whatif.part}.{whatif.operation}", *whatif.labels.values()])


def _row(answer: Answer) -> tuple[str, ...]:
    whatif = answer.whatif
    slope, problem = whatif.fit.slope, whatif.fit.not_linear
    device = [_text(whatif.at_latency(answer.device.call_ns))] if answer.device else []
    return (
        title(whatif),
        format_ns(whatif.calls.mean_ns),
        f"{whatif.per_operation:.3g}",
        format_ns(whatif.now.value),
        f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]",
        "yes" if problem is None else f"no: {problem.code}",
        _text(answer.at_zero),
        *device,
    )


def _text(found: Estimate | Refusal) -> str:
    if isinstance(found, Refusal):
        line = f" ({_text(found.line)})" if found.line else ""
        return f"refused: {found.code}{line}"
    return f"{format_ns(found.value)} [{format_ns(found.low)}, {format_ns(found.high)}]"
