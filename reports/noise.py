"""The noise between identical runs: what a calibration measured, and what repeats resolve."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.metrics import load_of
from harness.store.calibrations import Calibration, MetricNoise
from harness.store.documents import as_json
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.warnings import unique
from reports.formatting import percent, significant, utc
from reports.headline import headline
from reports.metric_registry import metric_info, metric_title
from reports.resolution import noise_bounds, noise_of, repeats_to_resolve, smallest_difference
from reports.statistics import ALPHA, Value, ratio_of
from reports.values import Point, Quantity, in_order, measured

#: Numbers of repeats whose smallest difference is shown.
REPEATS = (3, 5, 7, 10, 15, 20)
#: What is a result, not an explanation of one.
_RESULTS = ("headline", "detail", "part")
_Pair = tuple[StoredRun, StoredRun]


def calibration_of(pairs: Sequence[_Pair]) -> Calibration:
    """Return the noise by pairs of identical runs (n ≥ 1), all of them with a result."""
    runs = [run for pair in pairs for run in pair]
    first = runs[0]
    values = [(measured(a), measured(b)) for a, b in pairs]
    kinds = {q: value for a, b in values for side in (a, b) for q, value in side.items()}
    ratios = {q: tuple(_log_ratios(q, values)) for q in in_order(kinds)}
    results = [q for q, log_ratios in ratios.items() if log_ratios and _is_result(kinds[q])]
    sides = [a for a, _ in pairs], [b for _, b in pairs]
    deciding = headline(*sides, {q: kinds[q].better for q in results}).quantity
    warnings = [warning for run in runs for warning in run.result.uncontrolled]
    return Calibration(
        calibration_id=first.run_id,
        unix_ns=time.time_ns(),
        host_id=first.host_id,
        spec=first.spec,
        run_ids=tuple((a.run_id, b.run_id) for a, b in pairs),
        run_duration_ns=round(median(int(run.result.duration_ns) for run in runs)),
        headline=results.index(deciding) if deciding in results else None,
        metrics=tuple(_noise(q, kinds[q], ratios[q]) for q in results),
        warnings=tuple(unique(warnings)),
    )


def _is_result(value: Point) -> bool:
    return value.better != "none" and metric_info(value.quantity, value.better).role in _RESULTS


def _log_ratios(
    quantity: Quantity, values: Sequence[tuple[Mapping[Quantity, Point], ...]]
) -> Iterator[float]:
    """Yield the log ratios of the pairs in which both runs have a positive value."""
    for pair in values:
        both = [side[quantity].value if quantity in side else None for side in pair]
        a, b = (value if value and value > 0 else None for value in both)
        if a is not None and b is not None:
            yield math.log(a / b)


def _noise(quantity: Quantity, value: Point, ratios: tuple[float, ...]) -> MetricNoise:
    assert value.better != "none"  # such quantities decide nothing
    return MetricNoise(quantity.name, value.unit, value.better, dict(quantity.labels), ratios)


@dataclass(frozen=True)
class Resolution:
    """A number of repeats and the difference that it can show, as a share, None: nothing.

    Its interval has the uncertainty of the noise. ``duration_ns``: of the repeats of both sides of
    a comparison.
    """

    repeats: int
    difference: Value | None
    duration_ns: int


def shown_by(log_ratios: Sequence[float], repeats: int, level: float = ALPHA) -> Value | None:
    """Return the smallest difference that repeats show, with what the noise's interval leaves."""
    difference = smallest_difference(log_ratios, repeats, level)
    if difference is None:
        return None
    ends = (times * math.log1p(difference) for times in noise_bounds(log_ratios))
    return Value(difference, *map(math.expm1, ends))


def shown_text(difference: Value) -> str:
    """Return ``3.2 % [2.3, 5.9]``."""
    low, high = (significant(100 * (end or 0.0)) for end in (difference.low, difference.high))
    return f"{percent(difference.value)} [{low}, {high}]"


