"""``harness advise … --by-table``: which tables and indexes to move to the faster tier.

Candidates come from a traced run on today's tier, most device time for a byte first. The arms move
the first candidate, the first two, four …, all within the budget of bytes, and everything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from harness import registry
from harness.cli.advise_trials import (
    LOOKS,
    MOST_PAIRS,
    NAME_DIGITS,
    RESOLVE,
    AdviseOptions,
    Trials,
    faster_tiers,
    further_ns,
    less_data,
    more_command,
    pairs_needed,
    phases_within,
    unanswered,
)
from harness.cli.common import given, print_json
from harness.cli.curve import say_more
from harness.cli.run_plan import plan_of
from harness.cli.show import exit_for
from harness.cli.study import conduct, conduct_experiment
from harness.engine import EngineFactory
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import parse_placement
from harness.experiment.sequential import Goal
from harness.experiment.study import Made, Study
from harness.monitors.io import IoMonitor
from harness.store.spec import content_hash
from harness.terminal import say, say_command
from harness.tiers.linux.model import Tier
from harness.tiers.resolve import free_now
from harness.units import format_bytes, parse_duration_ns, parse_size
from harness.workloads.parameters import Parameters

if TYPE_CHECKING:
    from reports.relations import RelationUse

#: A relation with less of all device time does not matter.
_MATTERS = 0.02
_SIZE = re.compile(r"[\d.]+\s*[KMGT]?i?B", re.I)
#: Of the arms: today's, four of candidates, and everything.
MOST_ARMS = 6


@dataclass(frozen=True)
class RelationArms:
    """Placements of the arms that move relations, and of that which moves everything.

    ``notes``: what is not tried, and why.
    """

    placements: tuple[str, ...]
    everything: str | None
    notes: tuple[str, ...]


def budgets(text: str, default: str) -> tuple[str, int | None]:
    """Time and bytes of ``--budget 20m``, ``10GB``, or ``20m,10GB``; ``default``: time."""
    sizes = [word for word in text.split(",") if _SIZE.fullmatch(word.strip())]
    times = [word for word in text.split(",") if word not in sizes]
    if len(sizes) > 1 or len(times) > 1:
        context = "more than a duration and a size"
        raise UsageError(f"--budget {text}", context, "write 20m, 10GB, or 20m,10GB")
    duration = times[0] if times else default
    parse_duration_ns(duration)
    return duration, parse_size(sizes[0].strip()) if sizes else None


def check_engine(factory: EngineFactory) -> None:
    """UsageError for an engine whose relations cannot be placed by name."""
    if not factory.relation_kinds:
        able = [n for n in registry.engine_names() if registry.engine(n).relation_kinds]
        raise UsageError(
            f"advise --by-table with {factory.name}",
            factory.not_placeable.get(
                "relations", f"the harness cannot place single tables of {factory.title}"
            ),
            f"leave --by-table out, or choose {' or '.join(able)}",
        )


def relation_arms(
    uses: Sequence[RelationUse],
    today: str,
    tier: Tier,
    everything: str,
    factory: EngineFactory,
    budget_bytes: int | None,
) -> RelationArms:
    """Return the arms; without any where no relation matters.

    ``today``: its tier. UsageError where no candidate is within the budget, or the tier has no
    room for them.
    """
    total_ns = sum(use.device_ns for use in uses)
    candidates: list[RelationUse] = []
    notes: list[str] = []
    for use in sorted(uses, key=lambda use: -use.device_ns / max(1, use.size_bytes)):
        if not total_ns or use.device_ns < _MATTERS * total_ns:
            continue
        if reason := _not_placeable(use, today, factory):
            notes.append(f"{use.relation} is not moved: {reason}.")
        else:
            candidates.append(use)
    chosen: list[RelationUse] = []
    left = budget_bytes
    for use in candidates:
        if left is None or use.size_bytes <= left:
            chosen.append(use)
            left = None if left is None else left - use.size_bytes
    if candidates and not chosen:
        least = min(candidates, key=lambda use: use.size_bytes)
        raise UsageError(
            f"--budget {format_bytes(budget_bytes or 0)}",
            f"the smallest table or index that matters, {least.relation}, has "
            f"{format_bytes(least.size_bytes)}",
            "give a larger size",
        )
    free = free_now(tier)
    size = sum(use.size_bytes for use in chosen)
    if free is not None and size > free:
        raise UsageError(
            f"{format_bytes(size)} of tables and indexes on {tier.name}",
            f"{format_bytes(free)} are free there",
            f"give a budget of bytes: --budget {free // 10**6}MB",
        )
    whole = sum(use.size_bytes for use in uses)
    fits = free is None or whole <= free
    if not fits:
        notes.append(
            f"Everything is not moved: {format_bytes(whole)} do not fit into the "
            f"{format_bytes(free or 0)} that are free on {tier.name}."
        )
    placements = (
        ",".join([f"data={today}", *(f"{use.relation}={tier.name}" for use in chosen[:count])])
        for count in _counts(len(chosen))
    )
    return RelationArms(tuple(placements), everything if fits else None, tuple(notes))


def _counts(candidates: int) -> list[int]:
    """1, 2, 4 and all: at most four arms, the last of which has all candidates."""
    return sorted({count for count in (1, 2, 4) if count < candidates} | {candidates} - {0})


def _not_placeable(use: RelationUse, today: str, factory: EngineFactory) -> str:
    """Return why a placement cannot name a relation; empty where it can."""
    if use.relation.kind not in factory.relation_kinds:
        return f"{factory.title} cannot place an {use.relation.kind} on its own"
    try:
        parse_placement(f"data={today},{use.relation}={today}")
    except UsageError:
        return "a placement cannot spell its name"
    return ""


def advise_by_table(
    parameters: type[Parameters],
    options: AdviseOptions,
    tiers: Mapping[str, Tier],
    budget_bytes: int | None,
) -> None:
    """Measure which tables and indexes pay off on the faster tier, and print the answer."""
    from reports.relations import relation_uses

    began_ns = time.monotonic_ns()
    factory = registry.engine((options.engine or [""])[0], parameters.workload)
    check_engine(factory)
    if IoMonitor.name in (options.no_monitor or ()):
        context = "the I/O trace ranks the tables"
        raise UsageError("advise --by-table --no-monitor io", context, "leave --no-monitor out")
    faster = faster_tiers(options, tiers)
    if len(faster) != 1:
        context = f"there are several: {', '.join(faster)}" if faster else "there is no other tier"
        raise UsageError("advise --by-table", context, "name one faster tier: --to TIER")
    today, (to,) = f"{options.from_}-both", faster
    supported = factory.supported_parts({})
    stay = "".join(f",{part}={options.from_}" for part in ("wal", "temp") if part in supported)
    everything = f"data={to}{stay}"
    budget_ns = parse_duration_ns(options.budget)
    less = less_data(parameters, options, budget_ns / 1e9, MOST_ARMS)
    sized = {**less, **options.pairs}
    pairs = phases_within(parameters, sized, budget_ns / 1e9, MOST_ARMS, pairs_needed(MOST_ARMS))
    name = f"advise-{parameters.workload}-{factory.name}-tables"
    options = replace(options, name=name, pairs=pairs)
    # Not one of the arms: it chooses them.
    ranking = replace(options, placement=[today], label="ranking", name=f"{name}-ranking")
    made = list[Made]()
    plan = plan_of(parameters, ranking)
    conduct(ranking, plan.emulate, lambda _: Study(plan, made.append, again=False))
    if options.dry_run:
        if not options.json_:
            say("The other arms follow from this run: it ranks tables and indexes.")
        return
    attempts = [run for batch in made[0].batches for run in batch] or made[0].attempts
    complete = [run for run in attempts if run.result.status != "failed"]
    if not complete:
        exit_for(made[0].attempts)
        raise RunFailed("advise --by-table", "the run that ranks tables is not complete", "")
    uses = relation_uses(complete[-1])
    arms = relation_arms(uses, options.from_, tiers[to], everything, factory, budget_bytes)
    if not arms.placements:
        _print_no_relation(uses, options)
        return
    every = [*arms.placements, *([arms.everything] if arms.everything else [])]
    trials = Trials(
        (today, options.from_), dict.fromkeys(every, (("relations",), to)), notes=arms.notes
    )
    series = {spec.series() for spec in trials.plan(parameters, options).runs}
    options = replace(options, name=f"{name}-{content_hash(sorted(series))[:NAME_DIGITS]}")
    left_ns = max(1, budget_ns - (time.monotonic_ns() - began_ns))
    goal = Goal(left_ns, RESOLVE, MOST_PAIRS, LOOKS)
    if not options.json_:
        for line in arms.notes:
            say(line)
    suffix = f",{budget_bytes}B" if budget_bytes is not None else ""
    answer = partial(_answer_by_table, trials, options, less, suffix)
    conduct_experiment(trials.plan(parameters, options), options, False, goal, answer=answer)


def _print_no_relation(uses: Sequence[RelationUse], options: AdviseOptions) -> None:
    """Print that nothing is to be measured."""
    reason = (
        "no session waited for a table or an index"
        if uses
        else "the trace saw no table (see the warnings of the run)"
    )
    sentence = f"Leave tables and indexes on {options.from_}: {reason}."
    if options.json_:
        answer = {"question": "Which tables and indexes should move?", "sentence": sentence}
        print_json({"answers": [{**answer, "rows": [], "arms": []}]})
        return
    say(sentence)


def _answer_by_table(
    planned: Trials, options: AdviseOptions, less: Mapping[str, str], suffix: str, made: Made
) -> None:
    """Print the answer of ``--by-table``. ``suffix``: the bytes of its budget."""
    from reports.advice import measured, trials_of
    from reports.page import print_blocks
    from reports.relations import relation_answers
    from reports.series import panels

    base, _ = planned.today
    usable = [run for run in made.attempts if run.result.status != "failed"]
    today = next((arm for arm in trials_of(usable, planned.every) if arm.placement == base), None)
    answers = list(relation_answers(panels(usable, "placement", base))) if today else []
    pairs = min((len(arm.runs) for arm in trials_of(usable, planned.every)), default=0)
    left_ns = further_ns(usable, pairs, len(planned.every)) or parse_duration_ns(options.budget)
    more = more_command(options, left_ns, less=tuple(less), suffix=suffix)
    if today is None or not answers:
        context = "no two arms are complete"
        raise unanswered("advise --by-table", context, made.attempts, made.ended, more)
    (answer,) = answers
    if options.json_:
        document = {"answers": [answer.to_json()], "ended": made.ended, "experiment": options.name}
        on = {"measured": measured(today), "less_data": dict(less), "not_tried": [*planned.notes]}
        print_json({**document, **on, "more": more.to_json() if answer.undecided else None})
        exit_for(made.attempts)
        return
    say(answer.sentence)
    print_blocks(answer.tables())
    say(f"Measured: {measured(today)}.")
    if answer.undecided:
        say_more(more)
    say(f"ended: {made.ended}. A report with a chart of bytes and gain:")
    say_command(f"harness report -e {options.name}{given(options.results)}")
    exit_for(made.attempts)
