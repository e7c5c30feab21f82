"""Whether a machine changed during an experiment, by its canaries (harness/execution/canary.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median

from harness.store.canaries import Canary, CanaryStore, Figure
from harness.store.runs import StoredRun
from harness.warnings import RunWarning
from reports.formatting import percent, times
from reports.statistics import Estimate, compare_unpaired, decide

#: The noise of a figure, as a share: between the ends of this many experiments or more, of which
#: such a multiple of the median counts; without them, and at least.
_CALIBRATED, _MULTIPLE, _ASSUMED, _LEAST = 3, 3.0, 0.1, 0.05


def canary_warnings(runs: Sequence[StoredRun]) -> Iterator[RunWarning]:
    """``machine-changed`` for each execution of an experiment that these runs are of."""
    for results in dict.fromkeys(run.results for run in runs):
        folder = CanaryStore(results).folder
        known = _canaries(results, folder.stat().st_mtime_ns if folder.is_dir() else 0)
        for one in known:
            if any(_covers(one, run) for run in runs):
                yield from _warnings(one, known)


@lru_cache(maxsize=8)
def _canaries(results: Path, changed_ns: int) -> tuple[Canary, ...]:
    """Read once for all comparisons; ``changed_ns``: when there was another one."""
    return tuple(CanaryStore(results).all())


def _covers(canary: Canary, run: StoredRun) -> bool:
    began = run.head["started_unix_ns"]
    same = run.head["experiment"]["hash"] == canary.experiment
    return bool(same and canary.began_unix_ns <= began <= canary.ended_unix_ns)


def _warnings(canary: Canary, known: Sequence[Canary]) -> Iterator[RunWarning]:
    if moved := moved_figures(canary, known):
        context = "; ".join(
            f"{one.tier} {one.configuration}: bandwidth {times(ratio)} after it, noise "
            f"{percent(noise)}"
            for one, ratio, noise in moved
        )
        yield RunWarning(
            "machine-changed",
            "the machine changed during the experiment",
            context,
            "look for other load (harness doctor), and repeat the experiment",
        )


def moved_figures(canary: Canary, known: Sequence[Canary]) -> list[tuple[Figure, float, float]]:
    """Each figure that is shown to have changed by more than its noise: ratio and noise."""
    estimates = [_compared(one) for one in canary.figures]
    found = []
    for figure, estimate, decision in zip(
        canary.figures, estimates, decide(estimates), strict=True
    ):
        noise = _noise(figure, canary, known)
        beyond = abs(math.log(estimate.ratio)) > math.log1p(noise)
        if decision.outcome == "shown" and beyond:
            found.append((figure, estimate.ratio, noise))
    return found


def _compared(figure: Figure) -> Estimate:
    """How much higher it is after the experiment."""
    return compare_unpaired(figure.after, figure.before)


def _noise(figure: Figure, canary: Canary, known: Sequence[Canary]) -> float:
    """Of the same figure on this host, between the ends of other experiments."""
    changes = [
        abs(math.log(_compared(other).ratio))
        for one in known
        if one is not canary and one.host_id == canary.host_id
        for other in one.figures
        if other.key == figure.key
    ]
    if len(changes) < _CALIBRATED:
        return _ASSUMED
    return max(_LEAST, math.expm1(_MULTIPLE * median(changes)))
