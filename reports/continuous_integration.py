"""Comparisons as tests of a continuous integration, and runs as files for Otava and Bencher."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import yaml

from harness.printable import printable
from harness.sequences import grouped
from harness.store.runs import StoredRun
from reports.compare import Comparison, Group
from reports.formatting import interval_text, times
from reports.labels import in_words
from reports.page import write_text
from reports.table_csv import inert
from reports.values import Quantity, duration_of, measured


@dataclass(frozen=True)
class Tested:
    """A test: a comparison, or what could not be compared. ``failure``: empty if it passes."""

    name: str
    failure: str
    finding: str


def tests_of(comparison: Comparison, above: float, inconclusive_fails: bool) -> list[Tested]:
    """Return a test for each comparison, and each series without a counterpart."""
    tests = []
    regressed, inconclusive = comparison.regressed(above), comparison.inconclusive(above)
    named = _named(comparison.groups)
    for (name, group), worse, is_open in zip(named, regressed, inconclusive, strict=True):
        why = ""
        if worse:
            why = f"worse by more than {above:.0%}: {_ratio(group)}"
        elif inconclusive_fails and is_open:
            why = f"inconclusive: {_ratio(group)}"
        tests.append(Tested(name, why, _ratio(group)))
    for series in comparison.unmatched:
        why = "not compared, without a counterpart"
        tests.append(Tested(series, why if inconclusive_fails else "", why))
    return tests


def tests_of_runs(failed: Mapping[str, str]) -> list[Tested]:
    """Return a test for each failed run, by its id; values say why it failed."""
    return [Tested(run_id, f"failed: {why}", "no result") for run_id, why in failed.items()]


def _named(groups: Collection[Group]) -> Iterator[tuple[str, Group]]:
    """Name each comparison: ``postgres, users 4: candidate against release``."""
    facts = {fact for group in groups for fact in group.context}
    apart = [f for f in facts if len({group.context.get(f) for group in groups}) > 1]
    for group in groups:
        words = (in_words(f, v) for f, v in group.context.items() if f in apart and f != "engine")
        where = ", ".join(filter(None, [group.context.get("engine", ""), *words]))
        yield f"{where}: {group.b.name} against {group.a.name}".removeprefix(": "), group


def _ratio(group: Group) -> str:
    row = group.deciding
    if row is None or row.estimate is None:
        return "no ratio"
    return f"{row.title} {times(row.estimate.value)} {interval_text(row.estimate)}"


def write_junit(path: Path, tests: Collection[Tested]) -> None:
    """Write a JUnit file; OSError where that cannot be."""
    suite = ElementTree.Element(
        "testsuite",
        name="harness compare",
        tests=str(len(tests)),
        failures=str(sum(bool(test.failure) for test in tests)),
    )
    for test in tests:
        case = ElementTree.SubElement(
            suite, "testcase", classname="harness.compare", name=test.name
        )
        if test.failure:
            ElementTree.SubElement(case, "failure", message=test.failure)
        ElementTree.SubElement(case, "system-out").text = test.finding
    declaration = '<?xml version="1.0" encoding="utf-8"?>\n'
    write_text(path, declaration + ElementTree.tostring(suite, encoding="unicode"))


# Apache Otava finds the points at which a metric changes -----------------------------------
#
# A CSV file for each series, with a row for each run, and the configuration that names them. Otava
# takes no empty cell, so a column is a metric that all runs of the series have. A run at a time
# limit has no totals, which would leave none to the others either: it is left out, as failed ones
# are.

_TIME = "time"
_ATTRIBUTES = ("run_id", "harness_version", "engine_version")
#: Otava's ``direction``.
_DIRECTIONS = {"higher": 1, "lower": -1}


def files(runs: Sequence[StoredRun], configuration: Path) -> dict[Path, str]:
    """The configuration and its CSV files, which lie next to it."""
    series = _series(runs)
    contents: dict[Path, str] = {}
    tests: dict[str, Any] = {}
    for name, series_runs in series.items():
        file = configuration.absolute().with_name(f"{name}.csv")
        values = [_values(run) for run in series_runs]
        shared = [q for q in values[0] if all(q in run_values for run_values in values)]
        contents[file] = _table(series_runs, values, shared)
        tests[name] = {
            "type": "csv",
            "file": str(file),
            "time_column": _TIME,
            "attributes": list(_ATTRIBUTES),
            "metrics": {
                _column(q): {"column": _column(q), "direction": values[0][q][1]} for q in shared
            },
        }
    text = yaml.safe_dump({"tests": tests}, sort_keys=False, allow_unicode=True)
    return contents | {configuration: text}


def bencher(runs: Sequence[StoredRun]) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics of each series in Bencher's format: the median of its runs, and their range."""
    document = {}
    for name, series_runs in _series(runs).items():
        values = [_values(run) for run in series_runs]
        document[name] = {
            _column(q): {
                "value": median(numbers),
                "lower_value": min(numbers),
                "upper_value": max(numbers),
            }
            for q in values[0]
            if all(q in run_values for run_values in values)
            for numbers in [[run_values[q][0] for run_values in values]]
        }
    return document


def _series(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    return grouped(
        (_name(run), run)
        for run in sorted(runs, key=lambda run: int(run.head.started_unix_ns))
        if run.head.status != "failed" and not any(duration_of(q.name) for q in measured(run))
    )


def _name(run: StoredRun) -> str:
    """``nightly.postgres.tpcc.ssd-both.1a2b3c``: what is the same in all runs of a series."""
    spec = run.spec
    place = spec.where.replace(",", "-").replace(" ", "-")
    same = sha256(f"{run.spec.series()} {run.host_id}".encode()).hexdigest()[:6]
    name = (run.result.experiment.name, spec.engine, spec.workload, place, same)
    return "".join(c if c.isprintable() and c != "/" else "-" for c in ".".join(name))


def _values(run: StoredRun) -> Mapping[Quantity, tuple[float, int]]:
    """Value and direction of each metric of which one direction is better."""
    return {
        quantity: (value.value, _DIRECTIONS[value.better])
        for quantity, value in measured(run).items()
        if value.value is not None and value.better in _DIRECTIONS
    }


def _column(quantity: Quantity) -> str:
    name = ".".join((quantity.name, *(f"{name}={value}" for name, value in quantity.labels)))
    return str(inert(printable(name)))


def _table(
    runs: Sequence[StoredRun],
    values: Sequence[Mapping[Quantity, tuple[float, int]]],
    shared: Sequence[Quantity],
) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((_TIME, *_ATTRIBUTES, *map(_column, shared)))
    for run, run_values in zip(runs, values, strict=True):
        began = datetime.fromtimestamp(run.result.started_unix_ns / 1e9, UTC)
        versions = (
            (run.manifest.harness.version, run.manifest.engine.version)
            if run.manifest
            else ("", "")
        )
        numbers = (f"{run_values[q][0]:.17g}" for q in shared)
        about = (f"{began:%Y-%m-%d %H:%M:%S %z}", run.run_id, *map(inert, versions))
        writer.writerow((*about, *numbers))
    return stream.getvalue()
