"""Runs ordered for a report: panels (an engine, or an engine at one memory limit …) with arms.

An *arm* is one value of the compared dimension: ``ssd-both`` next to ``pmem-both``.
Failed runs belong to an arm but never give it a number.

Only runs that agree in every fact are pooled into one median: two runs of ``ssd-both`` on different
file systems, kernels or engine builds are not repeats of one another. Where the facts differ within
an arm, a fact that all arms have (the kernel) makes panels of its own, one that belongs to the arm
(its tier) splits the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from harness.errors import UsageError, nearest
from harness.metrics import workload_info
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from reports.arm import Arm
from reports.compare import Group, compare, decided
from reports.labels import (
    HOST_ID,
    by_relevance,
    differing,
    distinguishing,
    essential_facts,
    in_words,
    leading,
    not_enforced,
    readable,
    value_name,
)
from reports.run_configuration import (
    DIMENSIONS,
    Dimension,
    Facts,
    dimension,
    emulations,
    facts,
    other_facts,
    spec_facts,
    swept_facts,
)
from reports.values import (
    Quantity,
    natural,
)

#: What a report compares, if it varies; engines stand in panels of their own.
_COMPARED_FIRST = (
    *("arm", "placement", "host_mode", "memory_limit", "cache", "tuning", "threads"),
    "host",
)

#: With more arms than this, pairs of them are more than anyone reads.
_MOST_AGAINST_EACH_OTHER = 8


@dataclass(frozen=True)
class Panel:
    """One engine (and what else was held fixed) with its arms, the baseline first.

    ``over``: the dimension in which they differ.
    ``groups``: the baseline against every other arm; ``others``: these against one another, by
    their headlines alone; ``refused``: why an arm was not compared, by its name; ``apart``:
    facts in which runs differed and were not pooled.
    """

    context: tuple[str, ...]
    engine: str
    workload: str
    arms: tuple[Arm, ...]
    over: str
    groups: tuple[Group, ...] = ()
    refused: Mapping[str, str] | None = None
    apart: tuple[str, ...] = ()
    others: tuple[Group, ...] = ()

    @property
    def params(self) -> JsonObject:
        """Return the parameters of a run of it; empty without usable runs."""
        runs = [run for arm in self.arms for run in arm.usable]
        return runs[0].spec.params if runs else {}

    @property
    def title(self) -> str:
        """``postgres 18.4``, and what else distinguishes it from other panels."""
        return ", ".join([self.engine, *self.context])

    @property
    def title_with_workload(self) -> str:
        """Return the title, with the workload if that is not in it."""
        named = workload_info(self.workload).title
        return self.title if named in self.context else f"{self.title}, {named}"

    @property
    def engine_name(self) -> str:
        """Return the engine without its version, as specs name it."""
        return str(self.arms[0].runs[0].spec.engine)

    @property
    def runs(self) -> list[StoredRun]:
        return [run for arm in self.arms for run in arm.runs]


def compared_dimension(runs: Sequence[StoredRun]) -> str:
    """Return the first of arm, placement, host mode … host that varies; else placement."""
    return varying_dimension([{**spec_facts(run), HOST_ID: run.host_id} for run in runs])


def varying_dimension(all_facts: Sequence[Facts]) -> str:
    """Return the compared dimension by facts."""
    return next(varying_dimensions(all_facts), "placement")


def varying_dimensions(all_facts: Sequence[Facts]) -> Iterator[str]:
    """Yield the dimensions that are compared, the first one first.

    What varies between workloads or engines alone is not compared: they have panels of their own.
    """
    for name in _COMPARED_FIRST:
        values: dict[tuple[str, str], set[str]] = {}
        for run_facts in all_facts:
            apart = (run_facts.get("workload", ""), run_facts.get("engine", ""))
            values.setdefault(apart, set()).add(run_facts.get(DIMENSIONS[name].fact, ""))
        if name == "arm" and any("" in distinct for distinct in values.values()):
            continue  # runs without arms are among them
        if any(len(distinct) > 1 for distinct in values.values()):
            yield name


def panels(
    runs: Sequence[StoredRun], over: str | None, baseline: str | None, force: bool = False
) -> list[Panel]:
    """Put runs into panels, with every comparison decided in one family per metric.

    UsageError where ``baseline`` names no arm or no run has what ``over`` names (None: the
    compared dimension, of runs with arms and of others). ``force`` as in ``compare``; runs of
    different conditions are not even then pooled.
    """
    parts = [(over, runs)] if over is not None else list(_parts(runs))
    made = [panel for dim, part in parts for panel in _panels_of(part, dim)]
    if len(parts) > 1:
        made = [_with_arms_in_title(panel) if panel.over == "arm" else panel for panel in made]
    if baseline is not None:
        made = _baseline_first(made, baseline)
    compared = [_with_baseline(panel, force, runs) for panel in made]
    made = [
        replace(panel, groups=groups, refused=refused)
        for panel, groups, (_, refused) in zip(
            made, _decided([groups for groups, _ in compared]), compared, strict=True
        )
    ]
    others = _decided([_among_others(panel, force, runs) for panel in made])
    return [
        replace(panel, others=panel_others)
        for panel, panel_others in zip(made, others, strict=True)
    ]


def _parts(runs: Sequence[StoredRun]) -> Iterator[tuple[str, Sequence[StoredRun]]]:
    """Yield the compared dimension, of runs with arms apart where these are compared."""
    by_arms = grouped(
        (run.spec.placement is not None and bool(run.spec.label), run) for run in runs
    )
    with_arms, others = by_arms.get(True, []), by_arms.get(False, [])
    if others and compared_dimension(with_arms) == "arm":
        yield compared_dimension(others), others
        yield "arm", with_arms
    else:
        yield compared_dimension(runs), runs


def _panels_of(runs: Sequence[StoredRun], over: str) -> list[Panel]:
    """Put runs into panels, without comparisons."""
    run_facts = {run.directory: facts(run) for run in runs}
    names = dict.fromkeys(fact for of_run in run_facts.values() for fact in of_run)
    dim = dimension(over, names)
    _check_dimension(dim, names)
    all_contexts = _in_order(contexts(sorted(runs, key=_rank), dim, run_facts), runs)
    return [_panel(context, all_contexts, dim, run_facts) for context in all_contexts]


def _decided(by_panel: Sequence[Sequence[Group]]) -> Iterator[tuple[Group, ...]]:
    """Yield the groups of each panel, decided among those of all panels."""
    made = iter(decided([group for groups in by_panel for group in groups]))
    for groups in by_panel:
        yield tuple(next(made) for _ in groups)


def _with_arms_in_title(panel: Panel) -> Panel:
    names = " and ".join(arm.name for arm in panel.arms)
    return replace(panel, context=(*panel.context, f"arms {names}"))


def _check_dimension(dim: Dimension, names: Collection[str]) -> None:
    """Refuse a misspelt dimension, which would put all runs into one arm called "none"."""
    if dim.name in DIMENSIONS or any(dim.covers(fact, "", "") for fact in names):
        return
    raise UsageError(
        f"a report over {dim.name}",
        f"no run has such a fact{nearest(dim.name, [*DIMENSIONS, *names])}",
        f"name one of {', '.join(DIMENSIONS)}, or a parameter or setting",
    )


def _rank(run: StoredRun) -> tuple[bool, bool, int]:
    """Sort real tiers before emulated ones, block devices first, else as they ran."""
    kinds = {tier.kind for tier in run.tiers}
    return bool(emulations([run])), kinds != {"block"}, run.result.started_unix_ns


def _in_order(contexts: Sequence[Context], runs: Sequence[StoredRun]) -> list[Context]:
    """Sort by workload and engine in the order given, then by what distinguishes the panels."""
    places = list(dict.fromkeys((r.spec.workload, r.spec.engine) for r in runs))
    workloads = list(dict.fromkeys(workload for workload, _ in places))
    sets = [context.facts for context in contexts]
    telling = by_relevance(leading(differing(sets), sets))
    ordered = sorted(
        contexts, key=lambda context: [natural(context.facts.get(fact, "")) for fact in telling]
    )
    return sorted(
        ordered,
        key=lambda context: (
            workloads.index(_workload(context)),
            places.index((_workload(context), _engine(context))),
        ),
    )


def _engine(context: Context) -> str:
    return str(context.runs[0].spec.engine)


def _workload(context: Context) -> str:
    return str(context.runs[0].spec.workload)


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


def _panel(
    context: Context, contexts: Sequence[Context], dim: Dimension, run_facts: RunFacts
) -> Panel:
    runs = context.runs
    titles = dict.fromkeys(
        f"{run.spec.engine} {run.manifest.engine.version}" for run in runs if run.manifest
    )
    return Panel(
        _distinction(context, contexts, dim),
        " and ".join(titles) or _engine(context),
        str(runs[0].spec.workload),
        tuple(
            Arm(name, value, tuple(arm_runs))
            for name, value, arm_runs in arms(runs, dim, run_facts)
        ),
        dim.name,
        apart=context.apart,
    )


def _distinction(context: Context, contexts: Sequence[Context], dim: Dimension) -> tuple[str, ...]:
    """Return what distinguishes the panels of one engine and workload.

    The engine's version stands in the title, the workload where there are several.
    """
    place = (_workload(context), _engine(context))
    peers = [other.facts for other in contexts if (_workload(other), _engine(other)) == place]
    several = len({_workload(other) for other in contexts}) > 1
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
        in_words(fact, _value_of(fact, context, contexts))
        + (" (not enforced)" if fact == "memory_limit_bytes" and loose else "")
        for fact in (*decided, *rest)
    )
    return tuple(filter(None, [workload_info(_workload(context)).title if several else "", *said]))


def _value_of(fact: str, context: Context, contexts: Sequence[Context]) -> str | None:
    """Return a fact of a panel; of the host its name, and its id where two have that name."""
    if fact != HOST_ID:
        return context.facts.get(fact)
    hosts = {c.runs[0].host_id: value_name(c.runs[0], DIMENSIONS["host"]) for c in contexts}
    host_id = context.runs[0].host_id
    name = hosts[host_id]
    return name if [*hosts.values()].count(name) == 1 else f"{name} ({host_id[:6]})"


def _with_baseline(
    panel: Panel, force: bool, neighbours: Sequence[StoredRun]
) -> tuple[list[Group], dict[str, str]]:
    """Compare the first arm with every other; return why one was not compared, too."""
    groups: list[Group] = []
    refused: dict[str, str] = {}
    for arm in panel.arms[1:]:
        try:
            groups += _arms_compared(panel.arms[0], arm, panel.over, force, neighbours)
        except UsageError as error:
            refused[arm.name] = f"{error.problem}: {error.context}"
    return groups, refused


def _among_others(panel: Panel, force: bool, neighbours: Sequence[StoredRun]) -> list[Group]:
    """Compare every two arms but the first, as far as possible, by the panel's headlines."""
    heads = (q for g in panel.groups for q in (g.headline.quantity, g.headline.second))
    decide = {quantity for quantity in heads if quantity is not None}
    groups: list[Group] = []
    arms = panel.arms[1:] if decide and len(panel.arms) <= _MOST_AGAINST_EACH_OTHER else ()
    for a, b in combinations(arms, 2):
        with suppress(UsageError):
            groups += _arms_compared(a, b, panel.over, force, neighbours, decide)
    return groups


