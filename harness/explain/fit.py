"""Latency against the delay that was planted in an operation: a line, its tests, its predictions.

Blocks are compared within their *round* only: a round has each level once, in random order, and
the machine's drift from one round to the next cancels.

duration
    Of a call, in a block: its own and its delay. The device's own stalls lengthen it, and the
    latency with it, so that a block with a stall is as near to the line as others.
slope
    For which the weighted median of (rise - slope * run) / distance is zero over all pairs of
    blocks of a round: rise of the latency, run of the duration, distance of the mean delays of
    their levels, which is the weight, too. Only the planted delays distinguish up from down:
    a busy machine lengthens calls and all else, and a regression on durations would show that.
    A block in which something else happened has no pull.
intervals
    95 %, by resampling rounds. Percentiles of few resampled rounds lie too near to the value: they
    are as far off as Student's t demands (the expanded percentile interval of Hesterberg, The
    American Statistician 69(4), 2015, with the expansion on the scale of the value).
bend
    Slope of the upper half of the levels minus that of the lower half.
reversals
    Adjacent levels of which the longer delay has the lower latency.
gap
    Latency of blocks without a planted delay, minus the line's at the duration of their calls: on
    the way from the levels to a faster device, the line has to pass through the present one. A
    delay hides what happens meanwhile, the device's reading ahead for example.

Pure: no clock, no store. Delays are the achieved ones, in ns; so are latencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from harness.later import np
from harness.units import format_ns

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_RESAMPLES = 1000
_TAIL = 0.025
#: Of the blocks, at each end, that do not count for the line's height.
_TRIM = 0.1
#: A bend matters from this share of the slope on: it would move an extrapolated gain by as much.
_BEND = 0.25
#: Bends and reversals matter from this share of the latency on.
_MATTERS = 0.02
#: Of a step between delays, the difference in duration that is seen at least.
_LEAST_RUN = 0.5
#: Fewer rounds give no interval.
LEAST_ROUNDS = 6
#: A prediction whose interval is wider than this share of it, on either side, is refused.
_UNCERTAIN = 0.25


@dataclass(frozen=True)
class Block:
    """A stretch of time, or one execution, under one planted delay.

    ``planted_ns``: its level; ``delay_ns``: the mean delay that was achieved; ``latency_ns``: the
    mean latency of the operations in it; ``call_ns``: the mean duration of the calls without the
    delay, None if unknown: as long as in the whole run. A block with ``planted_ns`` 0 is no part
    of the line, but a test of it.
    """

    round: int
    planted_ns: int
    delay_ns: float
    latency_ns: float
    call_ns: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """As stored."""
        return asdict(self)


@dataclass(frozen=True)
class Level:
    """The blocks of one planted delay."""

    planted_ns: int
    delay_ns: float
    call_ns: float
    latency: Estimate
    blocks: int

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        return {
            "planted_ns": self.planted_ns,
            "delay_ns": self.delay_ns,
            "call_ns": self.call_ns,
            "latency_ns": self.latency.to_json(),
            "block_count": self.blocks,
        }


@dataclass(frozen=True)
class Refusal:
    """Why there is no prediction: a stable code, its numbers, and where the line ends."""

    code: str
    context: str
    line: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        line = {"line_ns": self.line.to_json()} if self.line else {}
        return {"code": self.code, "context": self.context, **line}


@dataclass(frozen=True)
class Change:
    """Each call of an operation takes longer by ``delay_ns``; if negative, it is faster.

    ``fit``: of that operation; ``floor_ns``: the time of an operation outside of what it slows.
    """

    fit: Fit
    delay_ns: float
    floor_ns: float | None = None


@dataclass(frozen=True)
class Prediction:
    """The latency now, without an added delay; after a change; and how many times lower it gets."""

    now: Estimate
    latency: Estimate
    speed_up: Estimate


class TooFewBlocks(Exception):
    """There are not enough rounds with enough levels for an interval; ``str()`` has the numbers."""


class Fit:
    """The line of one operation; TooFewBlocks where the blocks do not suffice for one.

    ``call_ns``: the mean duration of its calls, from which durations are counted.
    """

    def __init__(self, every: Sequence[Block], call_ns: float = 0.0) -> None:
        blocks = [block for block in every if block.planted_ns]
        self._delays, self._calls, self._latencies = _by_round(blocks, call_ns)
        #: How much longer than that.
        self._longer = self._delays + self._calls - call_ns
        rounds, levels = self._delays.shape
        if rounds < LEAST_ROUNDS or levels < 3:
            raise TooFewBlocks(
                f"{rounds} complete rounds of {levels} levels; a fit needs {LEAST_ROUNDS} of 3"
            )
        self._planted = sorted({block.planted_ns for block in blocks})
        random = np.random.default_rng(0)  # the same blocks have the same interval
        chosen = random.integers(0, rounds, (_RESAMPLES, rounds))
        #: The first row is of all rounds themselves.
        self._chosen = np.vstack([np.arange(rounds), chosen])
        #: By resample and level.
        self._level_delays = np.stack(
            [_trimmed(self._delays[self._chosen, level]) for level in range(levels)], axis=1
        )
        slopes = self._slopes(range(levels))
        heights = _trimmed(self._residuals(slopes))
        #: None of too few blocks without a delay.
        self.gap = self._gap(
            [block for block in every if not block.planted_ns], call_ns, slopes, heights
        )
        self._slopes_sampled, self._heights = (_expanded(one, rounds) for one in (slopes, heights))
        self.slope = estimate(self._slopes_sampled)
        half = levels // 2
        bends = self._slopes(range(half, levels)) - self._slopes(range(levels - half))
        self.bend = estimate(_expanded(bends, rounds))
        self.levels = self._levels()

    @property
    def linear(self) -> bool:
        """Whether neither a bend nor a reversal that matters was found."""
        return self.not_linear is None

    @property
    def not_linear(self) -> Refusal | None:
        """Which of the two was found."""
        reversed_ = self._reversal()
        if reversed_ is not None:
            lower, upper, change = reversed_
            return Refusal(
                "not-monotonic",
                f"+{format_ns(lower.planted_ns)} to +{format_ns(upper.planted_ns)} changes the "
                f"latency by {_interval(change)}",
            )
        bend, slope = self.bend, self.slope
        first, last = self.levels[0], self.levels[-1]
        moved_ns = abs(bend.value) * (last.delay_ns - first.delay_ns)
        matters = moved_ns > _MATTERS * first.latency.value
        if bend.low * bend.high > 0 and matters and abs(bend.value) > _BEND * abs(slope.value):
            return Refusal(
                "not-linear",
                f"the slope of the longer delays is {bend.value:+.2f} "
                f"[{bend.low:+.2f}, {bend.high:+.2f}] above that of the shorter ones "
                f"({slope.value:.2f} over all)",
            )
        return None

    def at(self, delay_ns: float) -> Estimate:
        """Latency under an added delay, whatever the tests say; negative: of a faster device."""
        return estimate(self._heights + self._slopes_sampled * delay_ns)

    def predict(self, delay_ns: float, floor_ns: float | None = None) -> Estimate | Refusal:
        """Latency under an added delay, or why none is predicted.

        ``floor_ns``: the time of an operation outside of what the delay slows.
        """
        found = self.at(delay_ns)
        far = -delay_ns > self.levels[-1].delay_ns - self.levels[0].delay_ns
        problem = (
            self.not_linear
            or _impossible(found, floor_ns)
            or self._not_through_present(found)
            or _too_uncertain(found, far)
        )
        return found if problem is None else replace(problem, line=found)

    def sampled(self, delay_ns: float, seed: int) -> Floats:
        """As :meth:`at`, all rounds first, then the resamples, in an order of their own."""
        found = self._heights + self._slopes_sampled * delay_ns
        return np.concatenate([found[:1], np.random.default_rng(seed).permutation(found[1:])])

    def _slopes(self, levels: Sequence[int]) -> Floats:
        """Of all rounds, then of each resample."""
        pairs = [(i, j) for at, i in enumerate(levels) for j in levels[at + 1 :]]
        first, second = [i for i, _ in pairs], [j for _, j in pairs]
        apart = (self._level_delays[:, second] - self._level_delays[:, first])[:, None, :]
        rises = (self._latencies[:, second] - self._latencies[:, first])[self._chosen]
        runs = (self._longer[:, second] - self._longer[:, first])[self._chosen]
        weights = np.where(np.isfinite(rises), np.maximum(apart, 0.0), 0.0)
        used, size = weights > 0, (len(self._chosen), -1)
        weights = weights.reshape(size)
        rises, runs = (
            np.divide(one, apart, out=np.zeros_like(one), where=used).reshape(size)
            for one in (rises, runs)
        )
        # Newton's steps. With noise as large as the delays, a step may be too short, not too long.
        each = np.maximum(_weighted_medians(runs, weights), _LEAST_RUN)
        slopes = _weighted_medians(rises, weights) / each
        left = rises - slopes[:, None] * runs
        return np.asarray(slopes + _weighted_medians(left, weights) / each)

    def _gap(
        self, undelayed: Sequence[Block], call_ns: float, slopes: Floats, heights: Floats
    ) -> Estimate | None:
        if len(undelayed) < LEAST_ROUNDS:
            return None
        latencies = np.array([block.latency_ns for block in undelayed])
        calls = np.array([call_ns if b.call_ns is None else b.call_ns for b in undelayed])
        count = len(undelayed)
        random = np.random.default_rng(1)
        chosen = np.vstack([np.arange(count), random.integers(0, count, (_RESAMPLES, count))])
        of_line = slopes[:, None] * (calls - call_ns)[chosen]
        gaps = _medians(latencies[chosen] - of_line) - heights
        return estimate(_expanded(gaps, min(count, len(self._delays))))

    def _not_through_present(self, found: Estimate) -> Refusal | None:
        gap = self.gap
        if gap is None or gap.low <= 0 <= gap.high or abs(gap.value) <= _UNCERTAIN * found.value:
            return None
        return Refusal(
            "not-through-present",
            f"without a delay, the latency differs from the line by {_interval(gap)}: the delays "
            "hide work, such as reading ahead",
        )

    def _residuals(self, slopes: Floats) -> Floats:
        """Latency without the added delay, by round: a mean of its blocks."""
        of_line = slopes[:, None, None] * self._longer[self._chosen]
        left = self._latencies[self._chosen] - of_line
        return np.asarray(np.nanmean(left, axis=2), dtype=np.float64)

    def _levels(self) -> list[Level]:
        found = []
        for index, planted_ns in enumerate(self._planted):
            latencies = self._latencies[:, index]
            sampled = _expanded(_trimmed(latencies[self._chosen]), len(latencies))
            delay_ns = float(self._level_delays[0, index])
            call_ns = float(np.nanmean(self._calls[:, index]))
            count = int(np.isfinite(latencies).sum())
            found.append(Level(planted_ns, delay_ns, call_ns, estimate(sampled), count))
        return found

    def _reversal(self) -> tuple[Level, Level, Estimate] | None:
        """The first pair of adjacent levels that is reversed, with the change."""
        # As if all calls of a level had taken the same time.
        stalls = self._longer - self._level_delays[0]
        latencies = self._latencies - self.slope.value * stalls
        pairs = len(self.levels) - 1
        for index in range(pairs):
            changes = latencies[:, index + 1] - latencies[:, index]
            lower, upper = self.levels[index], self.levels[index + 1]
            sampled = _expanded(_medians(changes[self._chosen]), len(changes))
            change = estimate(sampled, _TAIL / pairs)
            if change.high < 0 and -change.value > _MATTERS * lower.latency.value:
                return lower, upper, change
        return None


def predict_all(changes: Sequence[Change]) -> Prediction | Refusal:
    """Of several operations at once, each with a fit of its own run; or why none is predicted.

    The latency now is the mean of the fits'. Whatever is refused of one is refused of all.
    """
    for one in changes:
        alone = one.fit.predict(one.delay_ns, one.floor_ns)
        if isinstance(alone, Refusal):
            return alone
    bases = [one.fit.sampled(0.0, seed) for seed, one in enumerate(changes)]
    now = np.mean(bases, axis=0)
    saved = [
        base - one.fit.sampled(one.delay_ns, seed)
        for seed, (one, base) in enumerate(zip(changes, bases, strict=True))
    ]
    after = now - np.sum(saved, axis=0)
    latency = estimate(after)
    apart = [float(base[0]) for base in bases]
    if max(apart) - min(apart) > 2 * _UNCERTAIN * float(now[0]):
        between = " and ".join(map(format_ns, (min(apart), max(apart))))
        return Refusal(
            "too-uncertain",
            f"without an added delay, the latency is between {between}",
            latency,
        )
    if (problem := _impossible(latency) or _too_uncertain(latency)) is not None:
        return replace(problem, line=latency)
    faster = np.divide(now, after, out=np.full_like(now, np.inf), where=after > 0)
    return Prediction(estimate(now), latency, estimate(faster))


def _impossible(found: Estimate, floor_ns: float | None = None) -> Refusal | None:
    if found.value <= 0:
        return Refusal("below-zero", f"the line ends at {format_ns(found.value)}")
    if floor_ns is not None and found.high < floor_ns:
        return Refusal(
            "below-floor",
            f"{_interval(found)} predicted, but an operation spends {format_ns(floor_ns)} "
            "elsewhere",
        )
    return None


def _too_uncertain(found: Estimate, far: bool = False) -> Refusal | None:
    """``far``: whether it is farther from the levels than these are from one another."""
    width = max(found.high - found.value, found.value - found.low)
    if width <= _UNCERTAIN * found.value:
        return None
    better = "with longer --levels" if far else "or on an idle machine"
    return Refusal("too-uncertain", f"{_interval(found)}: measure longer, {better}")


def _interval(found: Estimate) -> str:
    return f"{format_ns(found.value)} [{format_ns(found.low)}, {format_ns(found.high)}]"


def _by_round(blocks: Sequence[Block], call_ns: float) -> tuple[Floats, Floats, Floats]:
    """Delays, calls and latencies, rounds × levels, NaN where a block is missing.

    A round with fewer than two blocks compares nothing and is left out.
    """
    rounds = {number: index for index, number in enumerate(sorted({b.round for b in blocks}))}
    levels = {ns: index for index, ns in enumerate(sorted({b.planted_ns for b in blocks}))}
    tables = np.full((3, len(rounds), len(levels)), np.nan)
    for block in blocks:
        place = rounds[block.round], levels[block.planted_ns]
        own_ns = call_ns if block.call_ns is None else block.call_ns
        tables[:, *place] = block.delay_ns, own_ns, block.latency_ns
    kept = np.isfinite(tables[0]).sum(axis=1) >= max(2, len(levels) - 1)
    delays, calls, latencies = tables[:, kept]
    return delays, calls, latencies


def _weighted_medians(values: Floats, weights: Floats) -> Floats:
    """Of each row."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    summed = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = np.argmax(summed >= summed[:, -1:] / 2, axis=1)
    return np.asarray(ordered[np.arange(len(ordered)), middle], dtype=np.float64)


