"""``harness conclusions``: the papers' conclusions, tested on stored runs."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.common import JsonOption, ResultsOption, chosen_runs, print_json, store
from harness.errors import UsageError, nearest
from harness.terminal import console


def conclusions(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Run ids or selectors [all runs].")
    ] = None,
    paper: Annotated[str | None, typer.Option("--paper", help="Of this paper only.")] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Test the papers' conclusions on stored runs."""
    from reports.conclusions.catalogue import CONCLUSIONS
    from reports.conclusions.model import check_all
    from reports.page import print_page

    papers = list(dict.fromkeys(one.paper for one in CONCLUSIONS))
    if paper is not None and paper not in papers:
        raise UsageError(
            f"--paper {paper}",
            f"no conclusions of such a paper{nearest(paper, papers)}",
            f"one of {', '.join(papers)}",
        )
    where = store(results)
    chosen = chosen_runs(where, runs) if runs else where.runs()
    if not chosen:
        raise UsageError(
            "conclusions on all runs",
            f"no finished run in {where.root}",
            "`harness runs list` shows what is there",
        )
    found = check_all([one for one in CONCLUSIONS if paper in (None, one.paper)], chosen)
    if json_:
        print_json({"conclusions": [one.to_json() for one in found]})
        return
    print_page("conclusions_page.j2", found, console())
