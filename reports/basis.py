"""Facts, with codes, that the certainty of a comparison rests on: alike wherever it is shown.

They are no score: how much each weighs is the reader's to decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from harness.store.calibrations import (
    Calibration,
    CalibrationStore,
    Canary,
    CanaryBandwidth,
    CanaryStore,
    latest_of,
)
from harness.store.runs import StoredRun
from harness.units import counted
from harness.warnings import RunWarning
from reports.arm import Arm, unknown_checks
from reports.formatting import p_text, percent, stand_in_text, times
from reports.hosts import host_differences
from reports.noise import arms_differ, same_headline
from reports.ranks import Pairing
from reports.resolution import noise_of
from reports.run_configuration import emulations
from reports.statistics import ALPHA, Ratio, decide, ratio_of
from reports.successive import dependence_p, drift_of, students_t
from reports.values import Quantity, measured_value

#: Without pairs: standard deviations that differ by this factor, of this number of repeats or
#: more. By accident, those of equal noise do in 5 % of comparisons at most.
_SPREADS_APART, _LEAST_SPREAD = 4, 4
#: The least drift over the repeats that is named, as a share.
_DRIFT = 0.1

Code = Literal[
    "pairs",
    "repeats",
    "hosts",
    "checks-unknown",
    "emulated",
    "noise",
    "not-calibrated",
    "canary",
    "canary-not-calibrated",
    "no-canary",
    "warnings",
]


@dataclass(frozen=True)
class Fact:
    """A fact has a code and a text; ``values`` are the numbers or names in it."""

    code: Code
    text: str
    values: tuple[str | float, ...] = ()


def basis(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    pairing: Pairing,
    warnings: Iterable[RunWarning],
) -> tuple[Fact, ...]:
    """Return the facts of the runs compared; ``warnings`` are those of the comparison itself."""
    return tuple(_facts(a, b, pairing, warnings))


def apart(
    named: Iterable[tuple[str, Sequence[Fact]]],
) -> tuple[str, dict[str, list[str]]]:
    """Return what all comparisons rest on, and what only some do, with their names."""
    every = [(name, tuple(one_by_one(facts))) for name, facts in named]
    shared = [f for f in every[0][1] if all(f in facts for _, facts in every)] if every else []
    more: dict[str, list[str]] = {}
    for name, facts in every:
        if rest := [fact for fact in facts if fact not in shared]:
            more.setdefault(_together(rest), []).append(name)
    return _together(shared), more


def one_by_one(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Make each warning a fact of its own."""
    for fact in facts:
        if fact.values and fact.code == "warnings":
            yield from (Fact("warnings", str(code), (code,)) for code in fact.values)
        else:
            yield fact


def _together(facts: Sequence[Fact]) -> str:
    """Join facts to a text, in which the warnings come last."""
    warnings = ", ".join(fact.text for fact in facts if fact.code == "warnings" and fact.values)
    others = [fact.text for fact in facts if fact.code != "warnings" or not fact.values]
    return "; ".join([*others, *([f"warnings {warnings}"] if warnings else [])])


def _facts(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    pairing: Pairing,
    warnings: Iterable[RunWarning],
) -> Iterator[Fact]:
    if pairing == "paired":
        yield Fact("pairs", counted(len(a), "pair"), (len(a),))
    else:
        text = f"{len(a)} and {len(b)} repeats, not in pairs"
        yield Fact("repeats", text, (len(a), len(b)))
    if differing := [difference.name for difference in host_differences(a, b)]:
        text = f"hosts that differ in {', '.join(_with_settings_together(differing))}"
        yield Fact("hosts", text, tuple(differing))
    runs = (*a, *b)
    if unknown := [run for run in runs if run.result.status == "unknown"]:
        text = f"checks unknown in {counted(len(unknown), 'run')} ({unknown_checks(unknown)})"
        yield Fact("checks-unknown", text, (len(unknown),))
    if emulated := emulations(runs):
        yield Fact("emulated", stand_in_text(emulated), emulated)
    yield _noise(runs)
    yield _canary(runs)
    entries = [entry for run in runs for entry in run.result.uncontrolled]
    codes = tuple(dict.fromkeys(warning.code for warning in (*warnings, *entries) if warning.code))
    text = f"warnings {', '.join(codes)}" if codes else "no warning"
    yield Fact("warnings", text, codes)


def _with_settings_together(names: Iterable[str]) -> list[str]:
    """Name settings of the engine together, and without capital letters."""
    words = (f"{name[0].lower()}{name[1:]}" for name in names)
    return list(dict.fromkeys("settings" if w.startswith("setting ") else w for w in words))


