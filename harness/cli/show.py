"""Print finished runs, and derive the exit status."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import typer

from harness import hdr, paths
from harness.cli.common import UNNAMED, given, print_json
from harness.errors import UsageError
from harness.execution.run_list import last_attempts
from harness.metrics import load_of, metrics, workload_info
from harness.store.documents import as_json
from harness.store.result import Metric, RunResult, label_text
from harness.store.runs import StoredRun
from harness.store.spec import canonical_json
from harness.terminal import print_table, say, say_command
from harness.units import counted, format_ns


def runs(finished: Sequence[StoredRun], json_: bool) -> None:
    """Print each run with its headline, or all as JSON."""
    if json_:
        print_json(as_document(finished))
        return
    _print_answers(finished)
    _print_headlines(finished)
    if len({stored.spec.driver for stored in finished}) > 1:
        agreement(finished)
    runs_of: dict[str, list[str]] = {}
    for stored in finished:
        for line in problems(stored.result):
            runs_of.setdefault(line, []).append(stored.run_id)
    for line, (first, *others) in runs_of.items():
        more = f" and {counted(len(others), 'other run')}" if others else ""
        say(f"{first}{more}: {line}")


def as_document(finished: Sequence[StoredRun]) -> dict[str, Any]:
    """Return the runs, and the answers of workloads that have one."""
    document: dict[str, Any] = {"runs": [stored.document for stored in finished]}
    if answers := _workload_answers(finished):
        document["answers"] = as_json(answers)
    return document


def _workload_answers(finished: Sequence[StoredRun]) -> Sequence[Any]:
    """Return the answers of workloads that have one; none of runs that are not comparable."""
    if not any(workload_info(stored.spec.workload).answer for stored in finished):
        return []
    from reports.report import Report  # reports are loaded where they are needed

    with suppress(UsageError):
        return Report(finished).workload_answers
    return []


def _print_answers(finished: Sequence[StoredRun]) -> None:
    """Print each verdict, its cause and what was not controlled, where something is compared.

    Where only a parameter varies, print the command that draws the results over it.
    """
    usable = [stored for stored in finished if stored.result.status != "failed"]
    if not usable:
        return
    root = usable[0].results
    is_default = root.resolve() == paths.results_root(None).resolve()
    results = given(None if is_default else root)
    following = f"harness report -e {shlex.quote(_experiment(usable[0]))}{results}"
    if len({(stored.spec.where, stored.spec.label) for stored in usable}) > 1:
        from reports.page import print_blocks  # reports are loaded where they are needed
        from reports.report import Report

        with suppress(UsageError):  # runs that are not comparable
            print_blocks(Report(usable).answer_blocks(following))
        return
    for answer in _workload_answers(usable):
        say(answer.text)
    if len({canonical_json(stored.spec.params) for stored in usable}) > 1:
        say("Next:")
        say_command(following)


def _experiment(stored: StoredRun) -> str:
    """The runs of this command, as --experiment selects them: unnamed ones by their plan's hash."""
    entry = stored.head.experiment
    return f"{entry.name}@{entry.hash}" if entry.name == UNNAMED else entry.name


def problems(result: RunResult) -> Iterator[str]:
    """The error of a run, and its checks that did not pass."""
    if error := result.error:
        yield f"error: {error}\n  {error.hint}"
    for check in result.checks:
        if check.status != "passed":
            yield f"{check.name} {' '.join(check.labels.values())} {check.status}: {check.detail}"


def parameter_text(value: Any, separator: str = " ") -> str:
    """A parameter's value: booleans as yes and no, lists with their items separated."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return separator.join(map(str, value)) if isinstance(value, list) else str(value)


def value_text(metric: str, value: float) -> str:
    """A time with its unit; anything else as a number."""
    return format_ns(value) if metric.endswith("_ns") else number_text(value)


def number_text(value: float) -> str:
    """A whole number; three digits of a small one, such as 2.4 operations/s."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _print_headlines(finished: Sequence[StoredRun]) -> None:
    """Print one row a run, with a column for each result that one of them has."""
    headlines = [
        {**varied, **_headline(stored)}
        for varied, stored in zip(_varied(finished), finished, strict=True)
    ]
    columns = list(dict.fromkeys(name for cells in headlines for name in cells))
    print_table(
        ("run", "status", *columns, "note"),
        [
            (
                stored.run_id,
                stored.result.status,
                *(cells.get(c, "") for c in columns),
                _note(stored),
            )
            for stored, cells in zip(finished, headlines, strict=True)
        ],
    )


def _varied(finished: Sequence[StoredRun]) -> list[dict[str, str]]:
    """Column to text of each run: the facts by which the runs differ, of arms their names."""
    from reports.labels import distinguishing, parameter_words, readable
    from reports.run_configuration import spec_facts

    sets = [spec_facts(stored) for stored in finished]
    arms = {facts.get("arm") for facts in sets}
    if len(arms) > 1:  # what an arm is set to is named with its verdict
        pairs = {
            name: {(facts.get("arm"), facts.get(name)) for facts in sets}
            for name in {name for facts in sets for name in facts} - {"arm"}
        }
        of_arm = {name for name, values in pairs.items() if len(values) == len(arms)}
        sets = [{n: value for n, value in facts.items() if n not in of_arm} for facts in sets]
    columns = distinguishing(sets)
    return [
        {parameter_words(fact): readable(facts.get(fact)) for fact in columns} for facts in sets
    ]


