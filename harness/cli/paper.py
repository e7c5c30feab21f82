"""``harness paper``: what this host can run of a paper's figures, and one page about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import show
from harness.cli.common import ModelOption, OutOption, print_json, stand_ins, store
from harness.cli.options import CommonOptions, RunCommand, callback
from harness.cli.run_list import hours
from harness.cli.study import conduct
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Budget, Estimator
from harness.experiment.profile import Plan
from harness.experiment.study import Made, Study
from harness.models.score import ScoreStore
from harness.paper.catalogue import Paper, find_paper
from harness.paper.plan import (
    ENOUGH,
    ChosenCells,
    Figure,
    FigureCell,
    PaperRequest,
    choose,
    figures_of,
)
from harness.paper.study import Cells, figure_runs, with_looks
from harness.store.run_store import Store
from harness.terminal import print_table, say
from harness.units import counted, parse_duration_ns

if TYPE_CHECKING:
    from reports.fidelity.page import FigureRuns, FigureView


#: State of a comparison that is run.
_TO_RUN = "to run"
#: Of a figure, the reasons for not running comparisons that the table names.
_MOST_REASONS = 2


@dataclass(frozen=True, kw_only=True)
class PaperOptions(CommonOptions):
    """Options of ``harness paper``."""

    name: Annotated[str, typer.Argument(help="A paper, such as nvm-for-databases, or its file.")]
    figures: Annotated[list[str] | None, typer.Argument(help="Only these: fig4, table5 [all].")] = (
        None
    )
    size: Annotated[
        float | None, typer.Option(help="Size of data and memory of all its profiles [1].")
    ] = None
    budget: Annotated[
        str, typer.Option(metavar="DURATION", help="Time of all runs of this command.")
    ] = "30m"
    repeats: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Repeats of every run [the profile's, the suite's]."),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="Override a parameter of its workloads, else of its suites.",
        ),
    ] = None
    driver: Annotated[
        str, typer.Option(help="In place of the profiles' own: hammerdb, ycsb [theirs].")
    ] = ""
    out: OutOption = Path("paper")
    model: ModelOption = None


def run_paper(options: PaperOptions) -> None:
    """Run a paper's figures; write published next to measured.

    The first comparison of every figure is run before the second of any, as far as the budget goes.
    Complete runs are not run again: rerunning the command resumes.
    """
    from reports.page import own_folder  # reports are loaded where they are needed

    paper_ = find_paper(options.name)
    if options.figures:
        paper_ = paper_.only(options.figures)
    budget_ns = parse_duration_ns(options.budget)
    requests = stand_ins(options.emulate, options.model)
    request = PaperRequest(
        options.size, options.repeats, options.pairs, tuple(requests), options.driver
    )
    into = store(options.results)

    def study_of(env: Environment) -> Study:
        figures = figures_of(paper_, request, env, into)
        cells = [cell for figure in figures for cell in figure.cells]
        chosen = choose(cells, budget_ns, Estimator(into.runs()))
        if not options.dry_run:
            own_folder(options.out)  # before hours of measuring
            chosen = replace(chosen, cells=tuple(with_looks(figures, chosen.cells)))
        rule = Cells(budget=Budget(budget_ns), cells=chosen.cells, env=env, store=into)

        def listing(steps: Sequence[ResolvedRun], earlier: Store) -> None:
            times = Estimator(earlier.runs())
            _print_plan(paper_, figures, chosen, times, options.json_)

        def answer(made: Made) -> None:
            left_out = {**chosen.left_out, **rule.left_out}
            shown = figure_runs(figures, made.attempts, left_out, request)
            _write(paper_, shown, into, options.out, options.json_)
            show.exit_for(made.attempts)

        plan = Plan(paper_.name, "", tuple(step.spec for step in rule.steps))
        return Study(
            plan,
            answer,
            rule,
            resolved=rule.steps,
            again=False,
            enough=ENOUGH,
            listing=listing,
        )

    conduct(options, requests, study_of)


_UNUSED = ("cpus", "seed", "again", "monitor", "no_monitor")
command_class = RunCommand
paper = callback(PaperOptions, run_paper, without=_UNUSED)


def _write(
    paper: Paper,
    figures: Sequence[FigureRuns],
    into: Store,
    out: Path,
    json_: bool,
) -> None:
    from reports.explain.devices import TierSources
    from reports.fidelity.page import page_of, write_paper

    sources = TierSources.of(into.runs(), ScoreStore(into.root).all())
    page = page_of(paper.name, paper.title, figures, paper.published, sources)
    files = write_paper(page, out)
    if json_:
        paths = {form: str(path) for form, path in files.items()}
        print_json({"paper": {"name": paper.name, **paths, **page.to_json()}})
        return
    print_table(
        ("figure", "runs", "published with measured", "left out"),
        [
            (
                view.of.title,
                f"{view.done} of {view.of.planned}" if view.of.planned else "–",
                f"{view.measured} of {len(view.rows)}" if view.rows else "–",
                view.of.missing or _reasons(view),
            )
            for view in page.figures
        ],
    )
    say(f"page: {files['html'].absolute()}")


def _reasons(view: FigureView) -> str:
    """The reason why most of a figure was left out, and how many others there are."""
    counts = Counter(why for _, why in view.of.left_out).most_common()
    if not counts:
        return ""
    (why, runs), others = counts[0], len(counts) - 1
    more = f"; {counted(others, 'other reason')}: see the page" if others else ""
    return f"{counted(runs, 'run')}: {why}{more}"


def _print_plan(
    paper: Paper, figures: Sequence[Figure], chosen: ChosenCells, times: Estimator, json_: bool
) -> None:
    """The cells of each figure in numbers; as JSON first those to run, in their order."""
    rows = [_row(figures, cell, times, _TO_RUN) for cell in chosen.cells]
    picked = {(cell.entry, cell.turn) for cell in chosen.cells}
    for cell in (cell for figure in figures for cell in figure.cells):
        if (cell.entry, cell.turn) not in picked:
            rows.append(_row(figures, cell, times, _state(cell, chosen.left_out)))
    if json_:
        estimated_ns = None if chosen.unknown else chosen.estimated_ns
        print_json(
            {
                "paper": paper.name,
                "captions": [asdict(caption) for caption in paper.captions()],
                "plan": rows,
                "estimated_duration_ns": estimated_ns,
            }
        )
        return
    rows_by_figure = [
        [row for row in rows if row["figure"] == figure.entry.figure] for figure in figures
    ]
    unknown = f", {chosen.unknown} of them without an estimate" if chosen.unknown else ""
    print_table(
        ("figure", "comparisons", "to run", "about", "others"),
        [_figure_row(figure, cells) for figure, cells in zip(figures, rows_by_figure, strict=True)],
        title=f"{paper.title}: {len(chosen.cells)} comparisons to run, "
        f"about {hours(chosen.estimated_ns)}{unknown}; no run is started (--json lists each)",
    )


def _figure_row(figure: Figure, cells: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    times = [row["estimated_ns"] for row in cells if row["state"] == _TO_RUN]
    estimated = [time_ns for time_ns in times if time_ns is not None]
    about = [hours(sum(estimated))] if estimated else []
    if len(estimated) < len(times):
        about.append(f"{len(times) - len(estimated)} not known")
    why = Counter(row["state"] for row in cells if row["state"] != _TO_RUN).most_common()
    others = [f"{count}: {state}" for state, count in why[:_MOST_REASONS]]
    if len(why) > _MOST_REASONS:
        others.append(f"{counted(len(why) - _MOST_REASONS, 'other reason')}")
    counts = (str(len(cells)), str(len(times))) if cells else ("–", "–")
    text = figure.why or "; ".join(others)
    return figure.entry.figure, *counts, " + ".join(about) or "–", text


def _state(cell: FigureCell, left_out: Mapping[tuple[int, int], str]) -> str:
    if why := left_out.get((cell.entry, cell.turn)):
        return why
    if cell.to_do:
        return "another figure runs it"
    skipped = dict.fromkeys(run.why for run in cell.runs if run.why)
    return "; ".join(skipped) or "complete"


def _row(
    figures: Sequence[Figure], cell: FigureCell, times: Estimator, state: str
) -> dict[str, Any]:
    return {
        "figure": figures[cell.entry].entry.figure,
        "what": cell.what,
        "to_do": [run.what for run in cell.to_do],
        "complete": [run.done.run_id for run in cell.runs if run.done],
        "skipped": [{"what": p.what, "why": p.why} for p in cell.runs if p.why],
        "estimated_ns": cell.estimate_ns(times),
        "state": state,
    }
