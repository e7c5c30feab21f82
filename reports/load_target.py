"""The most load that each arm carries within a latency target (``harness run … --target``).

The runs of such an experiment are windows at loads that results chose (harness.load_search), which
are read again here. The interval of a window's latency is the wider one of two: that of the
percentiles of its seconds, which varies with whatever disturbs the engine for seconds, and that of
the histogram's ranks. A driver without a histogram has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from harness import hdr
from harness.load_search import LoadWindow, Outcome, Search
from harness.metrics import load_of, parameters
from harness.sequences import grouped
from harness.store.artifacts import LatencyPoint
from harness.store.documents import as_json, attributes
from harness.store.result import LatencyTarget
from harness.store.runs import StoredRun, once_a_run
from harness.store.spec import RunSpec
from harness.units import format_ns
from reports.formatting import interval_text, quantity_text, ratio_text, significant
from reports.headline import keeps_rate, main_operation
from reports.labels import differing, in_words, leading, parameter_words
from reports.run_configuration import emulations, marked, spec_facts
from reports.sections import Block, Cell, Drawing, Paragraph, Section, Table
from reports.statistics import Value, ratio_of
from reports.values import Quantity, mean_durations, measured_value, stored_points

#: Half of an interval of 95 % in standard deviations.
_DEVIATIONS = 1.96
#: Seconds whose percentiles have an interval of 95 %.
_FEWEST_SECONDS = 6
#: What an arm's name says already.
_NAMED = ("placement", "arm", "emulate", "models", "engine")


@dataclass(frozen=True)
class ArmLoad:
    """The search on one arm. ``windows``: all of it, the closed loop that it began with included.

    ``against``: how many times the load of the first arm it carries; None of that arm, and where
    one of the two has no answer.
    """

    name: str
    search: Search
    windows: int
    run_ids: tuple[str, ...]
    against: Value | None = None

    @property
    def outcome(self) -> Outcome:
        return self.search.outcome

    @property
    def load(self) -> Value | None:
        """The most load within the target; without an interval where no end of it is known."""
        if (load := self.search.load) is None:
            return None
        low, high = self.search.low, self.search.high
        if self.outcome != "measured" or low is None or high is None:
            return Value(load)
        return Value(load, low.load, high.load)

    def to_json(self) -> dict[str, Any]:
        """As in ``answers[].arms`` of ``harness run --target --json``."""
        load, search = self.load, self.search
        return {
            **attributes(self, "name", "outcome", "windows", "run_ids"),
            "load": load and load.value,
            "low": search.low and search.low.load,
            "high": search.high and search.high.load,
            "times": as_json(self.against),
            "points": [
                {
                    **attributes(point, "load", "value_ns", "low_ns", "high_ns"),
                    "windows": len(point.windows),
                    "side": point.side(search.limit_ns),
                }
                for point in search.points
            ],
        }


@dataclass(frozen=True)
class TargetAnswer:
    """What the arms of one engine carry. ``where``: the engine, where there are several.

    ``operation``: the one whose latency counts.
    """

    where: str
    target: LatencyTarget
    operation: str
    arms: tuple[ArmLoad, ...]

    @property
    def question(self) -> str:
        return f"Which load is carried within {self._limit}?"

    @property
    def _limit(self) -> str:
        """``10 ms at p99 (new order)``."""
        target = self.target
        statistic = "on average" if target.statistic == "mean" else f"at {target.name}"
        of = f" ({self.operation.replace('_', ' ')})" if self.operation else ""
        return f"{format_ns(target.limit_ns)} {statistic}{of}"

    @property
    def by_rate(self) -> bool:
        return self.target.parameter == "rate"

    def load_text(self, load: float) -> str:
        """``800 a second``, ``40 users``."""
        if self.by_rate:
            return f"{significant(load)} a second"
        words = parameter_words(self.target.parameter)
        return f"{load:,.0f} {words.removesuffix('s') if load == 1 else words}"

    @property
    def sentence(self) -> str:
        """``ssd carries 800 a second within 10 ms at p99, pmem 1,450 (1.8× [1.6, 2.0])``."""
        texts: list[str] = []
        said = False
        for arm in self.arms:
            texts.append(self._text(arm, said))
            said = said or arm.outcome in ("measured", "at least", "client")
        text = ", ".join(texts)
        return f"{self.where}: {text}" if self.where else text

    def _text(self, arm: ArmLoad, said: bool) -> str:
        """``said``: whether an arm before it has the verb and the target."""
        if arm.outcome == "not measured":
            return f"{arm.name} was not measured"
        high = arm.search.high
        if arm.outcome == "at most" and high is not None:
            return f"{arm.name} carries less than {self.load_text(high.load)} within {self._limit}"
        if arm.load is None:
            first = arm.search.points[0]
            rate_met = any(window.rate_met for window in first.windows)
            latency = format_ns(first.value_ns) if rate_met else "rate not kept"
            at = f"{self.load_text(first.load)} ({latency})"
            return f"{arm.name} misses {self._limit} even at {at}"
        load, open_ended = arm.load.value, arm.outcome in ("at least", "client")
        number = significant(load) if self.by_rate else f"{load:,.0f}"
        amount = ("at least " if open_ended else "") + (number if said else self.load_text(load))
        text = f"{arm.name} {amount}" if said else f"{arm.name} carries {amount}"
        text += "" if said else f" within {self._limit}"
        if arm.against is not None:
            return f"{text} ({ratio_text(arm.against)})"
        why = {"client": "the client is the limit", "at least": "no load that was tried misses it"}
        return f"{text} ({why[arm.outcome]})" if open_ended else text

    def to_json(self) -> dict[str, Any]:
        """As in ``harness run --target --json``."""
        target = {**as_json(self.target), "operation": self.operation}
        return {
            **attributes(self, "question", "sentence"),
            "target": target,
            "arms": [arm.to_json() for arm in self.arms],
        }

    @property
    def measure(self) -> str:
        """``p99 of new order``."""
        of = f" of {self.operation.replace('_', ' ')}" if self.operation else ""
        return f"{self.target.name}{of}"

    def table(self) -> Table:
        """Return the loads that were tried, in ascending order on each arm."""
        rows: list[Sequence[Cell]] = []
        for arm in self.arms:
            for point in arm.search.points:
                ends = f"{format_ns(point.low_ns)} to {format_ns(point.high_ns)}"
                side = point.side(arm.search.limit_ns)
                rate_met = all(window.rate_met for window in point.windows)
                rows.append(
                    (
                        arm.name,
                        self.load_text(point.load),
                        quantity_text(point.value_ns, "ns"),
                        ends if point.low_ns < point.high_ns else "",
                        len(point.windows),
                        side if rate_met else f"{side}: rate not kept",
                    )
                )
        head = ("measured on", "load", self.measure, "interval", "windows", "target")
        return Table(f"Loads that were tried, for {self._limit}", head, rows)

    def drawing(self, name: str) -> Drawing | None:
        """Return latency over load with the target as a line; None without a window."""
        from reports.charts.curves import draw_target  # and matplotlib, where it is needed

        curves = {arm.name: arm.search.points for arm in self.arms if arm.search.points}
        if not curves:
            return None
        parameter = "rate" if self.by_rate else self.target.parameter
        title = f"Latency over load: {self.where}" if self.where else "Latency over load"
        limit = self.target.limit_ns
        return draw_target(name, title, curves, parameter_words(parameter), self.measure, limit)

    def section(self) -> Section:
        ends = [
            f"{arm.name}: {self.load_text(arm.load.value)} {interval_text(arm.load)}, "
            f"{arm.windows} windows"
            for arm in self.arms
            if arm.load is not None
        ]
        blocks: list[Block] = [Paragraph(f"{'; '.join(ends)}.")] if ends else []
        about = "Most load within the target"
        return Section(f"{about}: {self.where}" if self.where else about, [*blocks, self.table()])


def target_answers(runs: Sequence[StoredRun]) -> list[TargetAnswer]:
    """Return the answers of the experiments with a target among the runs, each engine by itself."""
    with_target = [run for run in runs if run.head.experiment.target is not None]
    groups = grouped(((run.head.experiment.hash, run.spec.engine), run) for run in with_target)
    several = len(groups) > 1
    return [_answer(engine if several else "", list(of)) for (_, engine), of in groups.items()]


def _answer(where: str, runs: Sequence[StoredRun]) -> TargetAnswer:
    target = runs[0].head.experiment.target
    assert target is not None
    by_arm = list(grouped((arm_key(run.spec, target), run) for run in runs).values())
    names = _names(by_arm, target)
    arms: list[ArmLoad] = []
    for name, of_arm in zip(names, by_arm, strict=True):
        search = search_of(of_arm, target)
        ids = tuple(run.run_id for run in of_arm)
        arm = ArmLoad(name, search, sum(r.result.status != "failed" for r in of_arm), ids)
        against = _times(arms[0], arm) if arms else None
        arms.append(ArmLoad(arm.name, arm.search, arm.windows, arm.run_ids, against))
    usable = [run for run in runs if run.result.status != "failed"]
    operation = _operation(usable[0]) if usable else ""
    return TargetAnswer(where, target, operation, tuple(arms))


def _times(first: ArmLoad, arm: ArmLoad) -> Value | None:
    a, b = first.load, arm.load
    if a is None or b is None or {first.outcome, arm.outcome} != {"measured"}:
        return None
    assert a.low and a.high and b.low and b.high
    return Value(b.value / a.value, b.low / a.high, b.high / a.low)


def arm_key(spec: RunSpec, target: LatencyTarget) -> str:
    """Return what the runs of one arm share: all but the load and what follows from it."""
    free = {target.parameter, *_implied(target.parameter)}
    params = {name: value for name, value in spec.params.items() if name not in free}
    return msgspec.structs.replace(spec, params=params, observe=()).series()


def _implied(parameter: str) -> tuple[str, ...]:
    info = parameters().get(parameter)
    return info.implies if info else ()


def _names(by_arm: Sequence[Sequence[StoredRun]], target: LatencyTarget) -> list[str]:
    """Name the arms by their placement, or the user's name, and what else they differ in."""
    specs = [runs[0].spec for runs in by_arm]
    names = [spec.arm or spec.where for spec in specs]
    if len(set(names)) < len(names):
        free = {f"params.{name}" for name in (target.parameter, *_implied(target.parameter))}
        sets = [
            {f: v for f, v in spec_facts(runs[0]).items() if f not in free and f not in _NAMED}
            for runs in by_arm
        ]
        facts = leading(differing(sets), sets)
        words = (", ".join(filter(None, (in_words(f, s.get(f)) for f in facts))) for s in sets)
        names = [f"{name} ({w})" if w else name for name, w in zip(names, words, strict=True)]
    return [
        marked(name, emulations(runs), any(run.result.status == "unknown" for run in runs))
        for name, runs in zip(names, by_arm, strict=True)
    ]


