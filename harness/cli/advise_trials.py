"""Options, trials and phases that the questions of ``harness advise`` share."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.advise_memory import MEMORY, MemoryArm
from harness.cli.curve import More
from harness.cli.run_plan import RunOptions, of_arms, plan_of
from harness.errors import RunFailed, UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator, assumed_overhead_ns
from harness.experiment.profile import Plan
from harness.metrics import load_of
from harness.store.runs import StoredRun
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.units import NS_PER_S
from harness.workloads.parameters import Parameters, option_text

#: A difference that is not shown is excluded from this share on.
RESOLVE = 0.05
MOST_PAIRS = 24
LOOKS = 2
#: Typical data of a run that has to be short; the upper estimate would leave no time for windows.
#: Earlier runs do not count: the same command has the same phases again, so that it resumes.
OTHER_NS = assumed_overhead_ns(copied_bytes=450_000_000)
#: Runs that have less time have less data, too: restoring and checking them takes most of it.
_SHORT_RUN_S = 25.0
_SHORTEST_S, _LONGEST_S = 3.0, 120.0
BUDGET = "20m"
#: Of the hash in an experiment's name.
NAME_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(RunOptions):
    """Options of ``harness advise``, in addition to those of a run."""

    from_: Annotated[str, typer.Option("--from", metavar="TIER", help="Today's tier.")] = "ssd"
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIER|MODEL|memory=TIER",
            help="Faster tier, or a model of a device; may repeat [other tiers, else a curve]. "
            "memory=cxl: does more, slower memory pay?",
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE[,SIZE]",
            help="Cap on the engine and its page cache: 4GiB. With --to memory=TIER: today's "
            "memory and the total, 52GiB,208GiB.",
        ),
    ] = None
    budget: Annotated[
        str,
        typer.Option(
            metavar="DURATION[,SIZE]",
            help="Time of this command, loading included. With --by-table also bytes to move: "
            "10GB.",
        ),
    ] = BUDGET
    by_table: Annotated[
        bool, typer.Option("--by-table", help="Which tables and indexes to move, not parts.")
    ] = False


@dataclass(frozen=True)
class Trials:
    """Arms of the plan. ``arms``: parts that move, and their tier, by placement; without today's.

    ``today``: its placement, and its tier in words. ``memory``: arms of a question of memory.
    ``notes``: what is not tried, and why. ``cpus``: processors of a question of memory.
    """

    today: tuple[str, str]
    arms: Mapping[str, tuple[tuple[str, ...], str]]
    memory: tuple[MemoryArm, ...] = ()
    notes: tuple[str, ...] = ()
    cpus: str | None = None

    @property
    def every(self) -> dict[str, tuple[tuple[str, ...], str]]:
        """Return the arms, today's first."""
        placement, tier = self.today
        return {placement: ((), tier), **self.arms}

    def plan(self, parameters: type[Parameters], options: AdviseOptions) -> Plan:
        """Return the plan of all arms."""
        if not self.memory:
            return plan_of(parameters, replace(options, placement=[*self.every]))
        each = (
            replace(
                options,
                placement=[arm.placement],
                memory_limit=str(arm.limit_bytes),
                label=arm.label,
            )
            for arm in self.memory
        )
        return of_arms([plan_of(parameters, arm) for arm in each])


def faster_tiers(options: AdviseOptions, tiers: Mapping[str, Tier]) -> list[str]:
    """Return the tiers to try: those that are named, else every other directory of the host."""
    check_from(options, tiers)
    for name in options.to or ():
        if name not in tiers:
            context = f"no tier and no device model has this name (tiers: {', '.join(tiers)})"
            raise UsageError(f"--to {name}", context, "`harness model list` lists the models")
        if tiers[name].facts.kind == "numa":
            context = f"{name} is a tier of memory, without files"
            raise UsageError(f"--to {name}", context, f"did you mean --to {MEMORY}{name}?")
    others = [n for n, tier in tiers.items() if tier.facts.kind in DIRECTORY_KINDS]
    return list(options.to or [name for name in others if name != options.from_])


