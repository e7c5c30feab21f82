"""``harness engines``: list engines and install pinned servers."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from harness import paths, registry
from harness.cli.common import JsonOption, QuietOption, available, key_values, print_json
from harness.errors import RunFailed
from harness.progress import progress_on_stderr
from harness.store.documents import as_json
from harness.store.verified import record_verified, verified
from harness.terminal import print_table, say

app = typer.Typer(no_args_is_help=True)


def engine_rows() -> list[dict[str, Any]]:
    """Return each engine's name, title, kinds, parts, options and version, or what is missing."""
    rows: list[dict[str, Any]] = []
    for name, factory in sorted(registry.engines().items()):
        version, missing = available(partial(factory.available, {}, paths.engines_prefix()))
        rows.append(
            {
                "name": name,
                "title": factory.title,
                "kinds": list(factory.kinds),
                "parts": sorted(factory.supported_parts({})),
                "options": dict(factory.options),
                "version": version.version if version else None,
                "source": version.source if version else None,
                "missing": missing,
                "note": factory.note,
                "verified": bool(version and verified(name, version)),
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
                (r["version"] or "missing") + (", verified" if r["verified"] else ""),
                r["source"] or r["missing"],
                ", ".join(r["parts"]),
            )
            for r in rows
        ],
    )
    for row in rows:
        if row["note"]:
            say(f"{row['name']}: {row['note']}")


@app.command("install")
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="ENGINE or ENGINE=VERSION [all but on request].")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Install pinned engines into the private prefix."""
    from harness import install

    failed: list[RunFailed] = []
    with progress_on_stderr(quiet) as progress:
        for name in names or install.default_engines():
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


@app.command("verify")
def verify(
    name: Annotated[str, typer.Argument(help="ENGINE, as in `harness engines list`.")],
    dsn: Annotated[str | None, typer.Option(help="An external server, in place of ours.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the engine.")
    ] = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try what an engine claims: answers, recovery, placement, trace, restore, refusals."""
    from harness.selftest import results
    from harness.selftest.conformance import Conformance
    from harness.selftest.lab import open_lab

    options = {**key_values(option or [], "--option"), **({"dsn": dsn} if dsn else {})}
    factory = registry.engine(name)
    cases = []
    with progress_on_stderr(quiet or json_) as progress, open_lab(progress) as lab:
        subject = Conformance(lab, factory, options)
        version = subject.version
        for result in results(subject.cases()):
            cases.append(result)
            if not json_:
                print(result, flush=True)
    failed = sum(case.result == "failed" for case in cases)
    if not failed:
        record_verified(name, version, as_json(cases))
    if json_:
        print_json(
            {
                "engine": name,
                "version": version.version,
                "checks": as_json(cases),
            }
        )
    else:
        passed = sum(case.passed for case in cases)
        print(f"{factory.title} {version.version}: {passed} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)
