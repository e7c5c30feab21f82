"""What commands print at 80 columns: no line is longer, and no name is cut."""

from __future__ import annotations

import re
import shlex
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness.terminal import wrap

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
ON_THE_HOST = [
    ["doctor"],
    ["data", "list"],
    ["engines", "list"],
    ["host", "modes"],
    ["micro", "suites"],
    ["micro", "show", "device-card"],
    ["model", "list"],
    ["model", "show", "optane-p4800x"],
    ["experiment", "list"],
    ["experiment", "run", "demo", "--dry-run", "--emulate", "pmem", "--skip-missing"],
    ["run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--dry-run"],
    ["run", "micro", "--suite", "device-card", "--tier", "dram", "--dry-run"],
    ["calibrate", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--dry-run"],
    ["paper", "nvm-for-databases", "fig4", "--dry-run"],
    ["advise", "tpcc", "--engine", "postgres", "--to", "pmem", "--emulate", "pmem", "--dry-run"],
    ["curve", "tpcc", "--engine", "postgres", "--dry-run"],
    [
        "run",
        "tpcc",
        "--engine",
        "postgres",
        "--placement",
        "ssd-both",
        "--users",
        "1,4",
        "--dry-run",
    ],
]
#: Runs of a second, and the columns of what varies.
_YCSB = ["run", "ycsb", "--engine", "rocksdb", "--records", "1000", "--operations", "2000"]
_PLACES = ["--placement", "ssd-both", "--placement", "pmem-both", "--emulate", "pmem"]
VARIED = [
    ([*_YCSB, *_PLACES, "--threads", "1,2"], {"placement", "threads"}),
    ([*_YCSB, *_PLACES[:2], "--arm", "a:", "--arm", "b:--workload b"], {"arm"}),
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


@pytest.mark.parametrize("argv", ON_THE_HOST, ids=" ".join)
def test_pages_of_the_host_fit_80_columns(loaded: Any, argv: list[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 0, done.err
    assert done.out and too_long(done.out + done.err) == []


def test_each_run_is_shown_within_80_columns_and_under_its_whole_name(golden: Any) -> None:
    listed = golden("runs", "list", COLUMNS="80").out.split()
    for run in golden("runs", "list", "--json").json["runs"]:
        shown = golden("runs", "show", run["run_id"], COLUMNS="80").out
        assert run["run_id"] in listed and run["run_id"] in shown.split()
        assert run["experiment"]["name"] in re.findall(r"[\w.@-]+", " ".join(listed))
        assert too_long(shown.partition("Traceback")[0]) == []


def test_names_are_whole_in_tables(golden: Any) -> None:
    for argv, key in ((["model", "list"], "models"), (["micro", "suites"], "suites")):
        words = golden(*argv, COLUMNS="80").out.split()
        assert all(one["name"] in words for one in golden(*argv, "--json").json[key])


def test_a_wide_terminal_has_a_row_on_each_line(golden: Any) -> None:
    rows = golden("runs", "list", COLUMNS="300").out.splitlines()
    ids = {run["run_id"] for run in golden("runs", "list", "--json").json["runs"]}
    assert {row.split()[0] for row in rows} > ids


def test_a_command_to_copy_goes_on_after_a_backslash(golden: Any) -> None:
    """More repeats, as the shell reads them."""
    lines = golden("explain", COLUMNS="80").out.splitlines()
    commands = [line for line in lines if line.startswith("  harness ")]
    assert commands and all(len(line) <= 80 for line in commands)


@pytest.mark.parametrize(("argv", "columns"), VARIED, ids=["placements", "arms"])
def test_runs_are_listed_with_what_varies(loaded: Any, argv: list[str], columns: set[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 0, done.err
    assert too_long(done.out + done.err) == []
    answer, _, table = done.out.partition("all rows:")
    assert columns <= set(re.findall(r"\w+", table))
    assert "arm" not in columns or "b (core workload b) against a" in " ".join(answer.split())


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_refusals_fit_80_columns(loaded: Any, argv: list[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 2
    assert too_long(done.err) == []


def test_a_command_in_a_sentence_goes_on_after_a_backslash() -> None:
    command = "harness run sql --name 'two words' --ramp-up 2s --duration 5s --users 1,2,4"
    lines = wrap(f"resume it: `{command}` keeps the complete runs", 40, "  ", "    ")
    assert max(map(len, lines)) <= 40
    copied = "\n".join(lines).split("`")[1].replace("\\\n", "")
    assert shlex.split(copied) == shlex.split(command)
