"""Whether a machine changed during an experiment, by its canaries (harness/micro/canary.py).

A figure has moved if its change is beyond a multiple of those in the other canaries of this host:
of their root mean square or, since some of those machines did change, of their median, whichever
is smaller. The multiple is the quantile of Student's t for their number, corrected for the number
of figures and for the choice (Bonferroni). So one experiment in twenty at most has a warning
without a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from harness.store.calibrations import Canary, CanaryStore, Figure
from harness.store.runs import StoredRun
from harness.warnings import RunWarning
from reports.formatting import percent, times
from reports.statistics import ALPHA, Ratio, decide, ratio_of, students_t

#: Other canaries from which the noise of a figure is known; without them, a change beyond any usual
#: noise counts. A change below the last one does not matter, however small the noise.
_KNOWN, _ASSUMED, _LEAST = 3, 0.3, 0.05
#: Of normal noise: the standard deviation over the median deviation, and the share of the values
#: from which it would be known as well without the median.
_OF_MEDIAN, _EFFICIENCY = 1.4826, 0.37


class Limit(NamedTuple):
    """A limit is the change of a figure, as a share, beyond which it has moved.

    ``known``: whether by the noise of other canaries; else it is assumed.
    """

    share: float
    known: bool

    def __str__(self) -> str:
        return percent(self.share) + ("" if self.known else " (assumed: noise not known)")


class Moved(NamedTuple):
    """A figure that has moved; ``ratio``: how much higher it is after the experiment."""

    figure: Figure
    ratio: float
    limit: Limit


def canary_warnings(runs: Sequence[StoredRun]) -> Iterator[RunWarning]:
    """Yield ``machine-changed`` for each execution of an experiment that these runs are of."""
    for canary, others in _canaries_of(runs):
        yield from _warnings(canary, others)


def canary_limit(runs: Sequence[StoredRun]) -> Limit | None:
    """Return the change that the canaries of these runs find; None if a run has none."""
    found = list(_canaries_of(runs))
    if not all(any(_covers(one, run) for one, _ in found) for run in runs):
        return None
    return max(_limit(figure, *one) for one in found for figure in one[0].figures)


def _canaries_of(runs: Sequence[StoredRun]) -> Iterator[tuple[Canary, Sequence[Canary]]]:
    """Yield each canary of the runs' experiments, with the others of that results directory."""
    for results in dict.fromkeys(run.results for run in runs):
        folder = CanaryStore(results).folder
        known = _canaries(results, folder.stat().st_mtime_ns if folder.is_dir() else 0)
        for one in known:
            if any(_covers(one, run) for run in runs):
                yield one, [other for other in known if other is not one]


@lru_cache(maxsize=8)
def _canaries(results: Path, changed_ns: int) -> tuple[Canary, ...]:
    """Read canaries once for all comparisons; ``changed_ns``: when the folder changed."""
    return tuple(CanaryStore(results).all())


def _covers(canary: Canary, run: StoredRun) -> bool:
    began = run.head.started_unix_ns
    same = run.head.experiment.hash == canary.experiment
    return bool(same and canary.began_unix_ns <= began <= canary.ended_unix_ns)


def _warnings(canary: Canary, others: Sequence[Canary]) -> Iterator[RunWarning]:
    if moved := moved_figures(canary, others):
        context = "; ".join(
            f"{one.figure.tier} {one.figure.configuration}: bandwidth {times(one.ratio)} after it, "
            f"limit {one.limit}"
            for one in moved
        )
        yield RunWarning(
            "machine-changed",
            "the machine changed during the experiment",
            context,
            "look for other load (harness doctor), and repeat the experiment",
        )


def moved_figures(canary: Canary, others: Sequence[Canary]) -> list[Moved]:
    """Return each figure that is shown to have changed, and by more than its limit."""
    found = []
    ratios = decide([_ratio(one) for one in canary.figures])
    for figure, ratio in zip(canary.figures, ratios, strict=True):
        limit = _limit(figure, canary, others)
        if ratio.shown and abs(math.log(ratio.value)) > math.log1p(limit.share):
            found.append(Moved(figure, ratio.value, limit))
    return found


@lru_cache(maxsize=4096)
def _ratio(figure: Figure) -> Ratio:
    """Return how much higher a figure is after the experiment."""
    return ratio_of(figure.after, figure.before, "unpaired")


def _limit(figure: Figure, canary: Canary, others: Sequence[Canary]) -> Limit:
    """Return a figure's limit by its changes on this host."""
    changes = [
        math.log(_ratio(other).value)
        for one in others
        if one.host_id == canary.host_id
        for other in one.figures
        if other.key == figure.key
    ]
    if len(changes) < _KNOWN:
        return Limit(_ASSUMED, False)
    alpha = ALPHA / (2 * len(canary.figures))
    mean = math.sqrt(math.fsum(one**2 for one in changes) / len(changes))
    middle = _OF_MEDIAN * median(map(abs, changes))
    as_many = max(1, round(_EFFICIENCY * len(changes)))
    limit = min(mean * students_t(alpha, len(changes)), middle * students_t(alpha, as_many))
    return Limit(max(_LEAST, math.expm1(limit)), True)
