"""Runs ordered for a report: panels (an engine, or an engine at one memory limit …) with arms.

An *arm* is one value of the compared dimension: ``ssd-both`` next to ``pmem-both``.
Failed runs belong to an arm but never give it a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from harness.errors import UsageError, nearest
from harness.store.runs import StoredRun
from reports.compare import Comparison, Group, compare, decided
from reports.grouping import Context, Known, arms, contexts
from reports.headline import headline
from reports.labels import differing, distinguishing, in_words, leading, not_enforced
from reports.metric_registry import workload_title
from reports.parameter_table import essential_facts
from reports.run_configuration import (
    DIMENSIONS,
    Dimension,
    Facts,
    dimension,
    emulations,
    facts,
    marked,
    spec_facts,
)
from reports.values import (
    Measured,
    Quantity,
    Summary,
    duration_of,
    is_ready_made,
    limit_of,
    measured_together,
    natural,
    summarise,
)

#: What a report compares, if it varies; engines stand in panels of their own.
_COMPARED_FIRST = ("placement", "host_mode", "memory_limit", "cache", "tuning", "threads")

#: With more arms than this, pairs of them are more than anyone reads.
_MOST_AGAINST_EACH_OTHER = 8


@dataclass(frozen=True)
class Arm:
    """Runs of one panel with one value of the compared dimension, alike in every fact.

    ``name`` is unique in the panel; ``value`` names the value alone, which several arms
    share where their runs differ in something else.
    """

    name: str
    value: str
    runs: tuple[StoredRun, ...]

    @cached_property
    def usable(self) -> tuple[StoredRun, ...]:
        """Those with a result: complete, or with an unknown check (marked)."""
        return tuple(run for run in self.runs if run.run["status"] != "failed")

    @cached_property
    def emulated(self) -> tuple[str, ...]:
        """``pmem by tmpfs``: the emulated tiers its numbers come from."""
        return emulations(self.runs)

    @property
    def unknown(self) -> bool:
        """Whether a run of it has answers that could not be checked."""
        return any(run.run["status"] == "unknown" for run in self.runs)

    @property
    def marked_name(self) -> str:
        """As every legend and header shows it."""
        return marked(self.name, self.emulated, self.unknown)

    @cached_property
    def _measured(self) -> list[dict[Quantity, Measured]]:
        return measured_together(self.usable)

    def values(self, metric: str) -> dict[Quantity, list[float]]:
        """The repeats' values of every label set of a metric, in the metric's unit."""
        found: dict[Quantity, list[float]] = {}
        for one in self._measured:
            for quantity, value in one.items():
                if quantity.name == metric and value.value is not None:
                    found.setdefault(quantity, []).append(value.value)
        return found

    def summaries(self, metric: str) -> dict[Quantity, Summary]:
        """Median and range over the repeats, of every label set of a metric."""
        return {q: one for q, v in self.values(metric).items() if (one := summarise(v))}

    def limits(self, metric: str) -> dict[Quantity, Summary]:
        """Of a metric of durations: the time limits that were reached instead, and how often."""
        reached = self.summaries(limit_of(metric)) if limit_of(metric) else {}
        return {Quantity(metric, q.labels): summary for q, summary in reached.items()}

    @property
    def at_limit(self) -> set[Quantity]:
        """Whose time limit was reached in some run."""
        return {q for one in self._measured for q in one if duration_of(q.name)}

    @cached_property
    def ready_made(self) -> set[Quantity]:
        """Percentiles that its driver reports ready-made."""
        return {q for one in self._measured for q, value in one.items() if is_ready_made(value)}

    def kinds(self) -> dict[Quantity, Measured]:
        """Every quantity it has, with unit and direction; of a run that has a value, if one has."""
        found: dict[Quantity, Measured] = {}
        for run in self._measured:
            for quantity, one in run.items():
                if quantity not in found or (
                    found[quantity].value is None and one.value is not None
                ):
                    found[quantity] = one
        return found

    @cached_property
    def headline(self) -> Quantity | None:
        """What stands for it; None where nothing does."""
        better = {q: one.better for q, one in self.kinds().items() if one.value is not None}
        return headline(self.usable, self.usable, better).quantity if self.usable else None


@dataclass(frozen=True)
class Panel:
    """One engine (and what else was held fixed) with its arms, the baseline first.

    ``groups``: the baseline against every other arm; ``others``: these against one another, by
    their headlines alone; ``refused``: why an arm was not compared, by its name; ``apart``:
    facts in which runs differed and were not pooled.
    """

    context: tuple[str, ...]
    engine: str
    workload: str
    arms: tuple[Arm, ...]
    groups: tuple[Group, ...] = ()
    refused: Mapping[str, str] | None = None
    apart: tuple[str, ...] = ()
    others: tuple[Group, ...] = ()

    @property
    def title(self) -> str:
        """``postgres 18.4``, and what else distinguishes it from other panels."""
        return ", ".join([self.engine, *self.context])

    @property
    def title_with_workload(self) -> str:
        """The title, and the workload if that is not in it."""
        named = workload_title(self.workload)
        return self.title if named in self.context else f"{self.title}, {named}"

    @property
    def engine_name(self) -> str:
        """The engine without its version, as specs name it."""
        return str(self.arms[0].runs[0].run["spec"]["engine"])

    @property
    def runs(self) -> list[StoredRun]:
        """All of its runs, failed ones included."""
        return [run for arm in self.arms for run in arm.runs]


def compared_dimension(runs: Sequence[StoredRun]) -> str:
    """The first of placement, host mode, memory limit … that varies; placement if none does."""
    return varying_dimension([spec_facts(run) for run in runs])


def varying_dimension(known: Sequence[Facts]) -> str:
    """As ``compared_dimension``, of facts. What varies between workloads or engines alone is not
    compared: they stand in panels of their own.
    """
    for name in _COMPARED_FIRST:
        values: dict[tuple[str, str], set[str]] = {}
        for one in known:
            apart = (one.get("workload", ""), one.get("engine", ""))
            values.setdefault(apart, set()).add(one.get(DIMENSIONS[name].fact, ""))
        if any(len(found) > 1 for found in values.values()):
            return name
    return "placement"


def panels(
    runs: Sequence[StoredRun], over: str, baseline: str | None, force: bool = False
) -> list[Panel]:
    """The runs in panels with every comparison decided in one family per metric.

    UsageError where ``baseline`` names no arm or no run has what ``over`` names.
    ``force`` as in ``compare``; runs of different conditions are not even then pooled.
    """
    dim = dimension(over)
    known = {run.directory: facts(run) for run in runs}
    _check_known(dim, known)
    found = _in_order(contexts(sorted(runs, key=_rank), dim, known), runs)
    made = [_panel(context, found, dim, known) for context in found]
    if baseline is not None:
        made = _baseline_first(made, baseline)
    compared = [_comparisons(panel, over, force, runs) for panel in made]
    refused = [why for _, why in compared]
    made = [
        replace(panel, groups=groups, refused=why)
        for panel, groups, why in zip(
            made, _decided_by_panel([found for found, _ in compared]), refused, strict=True
        )
    ]
    others = _decided_by_panel([_among_others(panel, over, force, runs) for panel in made])
    return [replace(panel, others=own) for panel, own in zip(made, others, strict=True)]


def _decided_by_panel(compared: Sequence[Sequence[Comparison]]) -> Iterator[tuple[Group, ...]]:
    """The groups of each panel, decided among those of all panels."""
    verdicts = iter(decided([comparison for own in compared for comparison in own]))
    for own in compared:
        yield tuple(group for _ in own for group in next(verdicts).groups)


def _check_known(dim: Dimension, known: Known) -> None:
    """A misspelt dimension would put all runs into one arm called "none"."""
    names = dict.fromkeys(fact for one in known.values() for fact in one)
    if dim.name in DIMENSIONS or any(dim.covers(fact, "", "") for fact in names):
        return
    raise UsageError(
        f"a report over {dim.name}",
        f"no run has such a fact{nearest(dim.name, [*DIMENSIONS, *names])}",
        f"name one of {', '.join(DIMENSIONS)}, params.<name>, settings.<name>",
    )


def _rank(run: StoredRun) -> tuple[bool, bool, int]:
    """Real tiers before emulated ones, block devices first, else in the order they ran."""
    kinds = {tier["kind"] for tier in run.manifest["tiers"]} if run.manifest else set()
    return bool(emulations([run])), kinds != {"block"}, run.run["started_unix_ns"]


def _in_order(found: Sequence[Context], runs: Sequence[StoredRun]) -> list[Context]:
    """By workload and engine in the order given, then by what distinguishes the panels."""
    places = list(dict.fromkeys((r.run["spec"]["workload"], r.run["spec"]["engine"]) for r in runs))
    workloads = list(dict.fromkeys(workload for workload, _ in places))
    ordered = sorted(found, key=lambda one: natural(str(sorted(one.own.items()))))
    return sorted(
        ordered,
        key=lambda one: (
            workloads.index(_workload(one)),
            places.index((_workload(one), _engine(one))),
        ),
    )


def _engine(context: Context) -> str:
    return str(context.runs[0].run["spec"]["engine"])


def _workload(context: Context) -> str:
    return str(context.runs[0].run["spec"]["workload"])


def _baseline_first(made: Sequence[Panel], baseline: str) -> list[Panel]:
    names = dict.fromkeys(name for p in made for a in p.arms for name in (a.value, a.name))
    if baseline not in names:
        raise UsageError(f"baseline {baseline!r}", f"there is {', '.join(names)}", "name one")
    return [
        replace(
            panel,
            arms=tuple(sorted(panel.arms, key=lambda arm: baseline not in (arm.value, arm.name))),
        )
        for panel in made
    ]


def _panel(context: Context, found: Sequence[Context], dim: Dimension, known: Known) -> Panel:
    runs = context.runs
    titles = dict.fromkeys(
        f"{run.run['spec']['engine']} {run.manifest['engine']['version']}"
        for run in runs
        if run.manifest
    )
    return Panel(
        _distinction(context, found, dim),
        " and ".join(titles) or _engine(context),
        str(runs[0].run["spec"]["workload"]),
        tuple(Arm(name, value, tuple(held)) for name, value, held in arms(runs, dim, known)),
        apart=context.apart,
    )


def _distinction(context: Context, found: Sequence[Context], dim: Dimension) -> tuple[str, ...]:
    """What distinguishes the panels of one engine and workload.

    The engine's version stands in the title, the workload where there are several.
    """
    own = (_workload(context), _engine(context))
    peers = [one.own for one in found if (_workload(one), _engine(one)) == own]
    several = len({_workload(one) for one in found}) > 1
    decided = [
        f
        for f in leading(differing(peers), peers)
        if f in spec_facts(context.runs[0]) and f not in ("emulate", "models")
    ]
    decided = [*essential_facts(_workload(context), [dim]), *decided]
    decided = list(dict.fromkeys(decided))
    rest = [
        f
        for f in distinguishing(peers)
        if f not in (*decided, "emulate", "models", "engine.version")
    ]
    if decided and len({tuple(p.get(f) for f in decided) for p in peers}) == len(peers):
        rest = []
    loose = any(not_enforced(run) for run in context.runs)
    said = (
        in_words(fact, context.own.get(fact))
        + (" (not enforced)" if fact == "memory_limit_bytes" and loose else "")
        for fact in (*decided, *rest)
    )
    return tuple(filter(None, [workload_title(_workload(context)) if several else "", *said]))


def _comparisons(
    panel: Panel, over: str, force: bool, neighbours: Sequence[StoredRun]
) -> tuple[list[Comparison], dict[str, str]]:
    """The first arm against every other, and why one was not compared."""
    found: list[Comparison] = []
    refused: dict[str, str] = {}
    for arm in panel.arms[1:]:
        try:
            found.append(_arms_compared(panel.arms[0], arm, over, force, neighbours))
        except UsageError as error:
            refused[arm.name] = f"{error.problem}: {error.context}"
    return found, refused


def _among_others(
    panel: Panel, over: str, force: bool, neighbours: Sequence[StoredRun]
) -> list[Comparison]:
    """Every two arms but the first, as far as they can be compared, by the panel's headlines."""
    only = {group.headline.quantity for group in panel.groups}
    only |= {group.headline.second for group in panel.groups}
    decide = {quantity for quantity in only if quantity is not None}
    found: list[Comparison] = []
    arms = panel.arms[1:] if decide and len(panel.arms) <= _MOST_AGAINST_EACH_OTHER else ()
    for a, b in combinations(arms, 2):
        with suppress(UsageError):
            found.append(_arms_compared(a, b, over, force, neighbours, decide))
    return found


def _arms_compared(
    a: Arm,
    b: Arm,
    over: str,
    force: bool,
    neighbours: Sequence[StoredRun],
    only: Collection[Quantity] = (),
) -> Comparison:
    """Two arms; the sides carry their names."""
    made = compare(a.runs, b.runs, [over], force, neighbours=neighbours, only=only)
    groups = tuple(
        replace(group, a=replace(group.a, name=a.name), b=replace(group.b, name=b.name))
        for group in made.groups
    )
    return replace(made, groups=groups)
