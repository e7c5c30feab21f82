"""``harness flushes``: the flushes and fences that a program executes."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.common import JsonOption, print_json
from harness.errors import UsageError
from harness.rewrite.executed import count_executed
from harness.terminal import print_table, say


def flushes(
    program: Annotated[Path, typer.Argument(help="A program of x86-64.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="-- WORDS", help="Its arguments.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Count the flushes and fences that a program executes."""
    if not program.is_file():
        raise UsageError(f"count the flushes of {program}", "no such file", "name a program")
    status, sites = count_executed(program, words or ())
    totals: Counter[str] = Counter()
    for site in sites:
        totals[site.name] += site.count
    if json_:
        document = {"program": str(program), "status": status, "executed": dict(totals)}
        print_json({**document, "sites": [asdict(site) for site in sites]})
        return
    print_table(
        ("file", "function", "address", "instruction", "executed"),
        [
            (Path(site.file).name, site.function, site.address, site.name, str(site.count))
            for site in sites
        ],
    )
    listed = ", ".join(f"{count} {name}" for name, count in totals.most_common())
    say(f"{program} exited with status {status}: {listed or 'no flush and no fence'}")
