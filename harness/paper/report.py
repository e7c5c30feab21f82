"""The figures of a paper after its runs, as the page of the report takes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from harness.paper.plan import Cell, Figure, PaperRequest, Part
from harness.store.runs import StoredRun
from harness.tiers.discovery import stand_in_option
from reports.fidelity.page import FigureRuns


def figure_runs(
    figures: Sequence[Figure],
    made: Sequence[StoredRun],
    left_out: Mapping[tuple[int, int], str],
    request: PaperRequest,
) -> list[FigureRuns]:
    """Each figure with its complete runs, and why others were not made.

    ``made``: the runs of this command, from which a failure is read.
    """
    failed = {run.spec.hash(): run for run in made if run.result.status == "failed"}
    return [
        FigureRuns(
            figure.entry.figure,
            _command(figure, request),
            figure.published,
            tuple(_runs(figure, failed)),
            sum(len(cell.parts) for cell in figure.cells),
            tuple(_left_out(figure, left_out, failed)),
            figure.entry.differs,
            figure.why,
            figure.entry.dimms,
        )
        for figure in figures
    ]


def _runs(figure: Figure, failed: Mapping[str, StoredRun]) -> Iterator[StoredRun]:
    """Those with a result, and the failed ones of this command."""
    for part in (part for cell in figure.cells for part in cell.parts):
        found = part.done or failed.get(part.hash)
        if found is not None:
            yield found


def _left_out(
    figure: Figure, left_out: Mapping[tuple[int, int], str], failed: Mapping[str, StoredRun]
) -> Iterator[tuple[str, str]]:
    for cell in figure.cells:
        for part in cell.parts:
            if part.done is None and (why := _why(cell, part, left_out, failed)):
                yield ", ".join(dict.fromkeys((cell.what, part.what))), why


def _why(
    cell: Cell,
    part: Part,
    left_out: Mapping[tuple[int, int], str],
    failed: Mapping[str, StoredRun],
) -> str:
    run = failed.get(part.hash)
    if run is not None:
        return f"failed: {run.result.why_failed}"
    return part.why or left_out.get((cell.entry, cell.turn), "left to another figure")


def _command(figure: Figure, request: PaperRequest) -> str:
    """The command that runs all of it."""
    entry = figure.entry
    options = [stand_in_option(one) for one in request.emulate]
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
    words += [word for one in options if entry.profile or one[0] == "--emulate" for word in one]
    return shlex.join(words)
