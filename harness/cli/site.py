"""``harness site``: a static site of results stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.common import JsonOption, QuietOption, print_json, store
from harness.experiment.profile import published_of
from harness.progress import progress_on_stderr
from harness.store.documents import as_json
from harness.terminal import say

if TYPE_CHECKING:
    from reports.published import PublishedSeries


def site(
    out: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder: new, empty, or that of a site.")
    ],
    results: Annotated[
        list[Path] | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help="Results directory; may repeat [$HARNESS_RESULTS, else ./results].",
        ),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Title of the start page.")] = "Results",
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write pages of all experiments, comparisons and hosts, which open without the harness.

    The same command writes what has changed since, and removes pages whose runs are gone.
    """
    from reports.site.write import StaticSite

    every = map(store, results) if results else [store(None)]
    stores = {where.root.resolve(): where for where in every}
    with progress_on_stderr(quiet or json_) as progress:
        written = StaticSite(title, [*stores.values()], _published).write(out, progress)
    if json_:
        print_json({"site": as_json(written) | {"start": str(written.start.absolute())}})
        return
    for line in written.left_out:
        say(f"left out: {line}")
    counts = f"{len(written.written)} pages written, {written.unchanged} unchanged"
    removed = f", {len(written.removed)} removed" if written.removed else ""
    say(f"site: {written.start.absolute()}: {counts}{removed}")


def _published(experiment: str) -> Sequence[PublishedSeries]:
    """Return the figures of a paper that an experiment repeats."""
    from reports.published import read_published

    path, figures = published_of(experiment)
    return read_published(path, figures) if path else ()
