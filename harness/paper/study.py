"""Run the cells of a paper's figures in turn, and say what each figure has of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import plan_steps
from harness.experiment.profile import Plan
from harness.experiment.study import Batch, Batches, Cost, StopRule, continued
from harness.paper.plan import ENOUGH, Figure, FigureCell, LeftOut, PaperRequest
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.tiers.stand_ins import stand_in_option
from reports.fidelity.page import FigureRuns


def with_looks(figures: Sequence[Figure], cells: Sequence[FigureCell]) -> list[FigureCell]:
    """The cells, with plans that count repeats added to complete ones as a look more."""
    plans: dict[int, Plan] = {}
    for cell in cells:
        if cell.plan is None or cell.alone or cell.entry in plans:
            continue
        runs = (run for other in figures[cell.entry].cells for run in other.runs)
        steps = [run.step for run in runs if run.step and not run.why]
        plans[cell.entry] = continued(cell.plan, steps)
    return [replace(cell, plan=plans.get(cell.entry, cell.plan)) for cell in cells]


@dataclass(frozen=True, kw_only=True)
class Cells(StopRule):
    """Cells in turn, each if its time is left; ``left_out``: why others were not run.

    A complete run is not run again, so the same command resumes what was interrupted and uses the
    next budget for what the last one left.
    """

    cells: Sequence[FigureCell]
    env: Environment
    store: Store
    left_out: LeftOut = field(default_factory=dict)
    loads_first: ClassVar[bool] = False

    @property
    def steps(self) -> list[ResolvedRun]:
        """Runs of all cells, each once."""
        return list({s.spec.hash(): s for cell in self.cells for s in cell.steps}.values())

    def counted(self, plan: Plan, steps: Sequence[ResolvedRun]) -> tuple[Plan, list[ResolvedRun]]:
        return plan, list(steps)  # by figures: with_looks

    def batches(
        self,
        plan: Plan,
        steps: Sequence[ResolvedRun],
        cost_ns: Cost,
        say: Callable[[str], None],
    ) -> Batches:
        for cell in self.cells:
            if why := self.budget.refuses(cost_ns(cell.steps)):
                self.left_out[cell.entry, cell.turn] = why
                continue
            try:
                yield self._batch(cell)
            except UsageError as error:
                self.left_out[cell.entry, cell.turn] = str(error)
        return ""

    def _batch(self, cell: FigureCell) -> Batch:
        """Check the cell again: the data of others take space, another figure made some runs."""
        assert cell.plan is not None, "there is something to do"
        steps = cell.steps
        if not cell.alone:
            of_cell = replace(cell.plan, runs=tuple(step.spec for step in steps))
            steps = plan_steps(of_cell, self.env, self.store, enough=ENOUGH)
        return Batch(cell.plan, [step for step in steps if step.done is None])


def figure_runs(
    figures: Sequence[Figure],
    attempts: Sequence[StoredRun],
    left_out: Mapping[tuple[int, int], str],
    request: PaperRequest,
) -> list[FigureRuns]:
    """Each figure with its complete runs, and why others were not made.

    ``attempts``: those of this command.
    """
    made = {run.spec.hash(): run for run in attempts}
    return [
        FigureRuns(
            figure.entry.figure,
            _command(figure, request),
            figure.published,
            tuple(done for cell in figure.cells for run in cell.runs if (done := run.stored(made))),
            sum(len(cell.runs) for cell in figure.cells),
            tuple(_left_out(figure, left_out, made)),
            figure.entry.differs,
            figure.why,
        )
        for figure in figures
    ]


def _left_out(
    figure: Figure, left_out: Mapping[tuple[int, int], str], made: Mapping[str, StoredRun]
) -> Iterator[tuple[str, str]]:
    for cell in figure.cells:
        for run in cell.runs:
            stored = run.stored(made)
            if stored is not None and stored.result.status != "failed":
                continue
            why = run.why or left_out.get((cell.entry, cell.turn), "left to another figure")
            if stored is not None:
                why = f"failed: {stored.result.why_failed}"
            yield ", ".join(dict.fromkeys((cell.what, run.what))), why


def _command(figure: Figure, request: PaperRequest) -> str:
    """The command that runs all of it."""
    entry = figure.entry
    options = [stand_in_option(name) for name in request.emulate]
    modelled = {value.partition("=")[0] for name, value in options if name == "--model"}
    tiers = [tier for tier in entry.tiers if tier not in modelled]  # a suite runs on no model
    if entry.profile:
        words = ["harness", "experiment", "run", entry.profile]
        words += ["--size", f"{request.size:g}"] if request.size else []
    elif entry.suite and tiers:
        words = ["harness", "run", "micro", "--suite", entry.suite]
        words += [word for tier in tiers for word in ("--tier", tier)]
    else:
        return ""
    words += [word for k, v in figure.params.items() for word in ("-p", f"{k}={v}")]
    words += ["--driver", request.driver] if request.driver and entry.profile else []
    words += ["--repeats", str(request.repeats)] if request.repeats else []
    words += [
        word for option in options if entry.profile or option[0] == "--emulate" for word in option
    ]
    return shlex.join(words)
