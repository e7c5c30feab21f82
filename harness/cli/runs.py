"""``harness runs``: list, show, remove, export and import runs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from harness import hdr
from harness.cli import show
from harness.cli.common import (
    JsonOption,
    ResultsOption,
    SelectorArgument,
    VerboseOption,
    chosen_runs,
    confirm,
    finished_runs,
    print_json,
    set_params,
    store,
)
from harness.cli.run_export import document, documents, export
from harness.cli.show import print_figures
from harness.errors import UsageError
from harness.metrics import brief_parameters, metrics
from harness.store.checkpoint import steps_kept, under_way
from harness.store.result import Metric, label_text
from harness.store.run_row import run_row, titles
from harness.store.runs import StoredRun
from harness.store.spec import MICRO, NATIVE, JsonObject
from harness.terminal import print_table, say
from harness.tiers.linux.model import TierRecord
from harness.units import format_bytes, format_ns, parse_size

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    runs: SelectorArgument = None, results: ResultsOption = None, json_: JsonOption = False
) -> None:
    """List runs with their status; without a selector the unfinished ones, too."""
    where = store(results)
    finished, unfinished = chosen_runs(where, runs), [] if runs else where.unfinished()
    if json_:
        _print_json(finished, [path.name for path in unfinished])
        return
    from reports.labels import in_words  # reports are loaded where they are needed

    words = cache(in_words)  # thousands of runs have few parameters
    rows: list[tuple[Any, ...]] = [_row(stored, words) for stored in finished]
    rows += [(path.name, "unfinished", "", "", "", _state(path)) for path in unfinished]
    print_table((*titles(_LISTED), "what", "result", "note"), rows)


#: Columns of each run in the list.
_LISTED = ("run_id", "status", "experiment")


#: A fact and its value in words.
_Words: TypeAlias = Callable[[str, str | None], str]


def _row(stored: StoredRun, words: _Words) -> tuple[str, ...]:
    from reports.formatting import stand_in_mark  # reports are loaded where they are needed
    from reports.run_configuration import stand_ins

    head = stored.head
    notes = (stand_in_mark(stand_ins(stored)), "resumed" if head.resumed else "")
    return (
        *(str(value) for value in run_row(stored, _LISTED).values()),
        _what(stored, words),
        _result(*head.result) if head.result else "",
        "; ".join(filter(None, notes)),
    )


def _print_json(finished: list[StoredRun], unfinished: list[str]) -> None:
    """``{runs: […], unfinished: […]}``, written run by run."""
    sys.stdout.write('{\n "runs": [')
    for number, stored in enumerate(finished):
        sys.stdout.write((",\n" if number else "") + stored.text.rstrip())
    sys.stdout.write(f'],\n "unfinished": {json.dumps(unfinished)}\n}}\n')


def _what(stored: StoredRun, words: _Words) -> str:
    """``tpcc, warehouses 1, users 4, hammerdb``: its difference from other runs."""
    from reports.run_configuration import parameter_facts

    spec = stored.spec
    facts = parameter_facts(spec, brief_parameters(spec.workload))
    stated = [words(name, value) for name, value in facts.items() if value]
    driver = "" if spec.driver == NATIVE else spec.driver
    durability = "durability" if spec.params.get("test") == "durability" else ""
    return ", ".join([spec.workload, *filter(None, [*stated, durability, driver])])


def _result(name: str, value: float) -> str:
    """``1,234 New-Orders/min``, ``5.3 s total``."""
    info = metrics().get(name)
    return f"{show.value_text(name, value)} {info.short if info else ''}".strip()


def _state(unfinished: Path) -> str:
    if under_way(unfinished):
        return "under way"
    steps = steps_kept(unfinished)
    return f"{steps} steps retained: the same command resumes" if steps else ""


@app.command("show")
def show_(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="SELECTOR", help="Run id, its beginning or end, or a selector."),
    ],
    verbose: VerboseOption = False,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Show each run: its metrics, checks and what it ran on."""
    chosen = chosen_runs(store(results), runs)
    if json_:
        print_json(documents(chosen) if len(chosen) > 1 else document(chosen[0]))
        return
    for number, stored in enumerate(chosen):
        print("\n" * (number > 0), end="")
        _print_run(stored, verbose)


def _print_run(stored: StoredRun, verbose: bool) -> None:
    from reports.formatting import stand_in_text  # reports are loaded where they are needed
    from reports.run_configuration import emulations

    result, manifest = stored.result, stored.manifest
    say(f"{stored.run_id}  {result.status}  {show.where(stored)}")
    if stand_ins := emulations([stored]):
        say(stand_in_text(stand_ins))
    for cut in result.resumed:
        say(f"RESUMED after {cut.after_step}: {cut.kept_steps} earlier steps reused")
    if manifest:
        engine = manifest.engine
        say(f"engine   {engine.name} {engine.version} ({engine.source})", hanging=9)
        for tier in manifest.tiers:
            say(f"tier     {tier.name}: {_tier_text(tier)}", hanging=9)
    spec = stored.spec
    params = spec.params if verbose else set_params(spec)
    say(f"workload {spec.workload} by {spec.driver}: {_params_text(params)}", hanging=9)
    if result.data_bytes is not None and result.memory_bytes:
        ratio = result.data_bytes / result.memory_bytes
        say(f"data     {format_bytes(result.data_bytes)}: {ratio:.2g} × memory", hanging=9)
    if spec.workload == MICRO:
        print_figures(result.metrics)
    else:
        _print_metrics(result.metrics)
    for warning in result.uncontrolled:
        say(f"warning  {warning}", hanging=9)
    passed = sum(check.status == "passed" for check in result.checks)
    say(f"checks   {passed} of {len(result.checks)} passed", hanging=9)
    for line in show.problems(result):
        say(line)
    if result.error:
        print(result.error.traceback, end="")