def _headline(stored: StoredRun) -> dict[str, str]:
    """Column to text: times of queries, or rates and times of operations."""
    result = stored.result
    cells = {
        info.short: value_text(name, value)
        for name, info in metrics().items()
        if info.short and (value := result.value(name)) is not None
    } | _p95s(stored)
    for column, names in workload_info(stored.spec.workload).checks.items():
        checks = [check for check in result.checks if check.name in names]
        if checks:
            passed = sum(check.status == "passed" for check in checks)
            cells[column] = f"{passed}/{len(checks)} right"
    return cells


def _p95s(stored: StoredRun) -> dict[str, str]:
    """``{"new order p95": "21.2 ms"}``: of the load's main operation, or of all operations."""
    cells: dict[str, str] = {}
    load = load_of(stored.spec.workload, stored.spec.params)
    if load is None:
        return cells
    for metric in stored.result.metrics:
        operation = str(metric.labels.get(load.noun, ""))
        if metric.name != load.durations or metric.hdr is None or not operation:
            continue
        if load.main and operation != load.main:
            continue
        if (times := hdr.decode(metric.hdr)).total >= hdr.fewest(95.0):
            cells[f"{operation.replace('_', ' ')} p95"] = format_ns(times.percentile(95.0))
    return cells


def agreement(finished: Sequence[StoredRun]) -> None:
    """Print how far drivers agree that offered the same load."""
    from reports.agreement import agreements, driven_by_several
    from reports.formatting import verdict_text

    for pair in agreements(driven_by_several([r for r in finished if r.result.status != "failed"])):
        a, b = pair.group.a.marked_name, pair.group.b.marked_name
        verdict = verdict_text(pair.row.verdict)
        say(f"{pair.where}: {b} has {pair.ratio:.3g}x of {a} in {pair.row.title}: {verdict}")
        for spread in pair.spreads:
            say(f"  {spread.title}, {spread.rows} rows: {spread.low:.3g}x to {spread.high:.3g}x")


def _note(stored: StoredRun) -> str:
    from reports.formatting import stand_in_text  # reports are loaded where they are needed
    from reports.run_configuration import stand_ins

    notes = list(filter(None, [stand_in_text(stand_ins(stored))]))
    if stored.spec.plant:
        notes.append(stored.spec.planted_mark)
    if any(warning.code == "offered-rate-not-reached" for warning in stored.result.uncontrolled):
        notes.append("rate not kept")
    return "; ".join(notes + (["resumed"] if stored.head.resumed else []))


def exit_for(finished: Sequence[StoredRun]) -> None:
    """Exit 1 when the last attempt at a run failed, or a check in any; *unknown* is no failure."""
    wrong = any(check.status == "failed" for run in finished for check in run.result.checks)
    if wrong or any(run.result.status == "failed" for run in last_attempts(finished)):
        raise typer.Exit(1)


def where(stored: StoredRun) -> str:
    """Engine and place of a run, for tables."""
    spec = stored.spec
    return f"{spec.engine} {spec.where}"


_WHOLE = "operation_duration_ns"
_PERCENTILES = "p50, p99.9, max"
#: Of the calls that one operation consists of, each for itself.
_OF_PARTS = f"of each call: {_PERCENTILES}"
#: Labels that a configuration's name may lack, or have as requested only (``auto``).
_AS_DONE = ("sync", "direct")


def print_figures(measured: Iterable[Metric]) -> None:
    """Print the figures of a run."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for metric in (metric for metric in measured if metric.better != "none"):
        labels = {name: label_text(label) for name, label in metric.labels.items()}
        if cell := _cell(metric):
            column, text = cell
            row = rows.setdefault((_title(metric.name, labels), labels.get("job", "")), {})
            row[column] = f"{row[column]}\n{text}" if column in row else text
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    several = any(job for _, job in rows)
    print_table(
        ("configuration", *(("job",) if several else ()), *columns),
        [
            (name, *((job,) if several else ()), *(row.get(column, "") for column in columns))
            for (name, job), row in rows.items()
        ],
    )


def _title(metric: str, labels: Mapping[str, str]) -> str:
    """The configuration; after it what was done and its name does not say.

    ``wal/access=4096,sync=dsync,direct=auto (direct=yes)``.
    """
    name = labels.get("configuration", metric)
    named = name.partition("/")[2].split(",")
    stated = (f"{key}={labels[key]}" for key in _AS_DONE if labels.get(key, "none") != "none")
    details = ", ".join(word for word in stated if word not in named)
    if "mix" in labels and "chain" in labels:  # a chain of the mix by itself
        details = labels["chain"]
    return f"{name} ({details})" if details else name


def _cell(metric: Metric) -> tuple[str, str] | None:
    """Return the column and the text of a metric."""
    name = metric.name
    if metric.hdr is not None:
        return _percentiles(name, hdr.decode(metric.hdr))
    value = metric.median or 0.0
    if metric.unit == "B/s":
        return "GB/s", f"{value / 1e9:.3g}"
    if metric.unit == "ns":
        return name.removesuffix("_ns").replace("_", " "), format_ns(value)
    if (info := metrics().get(name)) and info.short:
        return info.short, f"{value:,.0f}"
    return name.replace("_", " "), f"{value:,.4g}"


def _percentiles(name: str, times: hdr.Histogram) -> tuple[str, str] | None:
    """Name the percentiles' column: those of a part stand apart from those of the whole."""
    if not times.total:
        return None
    p50, p999 = times.percentiles([50.0, 99.9])
    tail = format_ns(p999) if times.total >= hdr.fewest(99.9) else "—"  # too few operations
    text = f"{format_ns(p50)}, {tail}, {format_ns(times.max)}"
    if name == _WHOLE:
        return _PERCENTILES, text
    return _OF_PARTS, f"{name.removesuffix('_duration_ns').replace('_', ' ')} {text}"