def search_of(runs: Sequence[StoredRun], target: LatencyTarget) -> Search:
    """Return the search that an arm's runs are windows of."""
    windows = [window for run in runs if (window := window_of(run, target)) is not None]
    return Search(windows, target.limit_ns, windows[0].load if windows else 0.0)


def window_of(run: StoredRun, target: LatencyTarget) -> LoadWindow | None:
    """Return what a run measured at its load; None of a closed loop, and without a latency."""
    load = run.spec.params.get(target.parameter)
    if run.result.status == "failed" or not isinstance(load, int | float):
        return None
    value = _latency(run, target.statistic)
    if value is None or value.value <= 0:
        return None
    low, high = value.low or value.value, value.high or value.value
    client = any(w.code == "client-saturated" for w in run.result.uncontrolled)
    return LoadWindow(load, value.value, low, high, keeps_rate(run), client)


@once_a_run
def _operation(run: StoredRun) -> str:
    """The operation whose latency counts: that of the headline at a set rate."""
    load = load_of(run.spec.workload, run.spec.params)
    return main_operation(load, [run]) if load else ""


def _latency(run: StoredRun, statistic: str) -> Value | None:
    load = load_of(run.spec.workload, run.spec.params)
    if load is None:
        return None
    label = (load.noun, _operation(run))
    durations = next(
        (
            point.histogram
            for point in stored_points(run)
            if point.metric == load.durations and point.labels.get(load.noun) == label[1]
        ),
        None,
    )
    if statistic == "mean":
        means = mean_durations(run, load.durations)
        mean = next((p.value for q, p in means.items() if q.label(load.noun) == label[1]), None)
        return None if mean is None or durations is None else _with_error(mean, durations)
    value = measured_value(run, Quantity(load.durations, (label, ("percentile", statistic))))
    if value is None or durations is None:
        return None if value is None else Value(value)
    ends = [*_of_ranks(durations, float(statistic)), *_of_seconds(run, label, statistic, value)]
    return Value(value, min(*ends, value), max(*ends, value))


