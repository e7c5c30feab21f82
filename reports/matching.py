"""Which runs of A and B belong together, and what they differ in apart from what is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store.runs import StoredRun
from reports.labels import in_words
from reports.parameter_table import essential_facts
from reports.run_configuration import (
    DIMENSIONS,
    Dimension,
    Facts,
    dimension,
    other_facts,
    spec_facts,
)
from reports.sequences import grouped

_ABSENT = "(absent)"
_CONTEXT = ("workload", "engine", "placement", "host_mode", "tuning", "memory_limit_bytes")


@dataclass(frozen=True)
class Difference:
    """One fact in which A and B, or the runs of one side, differ: all values of either side."""

    fact: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    def __str__(self) -> str:
        if self.a == self.b or len(self.a) > 1 or len(self.b) > 1:
            return f"{self.fact}: A has {' and '.join(self.a)}, B has {' and '.join(self.b)}"
        return f"{self.fact}: {self.a[0]} against {self.b[0]}"


@dataclass(frozen=True)
class Match:
    """Runs of A and of B with the same spec but for the compared dimension and the block."""

    context: Mapping[str, str]
    a: tuple[StoredRun, ...]
    b: tuple[StoredRun, ...]


@dataclass(frozen=True)
class Matching:
    """What ``find`` found. ``unmatched``: series of one side only, in words."""

    over: tuple[Dimension, ...]
    matches: tuple[Match, ...]
    differences: tuple[Difference, ...]
    unmatched: tuple[str, ...]


def find(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    known: Mapping[Path, Facts],
    over: Sequence[Dimension],
) -> Matching:
    """Match A with B over the given dimensions, or over the one that explains the most.

    Preferred is the narrowest dimension that leaves no difference and no run without
    a counterpart; where none does, the one that leaves the fewest differences.
    """
    if over:
        return _matching(a, b, known, tuple(over))
    candidates: list[tuple[Dimension, ...]] = [(dim,) for dim in _candidates(a, b, known)]
    tried = [_matching(a, b, known, dims) for dims in candidates or [()]]
    return min(tried, key=lambda m: (len(m.differences), len(m.unmatched)))


def _candidates(
    a: Sequence[StoredRun], b: Sequence[StoredRun], known: Mapping[Path, Facts]
) -> list[Dimension]:
    """Dimensions, then single settings, in which no run of A agrees with any of B."""
    settings = {f for run in (*a, *b) for f in known[run.directory] if f.startswith("settings.")}
    dimensions = [*DIMENSIONS.values(), *(dimension(name) for name in sorted(settings))]
    return [
        dim
        for dim in dimensions
        if not set(_values(a, dim.fact, known)) & set(_values(b, dim.fact, known))
    ]


def _values(runs: Sequence[StoredRun], fact: str, known: Mapping[Path, Facts]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(known[run.directory].get(fact, _ABSENT) for run in runs))


def _matching(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    known: Mapping[Path, Facts],
    over: tuple[Dimension, ...],
) -> Matching:
    series_a, series_b = (
        grouped((other_facts(spec_facts(run), over), run) for run in side) for side in (a, b)
    )
    keys = [key for key in series_a if key in series_b]
    if not keys and len(series_a) == len(series_b) == 1:
        # One series each: they are meant for one another, whatever else differs.
        pairs = [(*series_a.values(), *series_b.values())]
        unmatched: list[str] = []
    else:
        pairs = [(series_a[key], series_b[key]) for key in keys]
        alone = [("A", s) for k, s in series_a.items() if k not in series_b]
        alone += [("B", s) for k, s in series_b.items() if k not in series_a]
        unmatched = [f"{side}: {_in_words(runs[0])}" for side, runs in alone]
    matches = tuple(
        Match(_context(runs_a[0], over), tuple(runs_a), tuple(runs_b)) for runs_a, runs_b in pairs
    )
    found = [d for match in matches for d in _differences(match, known, over)]
    if not matches:
        found = _differences(Match({}, tuple(a), tuple(b)), known, over)
    return Matching(over, matches, tuple(dict.fromkeys(found)), tuple(unmatched))


def _differences(
    match: Match, known: Mapping[Path, Facts], over: Sequence[Dimension]
) -> list[Difference]:
    """Facts that differ between the sides and are not compared, or differ within a side."""
    names = dict.fromkeys(f for run in (*match.a, *match.b) for f in known[run.directory])
    found = []
    for fact in names:
        values_a, values_b = (_values(side, fact, known) for side in (match.a, match.b))
        if len(values_a) == len(values_b) == 1:
            one_a, one_b = (None if v[0] == _ABSENT else v[0] for v in (values_a, values_b))
            if one_a == one_b or any(dim.covers(fact, one_a, one_b) for dim in over):
                continue
        found.append(Difference(fact, values_a, values_b))
    return found


def _context(run: StoredRun, over: Sequence[Dimension]) -> dict[str, str]:
    known = spec_facts(run)
    covered = {dim.fact for dim in over}
    names = (*_CONTEXT, *essential_facts(known["workload"], over))
    return {name: known[name] for name in names if name in known and name not in covered}


def _in_words(run: StoredRun) -> str:
    known = spec_facts(run)
    params = (in_words(name, known.get(name)) for name in essential_facts(known["workload"], ()))
    return ", ".join([*(known[name] for name in ("workload", "engine", "placement")), *params])
