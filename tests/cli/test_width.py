"""Output of commands at 80 columns: no line is longer, and no name is cut."""

import re
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
    ["runs", "sql", "SELECT run_id, placement, value FROM metrics JOIN runs USING (run_id)"],
    ["runs", "export"],
]
#: Commands that draw charts, on the stored example alone: all runs of the session take a minute.
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
def golden(loaded: Any) -> Any:
    """Return the session's results, with the runs of the stored example."""
    unpack(loaded.results)
    return loaded


def unpack(results: Path) -> None:
    with tarfile.open(RUNS) as archive:
        archive.extractall(results, filter="data")


@pytest.mark.parametrize("argv", ON_RUNS, ids=" ".join)
def test_pages_of_runs_fit_80_columns(golden: Any, argv: list[str]) -> None:
    done = golden(*argv, COLUMNS="80")
    assert done.code == 0, done.err
    assert too_long(done.out) == []


@pytest.mark.parametrize("command", DRAWN)
def test_drawn_pages_of_the_example_fit_80_columns(
    loaded: Any, tmp_path: Path, command: str
) -> None:
    unpack(tmp_path)
    done = loaded(*command.split(), COLUMNS="80", HARNESS_RESULTS=str(tmp_path))
    assert done.code == 0, done.err
    assert done.out and too_long(done.out) == []


@pytest.mark.parametrize("command", ON_THE_HOST)
def test_pages_of_the_host_fit_80_columns(loaded: Any, command: str) -> None:
    done = loaded(*command.split(), COLUMNS="80")
    assert done.code == 0, done.err
    assert done.out and too_long(done.out + done.err) == []


def test_each_run_is_shown_within_80_columns_and_under_its_whole_name(golden: Any) -> None:
    listed = golden("runs", "list", COLUMNS="80").out.split()
    runs = golden("runs", "list", "--json").json["runs"]
    kinds = {(run["spec"]["workload"], run["spec"]["engine"]): run for run in runs}
    for run in kinds.values():
        shown = golden("runs", "show", run["run_id"], COLUMNS="80").out
        assert run["run_id"] in listed and run["run_id"] in shown.split()
        assert run["experiment"]["name"] in re.findall(r"[\w.@-]+", " ".join(listed))
        assert too_long(shown.partition("Traceback")[0]) == []


def test_names_are_whole_in_tables(golden: Any) -> None:
    for argv, key in ((["model", "list"], "models"), (["micro", "list"], "suites")):
        words = golden(*argv, COLUMNS="80").out.split()
        assert all(entry["name"] in words for entry in golden(*argv, "--json").json[key])


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_refusals_fit_80_columns(loaded: Any, argv: list[str]) -> None:
    done = loaded(*argv, COLUMNS="80")
    assert done.code == 2
    assert too_long(done.err) == []
