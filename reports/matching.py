"""Matching of A's and B's runs: the series that belong together, differences, and pairs.

A pair cancels what drifts only if its runs shared the drift. A name and a block number do not
show that: every ``harness run`` of a session may have the same name, ``experiment run`` may be
resumed days later, and an experiment that grew keeps its older runs. So a pair is two runs of
one plan (by its hash) and one block that started near each other, and the blocks of a
comparison must have run one after another: where the runs of one block lie between those of
another, all of A ran before B, or the other way round. Hosts share no drift, so a pair is of one
host, although a profile has the same plan on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TypeAlias

from harness.sequences import grouped, matched
from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.labels import distinguishing, essential_facts, in_words, leading
from reports.ranks import Pairing
from reports.run_configuration import (
    DIMENSIONS,
    Dimension,
    Facts,
    dimension,
    other_facts,
    spec_facts,
    swept_facts,
)

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
    """Matched series of A and B. ``unmatched``: series of one side only, in words."""

    over: tuple[Dimension, ...]
    matches: tuple[Match, ...]
    differences: tuple[Difference, ...]
    unmatched: tuple[str, ...]


def find(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    run_facts: Mapping[Path, Facts],
    over: Sequence[Dimension],
) -> Matching:
    """Match A with B over the given dimensions, or over the one that explains the most.

    Preferred is the narrowest dimension that leaves no difference and no run without
    a counterpart; where none does, the one that leaves the fewest differences.
    """
    if over:
        return _matching(a, b, run_facts, tuple(over))
    candidates: list[tuple[Dimension, ...]] = [(dim,) for dim in _candidates(a, b, run_facts)]
    tried = [_matching(a, b, run_facts, dims) for dims in candidates or [()]]
    return min(tried, key=lambda m: (len(m.differences), len(m.unmatched)))


def _candidates(
    a: Sequence[StoredRun], b: Sequence[StoredRun], run_facts: Mapping[Path, Facts]
) -> list[Dimension]:
    """Dimensions, then single settings and variables, in which no run of A agrees with any of B."""
    settings = {
        fact
        for run in (*a, *b)
        for fact in run_facts[run.directory]
        if fact.startswith(("settings.", "env."))
    }
    dimensions = [*DIMENSIONS.values(), *(dimension(name) for name in sorted(settings))]
    return [
        dim
        for dim in dimensions
        if not set(_values(a, dim.fact, run_facts)) & set(_values(b, dim.fact, run_facts))
    ]


def _values(
    runs: Sequence[StoredRun], fact: str, run_facts: Mapping[Path, Facts]
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run_facts[run.directory].get(fact, _ABSENT) for run in runs))


def _matching(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    run_facts: Mapping[Path, Facts],
    over: tuple[Dimension, ...],
) -> Matching:
    swept = swept_facts([map(spec_facts, a), map(spec_facts, b)], over)
    keyed = [[(other_facts(spec_facts(run), over, swept), run) for run in side] for side in (a, b)]
    pairs = [*matched(*keyed).values()]
    unmatched: list[str] = []
    series_a, series_b = map(grouped, keyed)
    if not pairs and len(series_a) == len(series_b) == 1:
        # One series each: they are meant for one another, whatever else differs.
        pairs = [*zip(series_a.values(), series_b.values(), strict=True)]
    else:
        alone = [("A", s) for k, s in series_a.items() if k not in series_b]
        alone += [("B", s) for k, s in series_b.items() if k not in series_a]
        unmatched = [f"{side}: {_in_words(runs[0])}" for side, runs in alone]
    matches = tuple(
        Match(context, tuple(runs_a), tuple(runs_b))
        for context, (runs_a, runs_b) in zip(
            _contexts([runs_a[0] for runs_a, _ in pairs], over, sorted(swept)), pairs, strict=True
        )
    )
    differences = [d for match in matches for d in _differences(match, run_facts, over)]
    if not matches:
        differences = _differences(Match({}, tuple(a), tuple(b)), run_facts, over)
    return Matching(over, matches, tuple(dict.fromkeys(differences)), tuple(unmatched))


def _differences(
    match: Match, run_facts: Mapping[Path, Facts], over: Sequence[Dimension]
) -> list[Difference]:
    """Facts that differ between the sides and are not compared, or differ within a side."""
    names = dict.fromkeys(f for run in (*match.a, *match.b) for f in run_facts[run.directory])
    differences = []
    for fact in names:
        values_a, values_b = (_values(side, fact, run_facts) for side in (match.a, match.b))
        if len(values_a) == len(values_b) == 1:
            one_a, one_b = (None if v[0] == _ABSENT else v[0] for v in (values_a, values_b))
            if one_a == one_b or any(dim.covers(fact, one_a, one_b) for dim in over):
                continue
        differences.append(Difference(fact, values_a, values_b))
    return differences


def _contexts(
    runs: Sequence[StoredRun], over: Sequence[Dimension], swept: Sequence[str]
) -> list[dict[str, str]]:
    """Return the context of each match; ``runs``: one of each."""
    swept = leading(swept, [spec_facts(run) for run in runs])
    contexts = [_context(run, over, swept) for run in runs]
    alike = grouped(
        (tuple(context.items()), run) for context, run in zip(contexts, runs, strict=True)
    )
    for context, run in zip(contexts, runs, strict=True):
        alike_facts = [spec_facts(other) for other in alike[tuple(context.items())]]
        facts = spec_facts(run)
        context |= {name: facts.get(name, _ABSENT) for name in distinguishing(alike_facts)}
    return contexts


def _context(run: StoredRun, over: Sequence[Dimension], swept: Sequence[str]) -> dict[str, str]:
    facts = spec_facts(run)
    covered = {dim.fact for dim in over}
    names = (*_CONTEXT, *essential_facts(facts["workload"], over), *swept)
    return {name: facts[name] for name in names if name in facts and name not in covered}


def _in_words(run: StoredRun) -> str:
    facts = spec_facts(run)
    params = (in_words(name, facts.get(name)) for name in essential_facts(facts["workload"], ()))
    return ", ".join([*(facts[name] for name in ("workload", "engine", "placement")), *params])


#: How far apart two runs of a block (every sitting of them) may start: this often the time of
#: all runs of the block (datasets are restored and servers started between them), and a slack.
BLOCK_TIMES = 3
SLACK_NS = 600 * 10**9


_Pair = tuple[StoredRun, StoredRun]


@dataclass(frozen=True)
class Paired:
    """The runs used, in pairs or not; ``why`` they are not; ``left_out``: ids without a pair."""

    a: tuple[StoredRun, ...]
    b: tuple[StoredRun, ...]
    pairing: Pairing
    why: str = ""
    left_out: tuple[str, ...] = ()


def paired(
    a: Sequence[StoredRun], b: Sequence[StoredRun], neighbours: Sequence[StoredRun] = ()
) -> Paired:
    """A and B in pairs of one block, or as they are with the reason.

    ``neighbours``: other runs of the store; those of the same plan and block say how long the
    block took.
    """
    pairs = _pairs(a, b)
    if not {run.host_id for run in a} & {run.host_id for run in b}:
        why = (
            "they ran on different hosts, which share no drift: the verdict is about these hosts "
            "as they were, not about others of their kind"
        )
    elif 0 < 2 * len(pairs) < min(len(a), len(b)):
        why = f"only {len(pairs)} of {min(len(a), len(b))} repeats ran in one plan and block"
    elif pairs:
        why = _overlapping(pairs) or _apart(pairs, (*a, *b, *neighbours))
    elif {block_of(run)[0] for run in a} & {block_of(run)[0] for run in b}:
        why = "they have no block of one host in common"
    else:
        why = "they come from different experiments, so their repeats did not run side by side"
    if why:
        return Paired(tuple(a), tuple(b), "unpaired", why)
    used = {run.run_id for pair in pairs for run in pair}
    left = tuple(run.run_id for run in (*a, *b) if run.run_id not in used)
    return Paired(tuple(x for x, _ in pairs), tuple(y for _, y in pairs), "paired", "", left)


def _pairs(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> list[_Pair]:
    """Runs of one plan and block, in the order in which the pairs began.

    Where a plan was executed more than once, each run is paired with the nearest in time.
    """
    blocks = dict.fromkeys(block_of(run) for run in a)
    pairs: list[_Pair] = []
    for block in blocks:
        a_side, b_side = ([run for run in side if block_of(run) == block] for side in (a, b))
        used: set[str] = set()
        for run, other in sorted(product(a_side, b_side), key=_starts_apart):
            if not used & {run.run_id, other.run_id}:
                used |= {run.run_id, other.run_id}
                pairs.append((run, other))
    return sorted(pairs, key=lambda pair: min(map(_began, pair)))


def _starts_apart(pair: _Pair) -> int:
    return abs(_began(pair[0]) - _began(pair[1]))


def _overlapping(pairs: Sequence[_Pair]) -> str:
    """Say that the blocks of a host did not run one after another; empty if they did."""
    spans = ((pair[0].host_id, [start for run in pair for start in _starts(run)]) for pair in pairs)
    following = [two for of_host in grouped(spans).values() for two in pairwise(of_host)]
    overlapping = sum(max(starts) > min(next_starts) for starts, next_starts in following)
    if not overlapping:
        return ""
    return (
        f"their blocks overlap in time ({overlapping} of {len(following)} began before the "
        "preceding one had started all of its runs), so their repeats did not run side by side"
    )


def _apart(pairs: Sequence[_Pair], every: Sequence[StoredRun]) -> str:
    """Say which block's runs did not run side by side, and by how much; empty if all did."""
    far = []
    for run, other in pairs:
        starts = [*_starts(run), *_starts(other)]
        gap = max(starts) - min(starts)
        bound = BLOCK_TIMES * _block_ns(run, every) + SLACK_NS
        if gap > bound:
            far.append((run.spec.block, gap, bound))
    if not far:
        return ""
    block, gap, bound = max(far, key=lambda apart: apart[1])
    return (
        f"in {len(far)} of {len(pairs)} blocks the two did not run side by side "
        f"(block {block}: started {_long(gap)} apart, at most {_long(bound)} would do)"
    )


def _starts(run: StoredRun) -> list[int]:
    """Return when each sitting of a run began, in Unix ns."""
    return [run.result.started_unix_ns, *(resumption.unix_ns for resumption in run.result.resumed)]


def _block_ns(run: StoredRun, every: Sequence[StoredRun]) -> int:
    """The durations of the runs of its plan and block added up, each spec once."""
    took: dict[str, int] = {}
    for other in every:
        if block_of(other) == block_of(run):
            spec = other.result.spec_hash
            took[spec] = max(took.get(spec, 0), other.result.duration_ns)
    return sum(took.values())


#: A plan, a block of it, and the host on which it was executed.
RunBlock: TypeAlias = tuple[str, int, str]


def block_of(run: StoredRun) -> RunBlock:
    """The plan of a run, its block there, and its host."""
    return run.head.experiment.hash, run.spec.block, run.host_id


def _began(run: StoredRun) -> int:
    return int(run.result.started_unix_ns)


def _long(duration_ns: int) -> str:
    """``3.2 days``, ``5.0 h``, ``12 min``; seconds below."""
    for limit_s, text in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if duration_ns >= 2 * limit_s * 10**9:
            return f"{duration_ns / 1e9 / limit_s:.1f} {text}"
    return format_ns(duration_ns)
