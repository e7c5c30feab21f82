"""Tests of conclusions about engines: speed-ups between stored runs.

Each test says as data which runs it takes: facts of their specs by name, as in
``harness compare``, with shell patterns for values. Runs are matched, refused where more than the
compared dimension differs, and paired as everywhere (reports.compare).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.errors import UsageError
from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.conclusions.model import Evidence, Test
from reports.labels import in_words
from reports.matching import find
from reports.metric_registry import brief_parameters, metric_info
from reports.run_configuration import (
    Dimension,
    dimension,
    emulations,
    other_facts,
    spec_facts,
)
from reports.sequences import grouped
from reports.statistics import Missing
from reports.trials import Trial, best_first, tested
from reports.values import Quantity, measured, measured_value

#: Facts of runs by name, their values as shell patterns; several are separated by ``|``.
Having = Mapping[str, str]
#: Fewer users or threads than this are no crowd (as for FAST'20's third practice).
_CROWD = 8


def having(runs: Sequence[StoredRun], wanted: Having) -> list[StoredRun]:
    """The runs with these facts."""
    return [run for run in runs if _has(run, wanted)]


def _has(run: StoredRun, wanted: Having) -> bool:
    known = spec_facts(run)
    return all(
        any(fnmatchcase(known.get(fact, "none"), one) for one in pattern.split("|"))
        for fact, pattern in wanted.items()
    )


@dataclass(frozen=True)
class SpeedUp:
    """How many times better B is than A in the result that decides.

    ``key``: the facts that both sides share. ``b``, ``a``: values in such an order that their
    quotient is the speed-up, by repeat; ``blocks``: the block of each, empty where the repeats are
    no pairs. ``why``: why there is no speed-up. ``looks``: as of an estimate (reports.statistics).
    """

    key: frozenset[tuple[str, str]]
    what: str
    b: tuple[float, ...] = ()
    a: tuple[float, ...] = ()
    blocks: tuple[int, ...] = ()
    paired: bool = False
    why: str = ""
    emulated: tuple[str, ...] = ()
    looks: int = 1

    def trial(self, bound: float, chosen: bool = False) -> Trial:
        """As a trial against a bound; ``chosen``: whether it is the best of several."""
        ratio = tested(self.b, self.a, bound, self.paired, self.looks, chosen)
        return Trial(self.what, Missing(self.why) if self.why else ratio, self.emulated)


def speed_ups(
    a: Sequence[StoredRun], b: Sequence[StoredRun], over: Sequence[str], evidence: Evidence
) -> Iterator[SpeedUp]:
    """Of B over A: one for each series that both have."""
    if not a or not b:
        return
    dims = [dimension(name) for name in over]
    for match in find(a, b, evidence.known, dims).matches:
        key = other_facts(spec_facts(match.a[0]), dims)
        what = _in_words(match.a[0], dims)
        emulated = emulations((*match.a, *match.b))
        try:
            (group,) = compare(
                match.a,
                match.b,
                over,
                neighbours=evidence.of_engines,
                only=_deciding((*match.a, *match.b)),
            ).groups
        except UsageError as error:
            yield SpeedUp(key, what, why=error.context, emulated=emulated)
            continue
        names = f"{group.b.name} against {group.a.name}"
        yield _speed_up(key, f"{what}: {names}", group, emulated)


def _deciding(runs: Sequence[StoredRun]) -> set[Quantity]:
    """What a headline is chosen from: the others need no comparison."""
    found = ((quantity, one) for run in runs for quantity, one in measured(run).items())
    return {
        quantity
        for quantity, one in found
        if metric_info(quantity, one.better).role in ("headline", "detail")
    }


def _speed_up(
    key: frozenset[tuple[str, str]],
    what: str,
    group: Group,
    emulated: tuple[str, ...],
) -> SpeedUp:
    row = group.deciding
    if group.unused:
        return SpeedUp(key, what, why="part-not-used", emulated=emulated)
    if row is None or row.estimate is None:
        return SpeedUp(key, what, why=row.note if row else "no-headline", emulated=emulated)
    if group.headline.rate is not None and group.headline.rate.not_kept:
        return SpeedUp(key, what, why="rate-not-kept", emulated=emulated)
    sides = [[measured_value(run, row.quantity) for run in arm.runs] for arm in (group.a, group.b)]
    blocks = [run.spec.block for run in group.a.runs]
    paired = group.pairing == "paired"
    if paired:
        both = [row for row in zip(*sides, blocks, strict=True) if None not in row]
        sides = [[row[0] for row in both], [row[1] for row in both]]
        blocks = [int(row[2]) for row in both if row[2] is not None]
    first, second = (tuple(v for v in side if v is not None) for side in sides)
    if row.better != "lower":
        first, second = second, first
    return SpeedUp(
        key,
        what,
        first,
        second,
        tuple(blocks) if paired else (),
        paired,
        emulated=emulated,
        looks=row.estimate.looks,
    )


def _in_words(run: StoredRun, dims: Sequence[Dimension]) -> str:
    """``postgres, users 8``: the engine and what else the number means nothing without."""
    known = spec_facts(run)
    covered = {dim.fact for dim in dims}
    params = (*brief_parameters(known["workload"]), "queries", "q6_dates")
    names = [f"params.{name}" for name in params]
    names += [fact for fact in known if fact.startswith("settings.")]
    names = [name for name in ("placement", "cpus", *names) if name not in covered]
    words = (in_words(name, known[name]) for name in names if name in known)
    return ", ".join([known["workload"], known["engine"], *filter(None, words)])


def _lacking(evidence: Evidence, *sides: Having) -> Iterator[str]:
    """The sides that no run has, in the words of a selector."""
    for wanted in sides:
        if not having(evidence.of_engines, wanted):
            yield _runs_with(wanted)


def _runs_with(wanted: Having) -> str:
    return "runs with " + ", ".join(f"{fact}={value}" for fact, value in wanted.items())


@dataclass(frozen=True)
class Compared(Test):
    """Speed-ups of B over A."""

    a: Having
    b: Having
    over: tuple[str, ...] = ("placement",)

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each series of runs that both sides have."""
        yield from (one.trial(bound) for one in self.speed_ups(evidence))

    def speed_ups(self, evidence: Evidence) -> Iterator[SpeedUp]:
        """The same without a bound."""
        a, b = (having(evidence.of_engines, side) for side in (self.a, self.b))
        yield from speed_ups(a, b, self.over, evidence)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """The sides that no run has."""
        yield from _lacking(evidence, self.a, self.b)