def resolutions(noise: MetricNoise, run_duration_ns: int) -> tuple[Resolution, ...]:
    """Return the resolution of each of :data:`REPEATS`."""
    return tuple(
        Resolution(n, shown_by(noise.log_ratios, n), 2 * n * run_duration_ns) for n in REPEATS
    )


def arms_differ(noise: MetricNoise) -> bool | None:
    """Return whether a difference is shown where there is none, as in 5 % of calibrations.

    None: too few pairs to show any.
    """
    values = [math.exp(log_ratio) for log_ratio in noise.log_ratios]
    ratio = ratio_of(values, [1.0] * len(values))
    return None if ratio.smallest_p > ALPHA else ratio.p <= ALPHA


def title_of(noise: MetricNoise) -> str:
    """Name the quantity in words: ``query time, query 6``."""
    quantity = Quantity(noise.name, tuple(noise.labels.items()))
    return metric_title(quantity, noise.better)


@dataclass(frozen=True)
class ExpectedResolution:
    """Resolution of an experiment's repeats, by the latest calibration of its engine and workload.

    ``pairs``: of the calibration. ``noise``, ``difference``: shares; ``difference`` None: nothing.
    ``level``: of one comparison among those of the experiment. ``other_conditions``: those in
    which the calibration differs.
    """

    engine: str
    calibration_id: str
    calibrated_unix_ns: int
    pairs: int
    noise: float
    repeats: int
    difference: Value | None
    level: float
    other_conditions: tuple[str, ...]

    @property
    def text(self) -> str:
        """Say in one sentence what the repeats resolve."""
        other = ", ".join(self.other_conditions)
        of = f" with other {other}" if other else ""
        shows = (
            "show no difference"
            if self.difference is None
            else f"show a difference of {shown_text(self.difference)} in the headline"
        )
        return (
            f"{self.engine}: identical runs differ by {percent(self.noise)} (calibrated{of} by "
            f"{self.pairs} pairs {utc(self.calibrated_unix_ns)}); {self.repeats} repeats {shows}"
        )


def expected(
    calibration: Calibration, spec: RunSpec, repeats: int, level: float = ALPHA
) -> ExpectedResolution | None:
    """For runs like ``spec``; None where the calibration has no headline, or of another metric."""
    noise = calibration.deciding
    if noise is None or not same_headline(calibration, spec):
        return None
    return ExpectedResolution(
        calibration.spec.engine,
        calibration.calibration_id,
        calibration.unix_ns,
        len(noise.log_ratios),
        noise_of(noise.log_ratios),
        repeats,
        shown_by(noise.log_ratios, repeats, level),
        level,
        tuple(calibration.differing(spec)),
    )


def same_headline(calibration: Calibration, spec: RunSpec) -> bool:
    """Return whether the run's headline is the calibration's: at a set rate it is a latency."""
    load = load_of(spec.workload, spec.params)
    if load is None:
        return True
    rates = (run_spec.params.get(load.rate) is None for run_spec in (calibration.spec, spec))
    return len(set(rates)) == 1


def to_json(calibration: Calibration, resolve: float | None = None) -> dict[str, Any]:
    """As stored, and what follows from it; ``resolve``: a wanted difference, as a share."""
    document = calibration.to_json()
    for noise, entry in zip(calibration.metrics, document["metrics"], strict=True):
        entry["noise"] = noise_of(noise.log_ratios)
        resolved = resolutions(noise, calibration.run_duration_ns)
        entry["resolutions"] = as_json(resolved)
    deciding = calibration.deciding
    document["arms_differ"] = arms_differ(deciding) if deciding else None
    if resolve is not None and deciding is not None:
        needed = repeats_to_resolve(deciding.log_ratios, resolve)
        took = needed and 2 * needed * calibration.run_duration_ns
        document["resolve"] = {"difference": resolve, "repeats": needed, "duration_ns": took}
    return document