def _arms_compared(
    a: Arm,
    b: Arm,
    over: str,
    force: bool,
    neighbours: Sequence[StoredRun],
    only: Collection[Quantity] = (),
) -> Iterator[Group]:
    """Compare two arms; the sides carry their names."""
    for group in compare(a.runs, b.runs, [over], force, neighbours=neighbours, only=only).groups:
        sides = [
            replace(side, name=arm.name, value=arm.value)
            for side, arm in ((group.a, a), (group.b, b))
        ]
        yield replace(group, a=sides[0], b=sides[1])


RunFacts = Mapping[Path, Facts]


@dataclass(frozen=True)
class Context:
    """A context is the runs of one panel. ``facts``: those that distinguish it from the others.

    ``apart``: facts in which runs of one arm differed, so that they were kept apart.
    """

    runs: tuple[StoredRun, ...]
    facts: Mapping[str, str]
    apart: tuple[str, ...] = ()


def contexts(runs: Sequence[StoredRun], dim: Dimension, run_facts: RunFacts) -> list[Context]:
    """Split runs by everything decided beforehand but the dimension, then by facts in arms."""
    planned = [spec_facts(run) for run in runs]
    swept = swept_facts(grouped((facts.get(dim.fact), facts) for facts in planned).values(), [dim])
    by_facts = grouped(
        (other_facts(facts, [dim], swept), run) for facts, run in zip(planned, runs, strict=True)
    )
    made: list[Context] = []
    for key, alike in by_facts.items():
        mixed = _mixed_within_arms(alike, dim, run_facts)
        shared = [fact for fact in mixed if not dim.covers(fact, None, None)]
        sets = _split(alike, partial(_only, shared, run_facts))
        for index, part in enumerate(sets):
            of_part = _facts_of(part, run_facts)
            facts = dict(sorted(key)) | {f: of_part.get(f, "(absent)") for f in shared}
            made.append(Context(tuple(part), facts, tuple(mixed.values()) if index == 0 else ()))
    return made