def _canary(runs: Sequence[StoredRun]) -> Fact:
    """State which change of the machine a canary would have found, if it covers each run."""
    limit = canary_limit(runs)
    if limit is None:
        return Fact("no-canary", "no canary")
    code: Code = "canary" if limit.measured else "canary-not-calibrated"
    return Fact(code, f"canary finds changes above {limit}", (limit.share,))


def _noise(runs: Sequence[StoredRun]) -> Fact:
    """State the calibrated noise of the headline, of several engines the largest one."""
    calibrations = [
        (run, calibration)
        for run in runs
        if (calibration := _calibration(run)) is not None and same_headline(calibration, run.spec)
    ]
    noise = [
        noise_of(calibration.deciding.log_ratios)
        for _, calibration in calibrations
        if calibration.deciding is not None
    ]
    if len(noise) < len(runs):
        return Fact("not-calibrated", "noise not calibrated")
    other = sorted(
        {name for run, calibration in calibrations for name in calibration.differing(run.spec)}
    )
    of = f" with other {', '.join(other)}" if other else ""
    distinct = {
        calibration.calibration_id: calibration.deciding for _, calibration in calibrations
    }.values()
    differ = any(metric is not None and arms_differ(metric) for metric in distinct)
    shown = ("arms-differ",) if differ else ()
    of += ", where identical runs differed" if differ else ""
    return Fact("noise", f"noise {percent(max(noise))}, calibrated{of}", (max(noise), *shown))


def _calibration(run: StoredRun) -> Calibration | None:
    folder = CalibrationStore(run.results).folder
    changed_ns = folder.stat().st_mtime_ns if folder.is_dir() else 0
    calibrations = _calibrations(run.results, changed_ns)
    return latest_of(calibrations, run.host_id, run.spec)


@lru_cache(maxsize=8)
def _calibrations(results: Path, changed_ns: int) -> tuple[Calibration, ...]:
    """Read calibrations once for all comparisons; ``changed_ns``: when the folder changed."""
    return tuple(CalibrationStore(results).all())


# Canaries: whether a machine changed during an experiment --------------------------------
#
# A figure has moved if its change is beyond a multiple of those in the other canaries of this host
# (harness/micro/canary.py): of their root mean square or, since some of those machines did change,
# of their median, whichever is smaller. The multiple is the quantile of Student's t for their
# number, corrected for the number of figures and for the choice (Bonferroni). So one experiment in
# twenty at most has a warning without a reason.

#: Other canaries from which the noise of a figure is known; without them, a change beyond any usual
#: noise counts. A change below the last one does not matter, however small the noise.
_KNOWN, _ASSUMED, _LEAST = 3, 0.3, 0.05
#: Of normal noise: the standard deviation over the median deviation, and the share of the values
#: from which it would be known as well without the median.
_OF_MEDIAN, _EFFICIENCY = 1.4826, 0.37


class Limit(NamedTuple):
    """A limit is the change of a figure, as a share, beyond which it has moved.

    ``measured``: whether by the noise of other canaries; else it is assumed.
    """

    share: float
    measured: bool

    def __str__(self) -> str:
        return percent(self.share) + ("" if self.measured else " (assumed: noise not known)")


class Moved(NamedTuple):
    """A figure that has moved; ``ratio``: how much higher it is after the experiment."""

    figure: CanaryBandwidth
    ratio: float
    limit: Limit