def _with_error(mean: float, durations: hdr.Histogram) -> Value:
    """A mean with its standard error, of a histogram."""
    low, high = durations.layout.bounds()
    middles = (low + high).astype(np.float64) / 2
    variance = float((durations.counts * (middles - mean) ** 2).sum()) / durations.total
    half = _DEVIATIONS * math.sqrt(variance / durations.total)
    return Value(mean, max(mean - half, mean / 2), mean + half)


def _of_ranks(durations: hdr.Histogram, percent: float) -> list[float]:
    """Return the durations at the ends of a percentile's interval, were they independent."""
    share = percent / 100
    half = _DEVIATIONS * math.sqrt(share * (1 - share) / durations.total)
    ends = [100 * max(share - half, 0.0), 100 * min(share + half, 1.0)]
    return [float(value) for value in durations.percentiles(ends)]


def _of_seconds(
    run: StoredRun, label: tuple[str, str], statistic: str, value: float
) -> Iterator[float]:
    """Yield the ends of the interval by the scatter of the percentiles of its seconds."""
    noun, operation = label
    documents: Mapping[str, Any] = run.artifact("latencies") or {}
    name = f"p{statistic}_ns"
    latencies = [
        latency
        for point in msgspec.convert(documents.get(f"{noun}s", []), list[LatencyPoint])
        if (latency := point.operations.get(operation)) is not None
        and latency.count >= hdr.fewest(float(statistic))
    ]
    values = [float(getattr(latency, name, 0)) for latency in latencies]
    if len(values) < _FEWEST_SECONDS or min(values) <= 0:
        return
    scatter = ratio_of(values, [1.0] * len(values))
    if scatter.low is not None and scatter.high is not None:
        yield value * scatter.low / scatter.value
        yield value * scatter.high / scatter.value
