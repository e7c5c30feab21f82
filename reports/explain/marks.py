"""Marks of comparisons that the laws miss by far: what else differs between the runs of both arms.

A mechanism is named if it differs by a fifth at least, in the direction of the residual; of
several, that which differs most. It is what the runs' own data show, and no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from harness.metrics import load_of
from harness.store.runs import StoredRun
from reports.explain.baseline import Baseline
from reports.explain.ceilings import values_of
from reports.explain.demand import Demand, demand_of, queries_of
from reports.explain.devices import NO_TIER_SOURCES, TierSources, devices_of
from reports.explain.laws import calibrate
from reports.values import Quantity

#: A residual above it, measured over predicted less one, is marked.
MARKED = 0.4
_DIFFERS = math.log(1.2)
_LOG = "wal"


class Mechanism(StrEnum):
    """What differs between the arms, per operation or query, beyond what the laws predict.

    ``SYNC_TIME``, ``READ_TIME``: times of calls over those of the tier's baseline, as where a
    throttled device lets bursts pass that the baseline has used up.
    """

    PROCESSOR_TIME = "processor-time"
    READS = "reads"
    SYNCS = "syncs"
    SYNC_TIME = "sync-time"
    READ_TIME = "read-time"
    STOLEN_TIME = "stolen-time"
    OTHER_PROGRAMS = "other-programs"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Mark:
    """Mark of a residual above :data:`MARKED`. ``mechanism``: None if none is in the runs' data.

    ``a``, ``b``: medians of its measure on both arms: ns of processor time, calls, shares of the
    processors, times over those of the baseline, or pages or bytes that checkpoints wrote, of an
    operation or of all queries.
    """

    mechanism: Mechanism | None
    a: float | None = None
    b: float | None = None

    @property
    def text(self) -> str:
        """Name the mechanism with both measures."""
        if self.mechanism is None or self.a is None or self.b is None:
            return "not explained"
        name = self.mechanism.replace("-", " ")
        if self.mechanism is Mechanism.PROCESSOR_TIME:
            return f"{name} {self.a / 1e3:.3g} → {self.b / 1e3:.3g} µs"
        if self.mechanism in (Mechanism.SYNC_TIME, Mechanism.READ_TIME):
            return f"{name} over its baseline's {self.a:.3g} → {self.b:.3g}"
        return f"{name} {self.a:.3g} → {self.b:.3g}"


def mark_of(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    residual: float | None,
    sources: TierSources = NO_TIER_SOURCES,
) -> Mark | None:
    """Return the mark of a comparison; None if its prediction is close, or not there."""
    if residual is None or abs(residual) <= MARKED:
        return None
    sides = [[_measures(run, sources) for run in runs] for runs in (a, b)]
    differing: list[tuple[float, Mark]] = []
    for mechanism in Mechanism:
        of_a, of_b = (
            [measures[mechanism] for measures in side if mechanism in measures] for side in sides
        )
        if not of_a or not of_b:
            continue
        before, after = median(of_a), median(of_b)
        # B that is faster than predicted spends less; a share of the processors is not left to it.
        ratio = math.log(_spent(mechanism, before) / _spent(mechanism, after))
        if ratio * residual > 0 and abs(ratio) >= _DIFFERS:
            differing.append((abs(ratio), Mark(mechanism, before, after)))
    return max(differing, key=lambda pair: pair[0])[1] if differing else Mark(None)


def _spent(mechanism: Mechanism, measure: float) -> float:
    if mechanism in (Mechanism.STOLEN_TIME, Mechanism.OTHER_PROGRAMS):
        return 1 / max(0.01, 1 - min(1.0, measure))
    return max(1e-3, measure)


def _measures(run: StoredRun, sources: TierSources) -> Mapping[Mechanism, float]:
    values = values_of(run)
    shares = {
        Mechanism.STOLEN_TIME: "stolen_cpu_share",
        Mechanism.OTHER_PROGRAMS: "other_cpu_share",
    }
    measures = {
        mechanism: value
        for mechanism, name in shares.items()
        if (value := values.get(Quantity(name))) is not None
    }
    written = [
        value
        for quantity, value in values.items()
        if quantity.name.startswith("window_") and "checkpoint_written" in quantity.name
    ]
    if written:
        measures[Mechanism.CHECKPOINT] = sum(written)
    load = load_of(run.spec.workload, run.spec.params)
    if load is None:
        if queries := queries_of(run):
            measures[Mechanism.PROCESSOR_TIME] = sum(query.processor_ns for query in queries)
        return measures
    if demand := demand_of(run, load):
        measures[Mechanism.PROCESSOR_TIME] = demand.processor_ns
        measures[Mechanism.READS] = _calls(demand, lambda part: part != _LOG, "read")
        measures[Mechanism.SYNCS] = _calls(demand, lambda part: part == _LOG, "sync")
        if tiers := _baselines(run, demand, sources):
            calibration = calibrate(demand, tiers)
            measures[Mechanism.SYNC_TIME] = calibration.syncs
            measures[Mechanism.READ_TIME] = calibration.reads
    return measures


def _baselines(run: StoredRun, demand: Demand, sources: TierSources) -> Mapping[str, Baseline]:
    """Return the baseline of each part that was called; nothing if one of them has none."""
    host, placed = run.host_id, devices_of(run)
    baselines = {
        part: Baseline.of(placed[part], sources.baselines.get((host, placed[part]), ()))
        for part in {calls.part for calls in demand.calls}
        if part in placed
    }
    there = {part: baseline for part, baseline in baselines.items() if baseline is not None}
    return there if there.keys() == {calls.part for calls in demand.calls} else {}


def _calls(demand: Demand, of_part: Callable[[str], bool], operation: str) -> float:
    """Return the sessions' calls of an operation."""
    return sum(
        calls.calls
        for calls in demand.calls
        if of_part(calls.part) and calls.operation == operation and not calls.cell.background
    )