@dataclass(frozen=True)
class GainUnder(Test):
    """The speed-up under one condition over that under another, of the same blocks.

    ``compared``: what gains; ``first``, ``second``: the conditions; ``by``: the dimension in which
    they differ.
    """

    compared: Compared
    first: Having
    second: Having
    by: str

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each series that was measured under both conditions."""
        dims = [dimension(self.by)]
        under = self._under(self.second, evidence)
        second = {other_facts(dict(one.key), dims): one for one in under}
        for one in self._under(self.first, evidence):
            other = second.get(other_facts(dict(one.key), dims))
            if other is not None:
                yield _gain(one, other, bound)

    def _under(self, condition: Having, evidence: Evidence) -> Iterator[SpeedUp]:
        of = self.compared
        chosen = Compared({**of.a, **condition}, {**of.b, **condition}, of.over)
        return chosen.speed_ups(evidence)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """The corners of the square that no run has."""
        corners = (
            {**side, **condition}
            for condition in (self.first, self.second)
            for side in (self.compared.a, self.compared.b)
        )
        yield from _lacking(evidence, *corners)


def _gain(one: SpeedUp, other: SpeedUp, bound: float) -> Trial:
    what = f"{one.what}, over the same of {other.what}"
    emulated = tuple(dict.fromkeys((*one.emulated, *other.emulated)))
    if why := one.why or other.why:
        return Trial(what, Missing(why), emulated)
    quotients = [
        {k: b / a for k, b, a in zip(s.blocks, s.b, s.a, strict=True) if a} if s.paired else {}
        for s in (one, other)
    ]
    shared = [block for block in quotients[0] if block in quotients[1]]
    if not shared:
        return Trial(what, Missing("unpaired"), emulated)
    over, under = ([each[block] for block in shared] for each in quotients)
    return Trial(what, tested(over, under, bound, looks=max(one.looks, other.looks)), emulated)


@dataclass(frozen=True)
class FewerOfMost(Test):
    """The best of fewer users or threads over the most: how much is lost by the crowd."""

    having: Having
    parameter: str

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each series that differs in the parameter alone."""
        dim = dimension(self.parameter)
        series = grouped(
            (other_facts(spec_facts(run), [dim]), run)
            for run in having(evidence.of_engines, self.having)
            if _number(run, dim.fact) is not None
        )
        for runs in series.values():
            yield from self._trial(runs, dim, evidence, bound)

    def _trial(
        self, runs: Sequence[StoredRun], dim: Dimension, evidence: Evidence, bound: float
    ) -> Iterator[Trial]:
        counts = sorted({_number(run, dim.fact) or 0 for run in runs})
        if len(counts) < 2:
            return
        most = [run for run in runs if _number(run, dim.fact) == counts[-1]]
        if counts[-1] < _CROWD:
            what = f"{_in_words(runs[0], [dim])}: {in_words(dim.fact, str(counts[-1]))}"
            yield Trial(what, Missing("few-threads"), emulations(runs))
            return
        fewer = [run for run in runs if _number(run, dim.fact) != counts[-1]]
        found = [
            one
            for count in counts[:-1]
            for one in speed_ups(
                most, [r for r in fewer if _number(r, dim.fact) == count], (dim.name,), evidence
            )
        ]
        known = [one for one in found if one.b and one.a]
        if known:
            gains = [[b / a for b, a in zip(one.b, one.a, strict=False) if a] for one in known]
            yield known[best_first(gains)[0]].trial(bound, chosen=len(known) > 1)
        elif found:
            yield found[0].trial(bound)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Runs at several values of the parameter."""
        several = {dimension(self.parameter).fact: "two values or more"}
        yield _runs_with({**self.having, **several})


def _number(run: StoredRun, fact: str) -> int | None:
    text = spec_facts(run).get(fact, "")
    return int(text) if text.isdigit() else None
