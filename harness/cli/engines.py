"""``harness engines``: list engines and install pinned servers."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from harness import paths, registry
from harness.cli.common import JsonOption, QuietOption, available, print_json
from harness.errors import RunFailed
from harness.progress import progress_on_stderr
from harness.terminal import print_table

app = typer.Typer(help="List engines; install pinned versions.", no_args_is_help=True)


def engine_rows() -> list[dict[str, Any]]:
    """Return each engine's name, title, kinds, parts, options and version, or what is missing."""
    rows: list[dict[str, Any]] = []
    for name, factory in sorted(registry.engines().items()):
        found, missing = available(partial(factory.available, {}, paths.engines_prefix()))
        rows.append(
            {
                "name": name,
                "title": factory.title,
                "kinds": list(factory.kinds),
                "parts": sorted(factory.supported_parts({})),
                "options": dict(factory.options),
                "version": found.version if found else None,
                "source": found.source if found else None,
                "missing": missing,
            }
        )
    return rows


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List engines with the version that a run uses."""
    rows = engine_rows()
    if json_:
        print_json({"engines": rows})
        return
    print_table(
        ("engine", "kinds", "version", "from", "parts"),
        [
            (
                r["name"],
                ", ".join(r["kinds"]),
                r["version"] or "missing",
                r["source"] or r["missing"],
                ", ".join(r["parts"]),
            )
            for r in rows
        ],
    )


@app.command("install")
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="ENGINE or ENGINE=VERSION [all pinned].")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Install pinned engines into the private prefix."""
    from harness import install

    failed: list[RunFailed] = []
    with progress_on_stderr(quiet) as progress:
        for name in names or install.pinned_engines():
            engine, _, version = name.partition("=")
            try:
                prefix = paths.engines_prefix()
                install.install(engine, prefix, progress, version=version or None)
            except RunFailed as error:  # install the others too
                failed.append(error)
    if len(failed) > 1:
        raise RunFailed(
            f"install {len(failed)} engines", "; ".join(map(str, failed)), failed[-1].hint
        )
    if failed:
        raise failed[0]
