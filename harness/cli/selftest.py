"""``harness selftest``: whether this installation finds what is planted, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

import typer

from harness.cli.common import JsonOption, QuietOption, print_json
from harness.errors import UsageError
from harness.progress import Progress, progress_on_stderr
from harness.selftest import Case, results
from harness.store.documents import as_json
from harness.terminal import say

_GROUPS = ("statistics", "faults", "effects")
#: Trials of each planted effect.
_TRIALS, _QUICK_TRIALS = 20, 1


def selftest(
    groups: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(_GROUPS)} [all].")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One trial of each planted effect, in place of 20.")
    ] = False,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Plant effects and faults; report whether they are found."""
    chosen = groups or list(_GROUPS)
    for name in chosen:
        if name not in _GROUPS:
            raise UsageError(f"selftest {name}", "no such group", f"known: {', '.join(_GROUPS)}")
    outcomes = []
    with ExitStack() as stack:
        progress = stack.enter_context(progress_on_stderr(quiet or json_))
        for result in results(_cases(chosen, quick, progress, stack)):
            outcomes.append(result)
            if not json_:
                say(str(result))
                sys.stdout.flush()
    failed = sum(not outcome.passed for outcome in outcomes)
    passed = len(outcomes) - failed
    if json_:
        cases = as_json(outcomes)
        print_json({"selftest": {"passed": passed, "failed": failed, "cases": cases}})
    else:
        say(f"{passed} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _cases(chosen: list[str], quick: bool, progress: Progress, stack: ExitStack) -> Iterator[Case]:
    """The lab is opened, and checked for all that they need, for cases that run something."""
    running = [name for name in ("faults", "effects") if name in chosen]
    if running:
        from harness.selftest import effects, faults
        from harness.selftest.lab import open_lab

        lab = stack.enter_context(open_lab(progress))
        lab.check(faults.WORKLOADS if "faults" in running else effects.WORKLOADS)
    if "statistics" in chosen:
        from harness.selftest import noise

        yield from noise.cases()
    if "faults" in running:
        yield from faults.cases(lab)
    if "effects" in running:
        yield from effects.Effects(lab, _QUICK_TRIALS if quick else _TRIALS).cases()