def _medians(values: Floats) -> Floats:
    return np.asarray(np.nanmedian(values, axis=1), dtype=np.float64)


def _trimmed(values: Floats) -> Floats:
    """Trimmed mean of each row."""
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1, keepdims=True)
    cut = np.floor(_TRIM * count)
    place = np.arange(ordered.shape[1])[None, :]
    kept = (place >= cut) & (place < count - cut)
    return np.asarray(np.where(kept, ordered, 0.0).sum(axis=1) / kept.sum(axis=1))


def _expanded(sampled: Floats, count: int) -> Floats:
    """Resamples of ``count`` rounds, farther from the value, which is the first."""
    degrees, z = count - 1, NormalDist().inv_cdf(1 - _TAIL)
    # Student's quantile over the normal one (Abramowitz and Stegun, 26.7.5): of 5, within 0.2 %.
    over = 1 + (
        (z**2 + 1) / (4 * degrees)
        + (5 * z**4 + 16 * z**2 + 3) / (96 * degrees**2)
        + (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / (384 * degrees**3)
    )
    factor = over * math.sqrt(count / degrees)
    return np.asarray(sampled[0] + factor * (sampled - sampled[0]))


def estimate(sampled: Floats, tail: float = _TAIL) -> Estimate:
    """The value of all rounds, and an interval that contains it, from the resamples."""
    value = float(sampled[0])
    low, high = np.quantile(sampled[1:], [tail, 1 - tail])
    return Estimate(value, min(value, float(low)), max(value, float(high)))
