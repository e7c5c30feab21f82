"""``harness card``: the properties of devices, from runs of microbenchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.common import (
    JsonOption,
    OutOption,
    ResultsOption,
    SelectorArgument,
    chosen_runs,
    print_json,
    store,
)
from harness.errors import UsageError
from harness.terminal import say


def card(
    runs: SelectorArgument = None,
    out: OutOption = Path("card"),
    title: Annotated[
        str, typer.Option("--title", help="Title of the card.")
    ] = "What this device likes",
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            help="Price file, as in profiles/prices [host file's price_per_gb].",
        ),
    ] = None,
    perma: Annotated[
        list[Path] | None,
        typer.Option("--perma", help="Result file of PerMA-Bench to show as well; may repeat."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write a page per device: preferences, practices, prices."""
    from harness.micro.perma_file import perma_devices
    from reports.micro.points import device_of_metrics, is_micro
    from reports.micro.report import write_cards

    where = store(results)
    chosen = chosen_runs(where, runs, [run for run in where.runs() if is_micro(run)])
    if not chosen:
        raise UsageError(
            "a card",
            f"no finished run of microbenchmarks in {where.root}",
            "`harness run micro --suite device-card --tier TIER` makes one",
        )
    others = [
        device_of_metrics(Path(one.file).stem, one.memory, one.mark, one.source, one.metrics)
        for path in perma or ()
        for one in perma_devices(path)
    ]
    files = write_cards(chosen, out, title, prices, others)
    if json_:
        print_json({"card": files.to_json()})
    else:
        say(f"card of {', '.join(files.devices)}: {files.html.absolute()}")
