"""Run the chosen cells of a paper, one after another, as long as the budget lasts.

A complete run is not run again, so the same command resumes what was interrupted and uses the next
budget for what the last one left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.run_list import plan_steps, run_plan
from harness.experiment.run_time import Budget, Estimator
from harness.paper.plan import ENOUGH, Cell
from harness.store.runs import Store, StoredRun

#: Why a cell was not run, by its figure and turn.
LeftOut = dict[tuple[int, int], str]


def run_cells(
    cells: Sequence[Cell],
    budget_ns: int,
    env: Environment,
    store: Store,
    clock: Callable[[], int] = time.monotonic_ns,
) -> tuple[list[StoredRun], LeftOut]:
    """The runs that were made, failed ones included, and the cells that were not run."""
    budget = Budget(budget_ns, clock)
    made: list[StoredRun] = []
    left_out: LeftOut = {}
    for cell in cells:
        if why := budget.refuses(cell.estimate_ns(Estimator(store.runs()))):
            left_out[cell.entry, cell.turn] = why
            continue
        env.progress.say(f"{cell.what}: {', '.join(part.what for part in cell.to_do)}")
        try:
            made += _run(cell, env, store)
        except UsageError as error:
            left_out[cell.entry, cell.turn] = f"{error.problem}: {error.context}"
    return made, left_out


def _run(cell: Cell, env: Environment, store: Store) -> list[StoredRun]:
    assert cell.plan is not None, "there is something to do"
    steps = [part.step for part in cell.to_do if part.step]
    if not cell.alone:  # checked again: the data of others take space, another figure made some
        specs = tuple(step.spec for step in steps)
        steps = plan_steps(replace(cell.plan, runs=specs), env, store, enough=ENOUGH)
    return run_plan(cell.plan, [step for step in steps if step.done is None], env, store)