def _print_metrics(metrics: Iterable[Metric]) -> None:
    print_table(
        ("metric", "labels", "value"),
        [
            (m.name, " ".join(f"{k}={label_text(v)}" for k, v in m.labels.items()), text)
            for m in metrics
            if m.better != "none" or m.name.startswith(_OPERATIONS)
            if (text := _value(m))
        ],
    )


#: Prefixes of counts of operations.
_OPERATIONS = ("transaction_", "operation_", "journal_")


def _tier_text(tier: TierRecord) -> str:
    facts = tier.facts
    device = f" on {facts.device}" if facts.device else ""
    dax = f", {'DAX' if facts.dax else 'no DAX'}" if facts.dax is not None else ""
    return f"{tier.kind}, {facts.filesystem}{device}{dax}"


def _params_text(params: JsonObject) -> str:
    """``warehouses 1, users 4, ramp_up 5s, …``: parameters that have a value."""
    return ", ".join(
        f"{name} {show.parameter_text(value, ',')}"
        for name, value in params.items()
        if value is not None
    )


def _value(metric: Metric) -> str:
    """With its unit; of samples their median, of a histogram some percentiles."""
    if metric.hdr is not None:
        times = hdr.decode(metric.hdr)
        shares = [share for share in (50.0, 95.0, 99.0) if times.total >= hdr.fewest(share)]
        pairs = zip(shares, times.percentiles(shares), strict=True)
        return ", ".join(f"p{share:g} {format_ns(time_ns)}" for share, time_ns in pairs) or "–"
    if (value := metric.median) is None:
        return ""
    several = f", median of {len(metric.samples)}" if metric.samples else ""
    if metric.unit == "ns":
        return format_ns(value) + several
    unit = "" if metric.unit == "1" else f" {metric.unit}"
    return (f"{value:,.0f}{unit}" if abs(value) >= 1000 else f"{value:g}{unit}") + several


@app.command("rm")
def rm(
    runs: Annotated[list[str] | None, typer.Argument(help="Complete run ids.")] = None,
    unfinished: Annotated[
        bool,
        typer.Option("--unfinished", help="All unfinished runs that no process works on."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed.")
    ] = False,
    results: ResultsOption = None,
) -> None:
    """Remove runs."""
    where = store(results)
    targets = [where.directory(run_id) for run_id in dict.fromkeys(runs or [])]
    if unfinished:
        ended = [path for path in where.unfinished() if not under_way(path)]
        targets += [path for path in ended if path not in targets]
    if not targets and not unfinished:
        raise UsageError("runs rm", "no run is named", "name runs, or pass --unfinished")
    for target in targets:
        say(f"remove {target}", file=sys.stderr)
    if dry_run or not targets:
        return
    confirm(f"remove {len(targets)} runs permanently", yes)
    for target in targets:
        where.remove(target)


app.command("export")(export)


@app.command("sql")
def sql(
    query: Annotated[
        str,
        typer.Argument(help="A SELECT over runs, metrics, samples, histograms and series."),
    ],
    runs: SelectorArgument = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Query runs by SQL (DuckDB); labels and parameters are columns."""
    import duckdb

    from harness.store.tables import TABLES, database, refuse_files

    needed = [table for table in TABLES if re.search(rf"\b{table}\b", query, re.IGNORECASE)]
    with database(finished_runs(store(results), runs, "runs sql"), needed) as connection:
        refuse_files(connection)
        try:
            answer = connection.execute(query)
            names = [column[0] for column in answer.description or ()]
            rows = answer.fetchall()
        except duckdb.Error as error:
            hint = "DESCRIBE metrics lists a table's columns (docs/results.md)"
            raise UsageError("runs sql", str(error), hint) from error
    if json_:
        print_json({"columns": names, "rows": [list(map(_json, row)) for row in rows]})
    else:
        print_table(names, [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> str:
    """Return a value as text: numbers with four digits, no value as a dash."""
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _json(value: object) -> object:
    """Return a value as JSON has it: decimal numbers as numbers, and what is no number as null."""
    value = float(value) if isinstance(value, Decimal) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@app.command("import")
def import_(
    source: Annotated[
        Path, typer.Argument(help="A .tar.gz of harness runs export, or a results directory.")
    ],
    origin: Annotated[
        str,
        typer.Option(
            "--from", metavar="HOST", help="Host of origin, added to a run id that is taken."
        ),
    ] = "elsewhere",
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Largest unpacked size [64 MiB, or 100 × the archive].",
        ),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Import runs; existing runs stay."""
    from harness.models.score import ScoreStore
    from harness.store.calibrations import CalibrationStore, CanaryStore
    from harness.store.transfer import import_runs

    limit_bytes = parse_size(max_size) if max_size is not None else None
    where = store(results)
    done = import_runs(source, where, origin, limit_bytes)
    # A comparison of hosts rests on the noise of each, and its models on their scores there.
    stores = (ScoreStore(where.root), CalibrationStore(where.root), CanaryStore(where.root))
    documents = {of.place: len(of.take_over(source)) for of in stores} if source.is_dir() else {}
    if json_:
        new = [stored.run_id for stored in done.new]
        print_json({"imported": new, "known": list(done.present), "documents": documents})
        return
    say(f"{len(done.new)} runs imported, {len(done.present)} already present")
    for place, count in documents.items():
        if count:
            say(f"  {count} in {place}")
    for stored in done.new:
        say(f"  {stored.run_id}  {stored.result.status}")
