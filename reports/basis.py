"""What the certainty of a comparison rests on: facts with codes, alike wherever it is shown.

They are no score: how much each weighs is the reader's to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from harness.store.calibrations import Calibration, CalibrationStore, latest_of
from harness.store.runs import StoredRun
from harness.units import counted
from harness.warnings import RunWarning
from reports.canary import canary_limit
from reports.formatting import percent, stand_in_text
from reports.noise import arms_differ, same_headline
from reports.run_configuration import emulations
from reports.statistics import Pairing, noise_of

Code = Literal[
    "pairs",
    "repeats",
    "answers-unknown",
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
    shared = [f for f in every[0][1] if all(f in own for _, own in every)] if every else []
    more: dict[str, list[str]] = {}
    for name, own in every:
        if rest := [fact for fact in own if fact not in shared]:
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
    runs = (*a, *b)
    if unknown := sum(run.result.status == "unknown" for run in runs):
        yield Fact("answers-unknown", f"answers unknown in {counted(unknown, 'run')}", (unknown,))
    if emulated := emulations(runs):
        yield Fact("emulated", stand_in_text(emulated), emulated)
    yield _noise(runs)
    yield _canary(runs)
    entries = [entry for run in runs for entry in run.result.uncontrolled]
    codes = tuple(dict.fromkeys(one.code for one in (*warnings, *entries) if one.code))
    text = f"warnings {', '.join(codes)}" if codes else "no warning"
    yield Fact("warnings", text, codes)


def _canary(runs: Sequence[StoredRun]) -> Fact:
    """State which change of the machine a canary would have found, if it covers each run."""
    limit = canary_limit(runs)
    if limit is None:
        return Fact("no-canary", "no canary")
    code: Code = "canary" if limit.known else "canary-not-calibrated"
    return Fact(code, f"canary finds changes above {limit}", (limit.share,))


def _noise(runs: Sequence[StoredRun]) -> Fact:
    """State the calibrated noise of the headline, of several engines the largest one."""
    found = [
        (run, one)
        for run in runs
        if (one := _calibration(run)) is not None and same_headline(one, run.spec)
    ]
    noise = [noise_of(one.deciding.log_ratios) for _, one in found if one.deciding is not None]
    if len(noise) < len(runs):
        return Fact("not-calibrated", "noise not calibrated")
    other = sorted({name for run, one in found for name in one.differing(run.spec)})
    of = f" with other {', '.join(other)}" if other else ""
    distinct = {one.calibration_id: one.deciding for _, one in found}.values()
    differ = any(one is not None and arms_differ(one) for one in distinct)
    shown = ("arms-differ",) if differ else ()
    of += ", where identical runs differed" if differ else ""
    return Fact("noise", f"noise {percent(max(noise))}, calibrated{of}", (max(noise), *shown))


def _calibration(run: StoredRun) -> Calibration | None:
    folder = CalibrationStore(run.results).folder
    changed_ns = folder.stat().st_mtime_ns if folder.is_dir() else 0
    host_id = run.head.host.host_id if run.head.host else ""
    calibrations = _calibrations(run.results, changed_ns)
    return latest_of(calibrations, host_id, run.spec)


@lru_cache(maxsize=8)
def _calibrations(results: Path, changed_ns: int) -> tuple[Calibration, ...]:
    """Read calibrations once for all comparisons; ``changed_ns``: when the folder changed."""
    return tuple(CalibrationStore(results).all())