def check_from(options: AdviseOptions, tiers: Mapping[str, Tier]) -> None:
    """UsageError unless the host has today's tier."""
    if options.from_ not in tiers:
        names = ", ".join(tiers)
        raise UsageError(f"--from {options.from_}", "no such tier", f"tiers: {names}")


def pairs_needed(arms: int) -> int:
    """Return how many pairs can show a difference, with each look at each comparison.

    Arms are compared with today's, and those that move something with one another.
    """
    from reports.ranks import repeats_needed
    from reports.statistics import ALPHA

    family = max(arms - 1, math.comb(arms - 1, 2))
    return repeats_needed(ALPHA / LOOKS / family, "paired")


def less_data(
    parameters: type[Parameters], options: AdviseOptions, budget_s: float, arms: int
) -> dict[str, str]:
    """Return the parameters that make less data than by default where runs have to be short."""
    if budget_s / (pairs_needed(arms) * arms) >= _SHORT_RUN_S:
        return {}
    return {name: v for name, v in parameters.small.items() if name not in options.pairs}


def phases_within(
    parameters: type[Parameters],
    given: Mapping[str, str],
    budget_s: float,
    arms: int,
    pairs: int,
) -> dict[str, str]:
    """Return phases with which the budget has as many pairs as show a difference."""
    loads = load_of(parameters.workload, given) is not None
    phased = loads and {"ramp_up", "duration"} <= parameters.declared().keys()
    if "operations" in given or not phased:
        return dict(given)
    each_s = 0.85 * budget_s / (pairs * arms) - OTHER_NS / NS_PER_S
    window_s = min(_LONGEST_S, max(_SHORTEST_S, each_s * 0.75))
    ramp_up_s = max(1.0, window_s / 4)
    return {"ramp_up": f"{ramp_up_s:.0f}s", "duration": f"{window_s:.0f}s", **given}


def further_ns(runs: Sequence[StoredRun], pairs: int, arms: int) -> int | None:
    """Return how long the pairs take that are missing, by those so far; None where there are none.

    A continued command is corrected for a look more, which takes a pair more.
    """
    steps = {run.spec.series(): ResolvedRun(run.spec) for run in runs}
    block_ns = Estimator(runs).total_ns(steps.values())
    missing = max(1, pairs_needed(arms) + 1 - pairs)
    return round(1.2 * block_ns * missing) if block_ns else None


def unanswered(
    command: str, context: str, attempts: Sequence[StoredRun], ended: str, more: More
) -> RunFailed:
    """Return the error of too few complete arms: runs failed, or there was no time for them."""
    if any(run.result.status == "failed" for run in attempts):
        return RunFailed(command, context, f"see the failed runs; {more.text}")
    return RunFailed(command, f"{context}: {ended}", more.text)


def more_command(
    options: AdviseOptions,
    further_ns: int,
    command: str = "advise",
    wanted: Sequence[str] = (),
    less: Sequence[str] = (),
    suffix: str = "",
) -> More:
    """Return the command that keeps the complete runs, with these phases and as much data.

    ``wanted``: its own options; without any, the further time as its budget. ``less``: the
    parameters that made less data, which a larger budget would not. ``suffix``: of the budget.
    """
    minutes = math.ceil(further_ns / 60e9)
    words = [Path(sys.argv[0]).name, command, *sys.argv[2:]]
    retained = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--budget" and not word.startswith("--budget") and word != "--again"
    ]
    phases = [
        word
        for name in (*less, "ramp_up", "duration")
        if name in options.pairs and option_text(name) not in retained
        for word in (option_text(name), options.pairs[name])
    ]
    ends = wanted or ["--budget", f"{minutes}m{suffix}"]
    return More(minutes, shlex.join([*retained, *phases, *ends]))
