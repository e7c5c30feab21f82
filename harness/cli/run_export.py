"""``harness runs export``: runs as tables, documents, an archive, or for other programs."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import registry
from harness.cli.common import (
    JsonOption,
    ResultsOption,
    SelectorArgument,
    finished_runs,
    print_json,
    store,
)
from harness.errors import UsageError
from harness.store.runs import StoredRun
from harness.supervise.own_files import replacing
from harness.terminal import print_table, say
from harness.warnings import RunWarning, warn

#: Artifacts of a user's own workload, and what they are.
_PRIVATE_ARTIFACTS = {
    "queries": "texts of queries",
    "scripts": "scripts",
    "statement-classes": "texts of recorded statements",
    "plans": "plans",
    "answers": "answers",
}


def export(
    runs: SelectorArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help=".csv, .json, .tar.gz, .yaml for Otava, .bmf.json for Bencher [runs.csv].",
        ),
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="DIR", help="Parquet files instead.")
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option("--public", metavar="DIR", help="Runs to publish: nothing identifies you."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write runs as tables, CSV, JSON, an archive, or for Otava or Bencher."""
    places = [place for place in (out, parquet, public) if place is not None]
    if len(places) > 1:
        what = f"export to {' and '.join(map(str, places))}"
        raise UsageError(what, "one at a time", "leave the others out")
    chosen = finished_runs(store(results), runs, "export")
    if public is not None:
        _export_public(chosen, public, json_)
        return
    if parquet is not None:
        from harness.store.tables import write_parquet

        with _writing(parquet):
            files = write_parquet(chosen, parquet)
        if json_:
            print_json({"files": list(map(str, files)), "runs": [r.run_id for r in chosen]})
        else:
            say(f"{len(chosen)} runs in {parquet}: {', '.join(file.name for file in files)}")
        return
    writers = {
        ".csv": _export_csv,
        ".json": _export_json,
        ".gz": _export_tar,
        ".tgz": _export_tar,
        ".yaml": _export_otava,
        ".bmf.json": _export_bencher,
    }
    out = out or Path("runs.csv")
    form = ".bmf.json" if out.name.endswith(".bmf.json") else out.suffix
    if form not in writers:
        hint = "name a .csv, .json, .tar.gz, .yaml or .bmf.json file"
        raise UsageError(f"export to {out}", "unknown format", hint)
    with _writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        writers[form](chosen, out)
    if form in (".json", ".gz", ".tgz"):
        _warn_of_private(chosen, out)
    if json_:
        print_json({"file": str(out), "runs": [stored.run_id for stored in chosen]})
    else:
        say(f"{len(chosen)} runs in {out}")


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"export to {out}", str(error), "name another place") from error


def document(stored: StoredRun) -> dict[str, Any]:
    """Return a run's result and manifest, as JSON of runs has them."""
    return {"run": stored.document, "manifest": stored.manifest_document}


def documents(chosen: Sequence[StoredRun]) -> dict[str, Any]:
    """Return those of several runs."""
    return {"runs": [document(stored) for stored in chosen]}


def _export_csv(chosen: list[StoredRun], out: Path) -> None:
    from reports.page import write_text
    from reports.table_csv import runs_as_csv

    write_text(out, runs_as_csv(chosen))


def _export_otava(chosen: list[StoredRun], out: Path) -> None:
    from reports.continuous_integration import files
    from reports.page import write_text
    from reports.select import unplanted

    for file, text in files(unplanted(chosen), out).items():
        write_text(file, text)


def _export_bencher(chosen: list[StoredRun], out: Path) -> None:
    from reports.continuous_integration import bencher
    from reports.page import write_text
    from reports.select import unplanted

    write_text(out, json.dumps(bencher(unplanted(chosen)), indent=1, ensure_ascii=False))


def _export_public(chosen: list[StoredRun], folder: Path, json_: bool) -> None:
    """Write runs without what identifies, and print what was removed."""
    from harness.publication.export import publish_runs

    with _writing(folder):
        published = publish_runs(chosen, folder)
    if json_:
        about = {"folder": str(folder), "runs": published.run_ids, "removed": published.removed}
        print_json(about)
        return
    say(f"{len(published.run_ids)} runs in {folder}: harness runs import {folder}")
    print_table(("removed", "values"), list(published.removed.items()), right=(1,))
    say("names of experiments, arms, tiers, queries and tables are in it: read them first")


def _export_json(chosen: list[StoredRun], out: Path) -> None:
    from reports.page import write_text

    write_text(out, json.dumps(documents(chosen), indent=1, ensure_ascii=False))


def _warn_of_private(chosen: list[StoredRun], out: Path) -> None:
    """Name the user's data in an export."""
    workloads = registry.workloads()
    private = [
        stored
        for stored in chosen
        if (workload := workloads.get(stored.spec.workload)) and workload.private
    ]
    whole = out.suffix != ".json"
    kinds = [
        kind
        for name, kind in _PRIVATE_ARTIFACTS.items()
        if whole and any((run.directory / f"artifacts/{name}.json").exists() for run in private)
    ]
    if private:
        warn(
            RunWarning(
                "export-of-private-runs",
                f"{out} contains data of your own workload",
                f"{', '.join([*kinds, 'details of checks'])} of {len(private)} runs",
                "share it only with those who may see them; `harness run sql --keep-answers none` "
                "leaves answers out, not the literals in queries and plans",
            )
        )


def _without_trees(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what observers' programs wrote: large, with links, in any depth."""
    return None if member.name.split("/")[1:2] == ["observers"] else member


def _export_tar(chosen: list[StoredRun], out: Path) -> None:
    with replacing(out) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for stored in chosen:
            archive.add(stored.directory, arcname=stored.run_id, filter=_without_trees)
