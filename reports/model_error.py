"""How far a modelled run may be from a run on the device: scores, and the error of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.iotrace.page import OPERATIONS
from harness.models.score import (
    DEVICE_TIME,
    LEAST_SHARE,
    NOT_KEPT,
    Pair,
    Score,
    ScoredMetric,
    ScoreStore,
    device_time_of,
)
from harness.sequences import grouped
from harness.store.runs import StoredRun
from reports.explain.ceilings import ceilings
from reports.explain.devices import devices_that_hold
from reports.run_configuration import modelled_tiers
from reports.statistics import Missing, compare_values

#: Without scores on this host, the device's time of a model may be off by this factor: as much as
#: the largest of the project's own (BENCHMARKS.md), and a little more.
ASSUMED = 1.5
#: Fewer scores of an engine and workload than this have no spread of their own.
FEWEST_SCORES = 3
#: Of no device: their runs measure a ceiling.
_NO_LATENCY = {"zero", "latency:0us"}


def score_metrics(blocks: Sequence[Pair]) -> list[ScoredMetric]:
    """Return the ratios of all blocks together: throughput, latencies, the time of calls."""
    by_name = grouped((m.name, m) for block in blocks for m in block.measured)
    least_ns = LEAST_SHARE * sum(m.tier for m in by_name.get(DEVICE_TIME, ()))
    metrics = []
    for name, measured in by_name.items():
        if name.startswith(DEVICE_TIME) and sum(m.tier for m in measured) < least_ns:
            continue
        looks = max(block.looks for block in blocks)
        ratio = compare_values(
            [m.model for m in measured], [m.tier for m in measured], interim_analyses=looks
        )
        if not isinstance(ratio, Missing):
            metrics.append(ScoredMetric(name, ratio.value, ratio.low, ratio.high))
    return metrics


@dataclass(frozen=True)
class ModelError:
    """By what factor a comparison's ratio may be off, since a side is modelled.

    ``low``, ``high``: ratio and interval times these contain the device's. ``scores``: the number
    that they are the spread of; 0: assumed.
    """

    low: float
    high: float
    scores: int

    @property
    def text(self) -> str:
        """``the models' error of −4 to +9 %, by 5 scores``."""
        by = f"by {self.scores} scores" if self.scores else "assumed: not scored on this host"
        return f"the models' error of {self.low - 1:+.0%} to {self.high - 1:+.0%}, {by}"


def not_kept(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return the modelled runs that did not keep their model, each with its warnings' codes."""
    disturbed = {}
    for run in runs:
        codes = [warning.code for warning in run.result.uncontrolled if warning.code in NOT_KEPT]
        if codes and modelled_tiers(run):
            disturbed[run.run_id] = ", ".join(dict.fromkeys(codes))
    return disturbed


def model_error(
    a: Sequence[StoredRun], b: Sequence[StoredRun], whole: bool = False
) -> ModelError | None:
    """Return the error of B against A; None where neither is modelled, or only by no latency.

    ``whole``: of a quantity that may wait for the device all of its time, such as a percentile.
    """
    sides = [_error_of(runs, whole) for runs in (a, b)]
    if sides == [None, None]:
        return None
    of_a, of_b = (side or ModelError(1.0, 1.0, 0) for side in sides)
    scores = [side.scores for side in sides if side]
    return ModelError(of_b.low / of_a.high, of_b.high / of_a.low, min(scores))


def _error_of(runs: Sequence[StoredRun], whole: bool) -> ModelError | None:
    """Return by what factor the speed of modelled runs may be off."""
    models = {model for run in runs for _, model in modelled_tiers(run)}
    if models <= _NO_LATENCY:
        return None
    run = runs[0]
    scores = _scores(run.results, run.host_id, run.spec.engine, run.spec.workload)
    parts = _modelled_parts(run)
    # The sum over all calls has those of parts that are not modelled, and a percentile may be
    # the time of calls of one kind: each kind of the modelled parts' calls counts then.
    by_kind = whole or parts != DIRECTORY_PARTS
    times = [times for score in scores if (times := _device_times(score, parts if by_kind else ()))]
    share = 1.0 if whole else _device_share(runs, parts)
    few = len(times) < FEWEST_SCORES
    ratios = [1.0, *chain(*times), *((1 / ASSUMED, ASSUMED) if few else ())]
    # An operation's time on the device: what is not the device's, and the device's without error.
    speeds = [1 / (1 - share + share / max(ratio, 1e-3)) for ratio in ratios]
    return ModelError(min(speeds), max(speeds), 0 if few else len(times))


@cache
def _scores(results: Path, host_id: str, engine: str, workload: str) -> Sequence[Score]:
    scores = [
        score
        for score in ScoreStore(results).all()
        if (score.host_id, score.engine) == (host_id, engine)
    ]
    alike = [score for score in scores if score.workload == workload]
    return alike if len(alike) >= FEWEST_SCORES else scores


def _device_times(score: Score, parts: Sequence[str]) -> list[float]:
    """Return the ratios of each kind of call of the parts, or without any of all calls."""
    kinds = [device_time_of(part, operation) for part in parts for operation in OPERATIONS]
    by_kind = [metric.ratio for name in kinds if (metric := score.metric(name))]
    of_all = score.metric(DEVICE_TIME)
    return by_kind or ([of_all.ratio] if of_all else [])


def _modelled_parts(run: StoredRun) -> tuple[Part, ...]:
    tiers, placement = {tier for tier, _ in modelled_tiers(run)}, run.spec.placement
    every = placement.directory_parts if placement else ()
    return tuple(part for part in every if placement and placement.tier_of(part) in tiers)


def _device_share(runs: Sequence[StoredRun], parts: Sequence[Part]) -> float:
    """Return the largest share of an operation's time that may be the modelled devices'; 1: all."""
    bounds = ceilings(runs)
    if bounds is None:
        return 1.0
    devices = devices_that_hold(parts)
    ceiling = (bounds.of(devices) if devices else None) or bounds.of("all")
    return 1.0 if ceiling is None or ceiling.share is None else ceiling.share
