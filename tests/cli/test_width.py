"""What commands print at 80 columns: no line is longer, and no name is cut."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

RUNS = Path(__file__).parents[1] / "reports/golden/runs.tar.gz"
ON_RUNS = [
    ["runs", "list"],
    ["compare", "engine=duckdb,placement=ssd-both", "engine=duckdb,placement=pmem-both"],
    ["compare", "placement=ssd-both", "placement=pmem-both", "--all", "-v"],
    ["explain"],
    ["conclusions"],
    ["report", "-o", "page"],
    ["card", "-o", "page"],
    [
        "runs",
        "sql",
        "SELECT run_id, placement, metric, value FROM metrics JOIN runs USING (run_id)",
    ],
    ["runs", "export"],
]
#: What is refused, with a command to be copied.
REFUSED = [
    ["advise", "ycsb", "--engine", "rocksdb", "--records", "1000", "--budget", "1m"],
    ["run", "tpcc", "--placement", "ssd-both"],
    ["compare", "placement=ssd-both", "placement=nowhere"],
]


def too_long(text: str) -> list[str]:
    """The lines of more than 80 columns that have two words or more."""
    return [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]


@pytest.fixture
def golden(loaded: Any) -> Any:
    """The runs of the stored example."""
    with tarfile.open(RUNS) as archive:
        archive.extractall(loaded.results, filter="data")
    return loaded


@pytest.mark.parametrize("argv", ON_RUNS, ids=" ".join)
def test_pages_of_runs_fit_80_columns(golden: Any, argv: list[str]) -> None:
    done = golden(*argv, COLUMNS="80")
    assert done.code == 0, done.err
    assert too_long(done.out) == []


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_refusals_fit_80_columns(loaded: Any, argv: list[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 2
    assert too_long(done.err) == []
