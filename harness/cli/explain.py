"""``harness explain``: why comparisons came out as they did."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.common import JsonOption, ResultsOption, chosen_runs, print_json, store
from harness.errors import UsageError
from harness.terminal import console


def explain(
    runs: Annotated[list[str] | None, typer.Argument(help="Run ids or selectors.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Placement that the others are compared with.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare despite other differences.")
    ] = False,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare device ratio, ceiling, prediction, measurement."""
    from reports.explain.comparisons import Evidence, explained
    from reports.explain.output import ExplainedView, to_json
    from reports.explain.score import score
    from reports.micro.points import is_micro
    from reports.page import print_page
    from reports.select import unplanted
    from reports.series import panels

    where = store(results)
    every = where.runs()
    of_engines = [stored for stored in every if not is_micro(stored)]
    chosen = chosen_runs(where, runs, of_engines) if runs else unplanted(of_engines)
    chosen = [stored for stored in chosen if not is_micro(stored)]
    rows = (
        explained(panels(chosen, "placement", baseline, anyway), Evidence.of(every))
        if chosen
        else []
    )
    if not rows:
        raise UsageError(
            f"explain {', '.join(runs) if runs else 'all runs'}",
            "no two placements of one engine and workload are among them",
            "measure both: harness run … --placement ssd-both --placement pmem-both",
        )
    view = ExplainedView(tuple(rows), score(rows))
    if json_:
        print_json(to_json(view))
    else:
        print_page("explain_page.j2", view, console())