def arms(
    runs: Sequence[StoredRun], dim: Dimension, run_facts: RunFacts
) -> list[tuple[str, str, list[StoredRun]]]:
    """Return each arm's name, value of the dimension and runs, which agree in every fact."""
    by_value = grouped((run_facts[run.directory].get(dim.fact), run) for run in runs)
    parts = []
    for alike in by_value.values():
        sets = _split(alike, lambda run: run_facts[run.directory])
        parts += [(_called(part, dim), part) for part in sets]
    values = [value for value, _ in parts]
    made: list[tuple[str, str, list[StoredRun]]] = []
    for value, part in parts:
        peers = [_facts_of(p, run_facts) for v, p in parts if v == value]
        name = value if values.count(value) == 1 else _name_apart(value, part, peers, run_facts)
        while name in [other for other, _, _ in made]:
            name += " (again)"
        made.append((name, value, part))
    return made


def _called(runs: Sequence[StoredRun], dim: Dimension) -> str:
    """Name an arm by a run that has a manifest, if any: it knows what was enforced."""
    return value_name(next((run for run in runs if run.manifest), runs[0]), dim)


def _name_apart(
    value: str, runs: Sequence[StoredRun], peers: Sequence[Facts], run_facts: RunFacts
) -> str:
    facts = _facts_of(runs, run_facts)
    words = (in_words(fact, facts.get(fact)) for fact in distinguishing(peers))
    return ", ".join([value, *filter(None, words)])


