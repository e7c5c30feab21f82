"""Output of commands at 80 columns: no line is longer, and no name is cut."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
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
    ["runs", "sql", "SELECT run_id, placement, value FROM metrics JOIN runs USING (run_id)"],
    ["runs", "export"],
]
#: Commands that draw charts.
DRAWN = ["report -o page", "card -o page"]
ON_THE_HOST = [
    "doctor",
    "data list",
    "engines list",
    "host modes",
    "micro show device-card",
    "model show optane-p4800x",
    "experiment list",
    "experiment run demo --dry-run --emulate pmem",
    "run micro --suite device-card --tier dram --dry-run",
    "paper nvm-for-databases fig4 --dry-run",
    "advise tpcc --engine postgres --to pmem --emulate pmem --dry-run",
    "curve tpcc --engine postgres --dry-run",
    "run tpcc --engine postgres --placement ssd-both --users 1,4 --dry-run",
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


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with the runs of the stored example."""
    results = tmp_path_factory.mktemp("example")
    subprocess.run(["tar", "-xf", RUNS, "-C", results], check=True)
    return results


@pytest.fixture(scope="module")
def every_kind(loaded: Any, example: Path) -> Callable[..., Any]:
    """``harness`` with the results of the example and the session's newest run of each kind."""
    results = example.with_name(f"{example.name}-and-session")
    shutil.copytree(example, results)
    for run in kinds(loaded).values():
        shutil.copytree(loaded.results / "runs" / run["run_id"], results / "runs" / run["run_id"])
    return partial(loaded, HARNESS_RESULTS=str(results))


def kinds(harness: Callable[..., Any]) -> dict[tuple[str, str], Any]:
    """The newest run of each workload and engine."""
    runs = harness("runs", "list", "--json").json["runs"]
    return {(run["spec"]["workload"], run["spec"]["engine"]): run for run in runs}


@pytest.mark.parametrize("argv", ON_RUNS, ids=" ".join)
def test_pages_of_runs_fit_80_columns(every_kind: Callable[..., Any], argv: list[str]) -> None:
    done = every_kind(*argv, COLUMNS="80")
    assert done.code == 0, done.err
    assert too_long(done.out) == []


@pytest.mark.parametrize("command", DRAWN)
def test_drawn_pages_of_the_example_fit_80_columns(
    loaded: Any, example: Path, command: str
) -> None:
    done = loaded(*command.split(), COLUMNS="80", HARNESS_RESULTS=str(example))
    assert done.code == 0, done.err
    assert done.out and too_long(done.out) == []


@pytest.mark.parametrize("command", ON_THE_HOST)
def test_pages_of_the_host_fit_80_columns(loaded: Any, command: str) -> None:
    done = loaded(*command.split(), COLUMNS="80")
    assert done.code == 0, done.err
    assert done.out and too_long(done.out + done.err) == []


def test_each_run_is_shown_within_80_columns_and_under_its_whole_name(
    every_kind: Callable[..., Any],
) -> None:
    listed = every_kind("runs", "list", COLUMNS="80").out.split()
    for run in kinds(every_kind).values():
        shown = every_kind("runs", "show", run["run_id"], COLUMNS="80").out
        assert run["run_id"] in listed and run["run_id"] in shown.split()
        assert run["experiment"]["name"] in re.findall(r"[\w.@-]+", " ".join(listed))
        assert too_long(shown.partition("Traceback")[0]) == []


def test_names_are_whole_in_tables(loaded: Any) -> None:
    for argv, key in ((["model", "list"], "models"), (["micro", "list"], "suites")):
        words = loaded(*argv, COLUMNS="80").out.split()
        assert all(entry["name"] in words for entry in loaded(*argv, "--json").json[key])


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_refusals_fit_80_columns(loaded: Any, argv: list[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 2
    assert too_long(done.err) == []
