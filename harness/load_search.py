"""The search for the most load within a latency target: which load is tried next, and the answer.

Latency grows with load. So from a first load the search goes up, or down, until one load keeps the
target and another misses it, and halves the interval between them. A load counts as within the
target, or as missing it, where the interval of its latency lies on one side; otherwise its window
is repeated, and then loads on both sides of it are tried. Both ends of the answer are measured
twice. Windows may vary more than the interval of each says (another restore, another minute): by
how much, the repeated ones say together, and all intervals are as much wider. All functions are of
the windows so far alone, so that whoever has these windows finds the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.sequences import grouped

#: Most windows of a search.
MOST_WINDOWS = 12
#: The ends of an answer are at most this far apart, as a share.
PRECISION = 0.05
#: Windows at a load on no side of the target, before loads next to it are tried.
_REPEATS = 2
#: Loads are no nearer to one that is on no side, as a share.
_NEAREST = 0.02
#: Up, and down from the first load and from the one after it; beyond a load on no side.
_UP, _DOWN, _FURTHER_DOWN, _BEYOND = 2.0, 4.0, 8.0, 1.1
#: Half of an interval, in logarithms, of which nothing is more certain.
_MOST_CERTAIN = 1e-3
#: Half of an interval of 95 % in standard deviations.
_DEVIATIONS = 1.96
#: The scatter of n windows is larger than it looks: its square by this part of n.
_FEW = 2

Side = Literal["within", "missed", "undecided"]
#: ``measured``: between two loads; ``missed``: by the smallest load, too; ``at least``: no load
#: missed it; ``at most``: no load is within it, the smallest one on no side; ``client``: the client
#: was saturated at loads that missed it; ``not measured``.
Outcome = Literal["measured", "missed", "at least", "at most", "client", "not measured"]


@dataclass(frozen=True)
class LoadWindow:
    """The latency of a window, with its interval. ``rate_met``: whether a set rate was kept.

    ``client``: whether the client was saturated.
    """

    load: float
    value_ns: float
    low_ns: float
    high_ns: float
    rate_met: bool = True
    client: bool = False

    @property
    def log(self) -> float:
        """The logarithm of the latency."""
        return math.log(self.value_ns)

    @property
    def weight(self) -> float:
        """One over the square of half of its interval, in logarithms."""
        return max(math.log(self.high_ns / self.low_ns) / 2, _MOST_CERTAIN) ** -2


@dataclass(frozen=True)
class LoadPoint:
    """All windows at a load, taken together.

    ``scatter``: by how much windows of the search vary more than their intervals say.
    """

    windows: tuple[LoadWindow, ...]
    scatter: float = 1.0

    @property
    def load(self) -> float:
        return self.windows[0].load

    @cached_property
    def _logs(self) -> tuple[float, float]:
        """Return the logarithm of the latency, and half of its interval."""
        weights = [window.weight for window in self.windows]
        values = [window.log for window in self.windows]
        mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        return mean, self.scatter / math.sqrt(sum(weights))

    @property
    def value_ns(self) -> float:
        return math.exp(self._logs[0])

    @property
    def low_ns(self) -> float:
        return math.exp(self._logs[0] - self._logs[1])

    @property
    def high_ns(self) -> float:
        return math.exp(self._logs[0] + self._logs[1])

    @property
    def client(self) -> bool:
        return any(window.client for window in self.windows)

    def side(self, limit_ns: float) -> Side:
        """Return on which side of the target it lies. A rate that is not kept misses it."""
        rates_met = [window.rate_met for window in self.windows]
        if not any(rates_met) or self.low_ns > limit_ns:
            return "missed"
        return "within" if all(rates_met) and self.high_ns <= limit_ns else "undecided"


@dataclass(frozen=True)
class Search:
    """A search so far. ``limit_ns``: the target; ``start``: the first load.

    ``least``, ``most``: bounds of the load; ``whole``: whether it is a number of users.
    """

    windows: Sequence[LoadWindow]
    limit_ns: float
    start: float
    least: float = 0.0
    most: float = math.inf
    whole: bool = False

    @cached_property
    def points(self) -> list[LoadPoint]:
        """The loads in ascending order."""
        by_load = grouped((window.load, window) for window in self.windows)
        scatter = _scatter([by_load[load] for load in sorted(by_load)])
        return [LoadPoint(tuple(by_load[load]), scatter) for load in sorted(by_load)]

    def _on(self, side: Side) -> list[LoadPoint]:
        return [point for point in self.points if point.side(self.limit_ns) == side]

    @property
    def low(self) -> LoadPoint | None:
        """The largest load within the target, below all that missed it."""
        first_missed = min((point.load for point in self._on("missed")), default=math.inf)
        below = [point for point in self._on("within") if point.load < first_missed]
        return below[-1] if below else None

    @property
    def high(self) -> LoadPoint | None:
        """The smallest load that missed the target, above all that are within it."""
        last_within = max((point.load for point in self._on("within")), default=0.0)
        above = [point for point in self._on("missed") if point.load > last_within]
        return above[0] if above else None

    @property
    def _doubtful(self) -> list[LoadPoint]:
        """The loads between the two ends: on no side, or not in the order of their sides."""
        least = self.low.load if self.low else 0.0
        most = self.high.load if self.high else math.inf
        return [point for point in self.points if least < point.load < most]

    def next_load(self) -> float | None:
        """Return the load of the next window; None where there is an answer, or nothing to try."""
        if not self.points:
            return self._possible(self.start)
        again = [point.load for point in self._doubtful if len(point.windows) < _REPEATS]
        if again:
            return again[0]
        tried = self._further()
        if tried is None or any(point.load == tried for point in self.points):
            return self._unconfirmed
        return tried

    @property
    def _unconfirmed(self) -> float | None:
        """An end of the answer whose latency was measured once; None where both were repeated."""
        if self.low is None or self.high is None:
            return None
        ends = [end for end in (self.low, self.high) if any(w.rate_met for w in end.windows)]
        return next((end.load for end in ends if len(end.windows) < _REPEATS), None)

    def _further(self) -> float | None:
        doubtful = [point.load for point in self._doubtful]
        beyond = _BEYOND ** len(doubtful)
        if self.high is None:
            top = self.points[-1].load
            return self._possible(top * (beyond if top in doubtful else _UP))
        if self.low is None:
            bottom = self.points[0].load
            down = _DOWN if bottom == self.start else _FURTHER_DOWN
            return self._possible(bottom / (beyond if bottom in doubtful else down))
        ends = [self.low.load, *doubtful, self.high.load]
        if ends[-1] / ends[0] <= 1 + PRECISION:
            return None
        gaps = [(ends[0], ends[1]), (ends[-2], ends[-1])]
        low, high = max(gaps, key=lambda gap: gap[1] / gap[0])
        if doubtful and high / low <= 1 + _NEAREST:
            return None
        return self._possible(math.sqrt(low * high))

    def _possible(self, load: float) -> float:
        """Round to three digits, or to a whole number of users, within the bounds."""
        load = min(max(load, self.least), self.most)
        if self.whole:
            return round(load)
        rounded = float(f"{load:.3g}")
        return int(rounded) if rounded >= 10 else rounded

    @property
    def outcome(self) -> Outcome:
        if self.low is None:
            if self.high is None:
                return "not measured"
            return "missed" if self.high is self.points[0] else "at most"
        if self.high is None:
            return "client" if self.points[-1].client else "at least"
        return "client" if self.high.client else "measured"

    @property
    def load(self) -> float | None:
        """The most load within the target: where latency crosses it, between the two ends.

        The largest load within it where none is known to miss it; None where none is within it.
        """
        low, high = self.low, self.high
        if low is None:
            return None
        if high is None or high.client:
            return low.load
        inside = [point for point in self.points if low.load <= point.load <= high.load]
        x = [math.log(point.load) for point in inside]
        y = [math.log(point.value_ns / self.limit_ns) for point in inside]
        middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
        spread = sum((at - middle_x) ** 2 for at in x)
        slope = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread
        if slope <= 0:  # the rate was not kept, and the latency says nothing
            slope, middle_x, middle_y = 1.0, math.log(low.load * high.load) / 2, 0.0
        load = min(max(math.exp(middle_x - middle_y / slope), low.load), high.load)
        return math.floor(load) if self.whole else load


def _scatter(by_load: Sequence[Sequence[LoadWindow]]) -> float:
    """Return by how much windows vary more than their intervals say; at least 1.

    Windows at one load have one latency, and none at a higher load has a lower one: what is left of
    the best fit of this kind is scatter.
    """
    blocks: list[list[LoadWindow]] = []
    for windows in by_load:
        of_rate = [window for window in windows if window.rate_met]
        blocks += [of_rate] if of_rate else []
        while len(blocks) > 1 and _mean(blocks[-2]) >= _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    freedom = sum(map(len, blocks)) - len(blocks)
    if not freedom:
        return 1.0
    squares = sum(w.weight * (w.log - _mean(block)) ** 2 for block in blocks for w in block)
    return max(1.0, _DEVIATIONS * math.sqrt(squares / freedom * (1 + _FEW / freedom)))


def _mean(windows: Sequence[LoadWindow]) -> float:
    weight = sum(window.weight for window in windows)
    return sum(window.weight * window.log for window in windows) / weight