def _mixed_within_arms(
    runs: Sequence[StoredRun], dim: Dimension, run_facts: RunFacts
) -> dict[str, str]:
    """Return facts that differ among usable runs of one value of the dimension, in words."""
    usable = (run_facts[run.directory] for run in runs if run.result.status != "failed")
    by_value = grouped((facts.get(dim.fact), facts) for facts in usable)
    values: dict[str, dict[str, None]] = {}
    for sets in by_value.values():
        for name in differing(sets):
            values.setdefault(name, {}).update((readable(facts.get(name)), None) for facts in sets)
    return {name: f"{name}: {' and '.join(values[name])}" for name in by_relevance([*values])}


def _split(
    runs: Sequence[StoredRun], key: Callable[[StoredRun], Mapping[str, str]]
) -> list[list[StoredRun]]:
    """Split usable runs by key; a failed one, which may lack facts, goes where it fits best."""
    failed = [run for run in runs if run.result.status == "failed"]
    usable = (run for run in runs if run.result.status != "failed")
    sets = grouped((frozenset(key(run).items()), run) for run in usable)
    if not sets:
        return [list(runs)]
    for run in failed:
        facts = key(run)
        home = min(sets, key=lambda candidate: sum(facts.get(f, v) != v for f, v in candidate))
        sets[home].append(run)
    return list(sets.values())


def _only(names: Sequence[str], run_facts: RunFacts, run: StoredRun) -> Facts:
    return {fact: value for fact, value in run_facts[run.directory].items() if fact in names}


def _facts_of(runs: Sequence[StoredRun], run_facts: RunFacts) -> Facts:
    usable = next((run for run in runs if run.result.status != "failed"), runs[0])
    return run_facts[usable.directory]
