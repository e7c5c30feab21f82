"""The distribution of the durations of one request, which keeps its mean.

Quantiles alone lose the mean: a stall of 5 ms in one of a hundred calls lies somewhere between the
99th and the 99.9th percentile, and a straight line between these is off by any factor. So a
distribution has a third number for each interval between two quantiles, the mean of the durations
in it. Within an interval, durations are level and then rise in a straight line (or rise, and then
are level): the only shape of one kink that has both ends and that mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

from harness.hdr import Histogram

#: Probabilities at which each distribution is stated, in percent.
PROBABILITIES = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 99.99, 100)
#: Fewer quantiles, without a mean, say nothing of a tail.
FEWEST_QUANTILES = 3
#: Places in each interval at which a log-normal distribution is summed up.
_STEPS = 64
_NORMAL = NormalDist()
#: Where a stated 0th or 100th percentile lies on the axis of a normal distribution.
_OUTERMOST = 1e-6
#: Bends are between 2 to the power of minus this and of this; halvings of that range.
_MOST_BENT, _HALVINGS = 8.0, 20


@dataclass(frozen=True)
class Durations:
    """Durations of a request in ns: ``quantiles`` at PROBABILITIES, ``means`` between each two.

    ValueError where a quantile is below the previous one, or a mean not between its quantiles.
    """

    quantiles: tuple[int, ...]
    means: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.quantiles) != len(PROBABILITIES) or len(self.means) != len(PROBABILITIES) - 1:
            raise ValueError(
                f"{len(self.quantiles)} quantiles and {len(self.means)} means, not "
                f"{len(PROBABILITIES)} and {len(PROBABILITIES) - 1}"
            )
        for (low, high), mean in zip(pairwise(self.quantiles), self.means, strict=True):
            if not low <= mean <= high:
                raise ValueError(f"a mean of {mean} ns between quantiles of {low} and {high} ns")

    @property
    def mean(self) -> float:
        """The mean of the whole distribution, in ns."""
        return sum(weight * mean for weight, mean in zip(_WEIGHTS, self.means, strict=True))

    def quantile(self, percent: float) -> int:
        """Return the duration in ns that ``percent`` of the requests do not exceed."""
        for place, (low, high) in enumerate(pairwise(PROBABILITIES)):
            if percent == high:  # also where the interval's mean is its lower end
                return self.quantiles[place + 1]
            if percent < high:
                share = (percent - low) / (high - low)
                ends = self.quantiles[place], self.quantiles[place + 1]
                return round(_kinked(*ends, self.means[place], share))
        return self.quantiles[-1]

    def scaled(self, factor: float) -> Durations:
        """Return the distribution of a device of which each request takes that multiple."""
        quantiles = tuple(round(duration * factor) for duration in self.quantiles)
        return replace(
            self, quantiles=quantiles, means=_between(quantiles, [m * factor for m in self.means])
        )


_WEIGHTS = [(high - low) / 100 for low, high in pairwise(PROBABILITIES)]


def _kinked(low: float, high: float, mean: float, share: float) -> float:
    """Return the duration at a share of the way from one quantile to the next.

    ``at_quantile`` of iotrace/model.c draws from the same shape.
    """
    if high <= low:
        return low
    above = (mean - low) / (high - low)
    if above <= 0.5:
        rising = 2 * above
        return low + (high - low) * max(0.0, 1 - (1 - share) / rising) if rising else low
    rising = 2 * (1 - above)
    return low + (high - low) * min(1.0, share / rising) if rising else high


def _between(quantiles: Sequence[float], means: Sequence[float]) -> tuple[int, ...]:
    """Return means as whole ns, each between its quantiles, which rounding may have passed."""
    return tuple(
        round(min(max(mean, low), high))
        for (low, high), mean in zip(pairwise(quantiles), means, strict=True)
    )


def constant(duration_ns: int) -> Durations:
    """Return the distribution of a device of which each request takes the same time."""
    count = len(PROBABILITIES)
    return Durations((duration_ns,) * count, (duration_ns,) * (count - 1))


def of_histogram(histogram: Histogram, share: float = 1.0) -> Durations:
    """Return the distribution of measured durations, of the shortest ``share`` of them."""
    quantiles, means = histogram.divided([share * percent for percent in PROBABILITIES])
    return Durations(tuple(quantiles), _between(quantiles, means))


def of_quantiles(stated: Mapping[float, int], mean_ns: int | None = None) -> Durations:
    """Return a distribution of published figures: quantiles in percent, a mean, or both.

    Between two stated quantiles it is log-normal, outside of them constant. A mean next to
    quantiles is kept: durations rise beyond the highest one, or lie nearer to the lower ones.
    ValueError where the figures contradict one another, or do not suffice.
    """
    if not stated and mean_ns is not None:
        return constant(mean_ns)
    if len(stated) < FEWEST_QUANTILES and mean_ns is None:
        raise ValueError(f"{len(stated)} quantiles and no mean, which leaves the tail open")
    points = sorted(stated.items())
    if any(low > high for (_, low), (_, high) in pairwise(points)):
        raise ValueError("a higher quantile is shorter than a lower one")
    shape = _StatedQuantiles(points)
    if mean_ns is not None:
        missing_ns = mean_ns - shape.mean
        above = 1 - points[-1][0] / 100
        shape = (
            replace(shape, rise_ns=2 * missing_ns / above)
            if missing_ns > 0 and above > 0
            else _bent(shape, mean_ns)
        )
    quantiles = tuple(round(ns) for ns in shape.at(PROBABILITIES))
    return Durations(quantiles, _between(quantiles, shape.means))


@dataclass(frozen=True)
class _StatedQuantiles:
    """Durations by stated quantiles, ``points`` of a probability in percent and ns.

    ``bend``: above 1 durations between two quantiles lie nearer to the lower one than those of a
    log-normal distribution, below 1 nearer to the higher one. ``rise_ns``: by how much the 100th
    percentile is longer than the highest stated one.
    """

    points: Sequence[tuple[float, int]]
    bend: float = 1.0
    rise_ns: float = 0.0

    def at(self, percents: Sequence[float]) -> list[float]:
        return [self._at(percent) for percent in percents]

    def _at(self, percent: float) -> float:
        first, last = self.points[0], self.points[-1]
        if percent <= first[0]:
            return first[1]
        for (low, low_ns), (high, high_ns) in pairwise(self.points):
            if percent <= high:
                begin, place, end = (_deviations(value) for value in (low, percent, high))
                share = ((place - begin) / (end - begin)) ** self.bend
                return low_ns + (high_ns - low_ns) * _exponential(share, low_ns, high_ns)
        return last[1] + self.rise_ns * (percent - last[0]) / (100 - last[0])

    @property
    def means(self) -> list[float]:
        """The mean between each two of PROBABILITIES."""
        return [
            sum(self.at([low + (high - low) * (i + 0.5) / _STEPS for i in range(_STEPS)])) / _STEPS
            for low, high in pairwise(PROBABILITIES)
        ]

    @property
    def mean(self) -> float:
        return sum(w * mean for w, mean in zip(_WEIGHTS, self.means, strict=True))


def _exponential(share: float, low_ns: float, high_ns: float) -> float:
    """Return where a logarithmic scale from low to high has a share; linear from zero."""
    if low_ns in (0, high_ns):
        return share
    return low_ns * (math.exp(math.log(high_ns / low_ns) * share) - 1) / (high_ns - low_ns)


def _bent(shape: _StatedQuantiles, mean_ns: float) -> _StatedQuantiles:
    """Return the shape whose mean is ``mean_ns``; ValueError where no bend has it."""
    low, high = -_MOST_BENT, _MOST_BENT
    if not replace(shape, bend=2**high).mean <= mean_ns <= replace(shape, bend=2**low).mean:
        raise ValueError(f"a mean of {mean_ns / 1000:g} us, which the quantiles exclude")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        longer = replace(shape, bend=2**middle).mean > mean_ns
        low, high = (middle, high) if longer else (low, middle)
    return replace(shape, bend=2**low)


@lru_cache(maxsize=4096)
def _deviations(percent: float) -> float:
    return _NORMAL.inv_cdf(min(max(percent / 100, _OUTERMOST), 1 - _OUTERMOST))
