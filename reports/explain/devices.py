"""Calls that the I/O trace of runs timed, and what other runs of a store say of their tiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import RunFailed
from harness.experiment.placement import PARTS as NAMED_PARTS
from harness.experiment.placement import Part
from harness.iotrace.page import CounterCell
from harness.models.make import SUITE, model_of
from harness.models.score import Score
from harness.store.result import Labels
from harness.store.runs import StoredRun
from reports.run_configuration import stand_ins
from reports.values import histogram

Devices = Literal["log", "data", "all"]
#: The parts whose files a device holds.
PARTS: Mapping[Devices, frozenset[str]] = {
    "log": frozenset(("wal",)),
    "data": frozenset(("data", "index", "temp", "relations")),
    "all": frozenset(("wal", "data", "index", "temp", "relations")),
}
_ALL_PARTS: tuple[Part, ...] = (*NAMED_PARTS, "relations")


def tiers_of(run: StoredRun) -> dict[str, str]:
    """Part → tier of a run's placement; empty without one."""
    placement = run.spec.placement
    return {part: tier for part in _ALL_PARTS if placement and (tier := placement.tier_of(part))}


def moved_parts(a: StoredRun, b: StoredRun) -> tuple[str, ...]:
    """Parts that are on another tier on B, or in which delays were planted."""
    on_a, on_b = tiers_of(a), tiers_of(b)
    planted = {text.partition(".")[0] for run in (a, b) for text in run.spec.plant}
    parts = dict.fromkeys((*on_a, *on_b))
    return tuple(part for part in parts if on_a.get(part) != on_b.get(part) or part in planted)


def devices_that_hold(parts: Collection[str]) -> Devices | None:
    """Return the smallest set of devices that holds all of these; None of nothing, or memory."""
    every: tuple[Devices, ...] = ("log", "data", "all")
    return next((devices for devices in every if parts and set(parts) <= PARTS[devices]), None)


@dataclass(frozen=True)
class TimedCalls:
    """The calls of a cell whose duration is known, and the mean of these."""

    calls: float
    mean_ns: float

    def __add__(self, other: TimedCalls) -> TimedCalls:
        total = self.calls + other.calls
        spent_ns = self.calls * self.mean_ns + other.calls * other.mean_ns
        return TimedCalls(total, spent_ns / total)


#: The suite of single calls and loads that results of engines are predicted from.
BASELINE_SUITE = "baseline"
#: Labels without which a duration is of no cell.
_CELL = frozenset(("part", "operation"))


def timed_calls(runs: Sequence[StoredRun]) -> dict[CounterCell, TimedCalls]:
    """Return what the trace timed, by cell, over repeats."""
    by_cell: dict[CounterCell, TimedCalls] = {}
    for metric in (metric for run in runs for metric in run.result.metrics):
        if metric.name != "io_duration_ns" or not metric.labels.keys() >= _CELL:
            continue
        if (durations := histogram(metric)) is not None and durations.total:
            cell, timed = cell_of(metric.labels), TimedCalls(durations.total, durations.mean)
            by_cell[cell] = by_cell[cell] + timed if cell in by_cell else timed
    return by_cell


def cell_of(labels: Labels) -> CounterCell:
    """Return the cell that labels of a metric, or a stored counter, name."""
    role = labels.get("role", "foreground")
    return CounterCell(*map(str, (labels["part"], labels["operation"], role)))


@dataclass(frozen=True)
class TierSources:
    """Knowledge of hosts' tiers from the other runs of a store.

    ``models``: by host and digest of a model, the tier that it is a model of. ``baselines``: by
    host and tier, every run of the suite ``baseline``.
    """

    models: Mapping[tuple[str, str], str] = field(default_factory=dict)
    baselines: Mapping[tuple[str, str], tuple[StoredRun, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[StoredRun], scores: Sequence[Score]) -> TierSources:
        """Return what runs of the suite and scores of models in a store say."""
        models = {(score.host_id, score.digest): score.tier for score in scores}
        baselines: dict[tuple[str, str], tuple[StoredRun, ...]] = {}
        for run in runs:
            suite = run.spec.params.get("suite")
            if run.head.failed or suite not in (SUITE, BASELINE_SUITE):
                continue
            host, tier = run.host_id, devices_of(run)["data"]
            if suite == BASELINE_SUITE:
                baselines[host, tier] = (*baselines.get((host, tier), ()), run)
                continue
            with suppress(RunFailed):  # a part of the suite makes no model
                models[host, model_of(run, tier).digest] = tier
        return cls(models, baselines)

    def stands_for(self, run: StoredRun) -> dict[str, str]:
        """Part → tier, where a modelled tier counts as the tier that it is a model of."""
        host, names = run.host_id, devices_of(run)
        digests = {tier.name: tier.model.digest for tier in run.tiers if tier.model}
        return {
            part: self.models.get((host, digests.get(tier, "")), names[part])
            for part, tier in tiers_of(run).items()
        }


NO_TIER_SOURCES = TierSources()


def devices_of(run: StoredRun) -> dict[str, str]:
    """Part → tier of a run's placement, with what stands in for it."""
    names = {text.partition(" by ")[0]: text for text in stand_ins(run)}
    return {part: names.get(tier, tier) for part, tier in tiers_of(run).items()}