def repeat_warnings(a: Arm, b: Arm, pairing: Pairing, quantity: Quantity) -> Iterator[RunWarning]:
    """Warn of repeats that do not meet what the statistics of a comparison's headline assume.

    That is ``blocks-not-independent``, ``results-drift`` and, without pairs, ``spreads-differ``.
    """
    runs = [sorted(arm.runs, key=lambda run: run.result.started_unix_ns) for arm in (a, b)]
    if pairing == "paired":
        pairs = zip(a.runs, b.runs, strict=True)
        order = sorted(pairs, key=lambda pair: pair[0].result.started_unix_ns)
        runs = [list(side) for side in zip(*order, strict=True)]
    values = [[measured_value(run, quantity) for run in side] for side in runs]
    if not all(value is not None and value > 0 for side in values for value in side):
        return
    logs = [np.log(np.asarray(side, dtype=np.float64)) for side in values]
    series = [logs[0] - logs[1]] if pairing == "paired" else logs
    p = min(1.0, len(series) * min(map(dependence_p, series)))
    if p <= ALPHA:
        yield RunWarning(
            "blocks-not-independent",
            "results of successive blocks depend on one another",
            f"{quantity.name}: {len(series[0])} blocks, p {p_text(p)}: more differences than 5 % "
            "may be shown by accident",
            "restore data and clear caches for each run, a longer --ramp-up",
        )
    for arm, side in zip((a, b), logs, strict=True):
        change, p = drift_of(side)
        if p <= ALPHA / 2 and abs(change - 1) >= _DRIFT:  # of either side
            yield RunWarning(
                "results-drift",
                "results drift over the repeats",
                f"{quantity.name}: {arm.name}: {percent(abs(change - 1))} "
                f"{'higher' if change > 1 else 'lower'} at the end of {len(side)} repeats",
                "pairs cancel it; look for what changes: temperature, a cache, a device that wears",
            )
    if pairing == "unpaired" and min(map(len, logs)) >= _LEAST_SPREAD:
        spreads = sorted(float(side.std(ddof=1)) for side in logs)
        if spreads[1] >= _SPREADS_APART * max(spreads[0], 1e-12):
            yield RunWarning(
                "spreads-differ",
                "the repeats of one side vary much more, which the test without pairs assumes not",
                f"{quantity.name}: standard deviations {percent(spreads[0])} and "
                f"{percent(spreads[1])}",
                "measure both in one command, in pairs",
            )


def canary_warnings(runs: Sequence[StoredRun]) -> Iterator[RunWarning]:
    """Yield ``machine-changed`` for each execution of an experiment that these runs are of."""
    for canary, others in _canaries_of(runs):
        yield from _warnings(canary, others)


def canary_limit(runs: Sequence[StoredRun]) -> Limit | None:
    """Return the change that the canaries of these runs find; None if a run has none."""
    canaries = list(_canaries_of(runs))
    if not all(any(_covers(canary, run) for canary, _ in canaries) for run in runs):
        return None
    return max(_limit(figure, *canary) for canary in canaries for figure in canary[0].figures)


def _canaries_of(runs: Sequence[StoredRun]) -> Iterator[tuple[Canary, Sequence[Canary]]]:
    """Yield each canary of the runs' experiments, with the others of that results directory."""
    for results in dict.fromkeys(run.results for run in runs):
        folder = CanaryStore(results).folder
        canaries = _canaries(results, folder.stat().st_mtime_ns if folder.is_dir() else 0)
        for canary in canaries:
            if any(_covers(canary, run) for run in runs):
                yield canary, [other for other in canaries if other is not canary]


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
            f"{change.figure.tier} {change.figure.configuration}: "
            f"bandwidth {times(change.ratio)} after it, limit {change.limit}"
            for change in moved
        )
        yield RunWarning(
            "machine-changed",
            "the machine changed during the experiment",
            context,
            "look for other load (harness doctor), and repeat the experiment",
        )


def moved_figures(canary: Canary, others: Sequence[Canary]) -> list[Moved]:
    """Return each figure that is shown to have changed, and by more than its limit."""
    moved = []
    ratios = decide([_ratio(figure) for figure in canary.figures])
    for figure, ratio in zip(canary.figures, ratios, strict=True):
        limit = _limit(figure, canary, others)
        if ratio.shown and abs(math.log(ratio.value)) > math.log1p(limit.share):
            moved.append(Moved(figure, ratio.value, limit))
    return moved


@lru_cache(maxsize=4096)
def _ratio(figure: CanaryBandwidth) -> Ratio:
    """Return how much higher a figure is after the experiment."""
    return ratio_of(figure.after, figure.before, "unpaired")


def _limit(figure: CanaryBandwidth, canary: Canary, others: Sequence[Canary]) -> Limit:
    """Return a figure's limit by its changes on this host."""
    changes = [
        math.log(_ratio(other).value)
        for other_canary in others
        if other_canary.host_id == canary.host_id
        for other in other_canary.figures
        if other.key == figure.key
    ]
    if len(changes) < _KNOWN:
        return Limit(_ASSUMED, False)
    alpha = ALPHA / (2 * len(canary.figures))
    mean = math.sqrt(math.fsum(change**2 for change in changes) / len(changes))
    middle = _OF_MEDIAN * median(map(abs, changes))
    as_many = max(1, round(_EFFICIENCY * len(changes)))
    limit = min(mean * students_t(alpha, len(changes)), middle * students_t(alpha, as_many))
    return Limit(max(_LEAST, math.expm1(limit)), True)
