"""An interrupted run is resumed where it was: the real command, ended by signals."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from harness.jsonfile import parse_log_line
from harness.store.checkpoint import Attempt, Checkpoint

POWER = ["run", "tpch", "--scale", "0.01", "--test", "power", "--no-plans",
         "--placement", "ssd-both"]  # fmt: skip
#: RF1, 22 queries, RF2.
POWER_STEPS = 24
QUERIES = ["run", "tpch", "--scale", "0.01", "--queries", "6,14,1,4", "--no-plans",
           "--placement", "ssd-both", "--engine", "duckdb", "--cache", "warm"]  # fmt: skip

#: The command, which waits for a signal instead of recording one more finished step.
_HELD = """
import pathlib, signal
from harness.store.checkpoint import Checkpoint

finish = Checkpoint.finish

def wait_or_finish(checkpoint, *step, **noted):
    if len(checkpoint.finished) == {count}:
        pathlib.Path("held").touch()
        signal.pause()
    finish(checkpoint, *step, **noted)

Checkpoint.finish = wait_or_finish
"""


def steps(harness) -> dict[str, dict]:
    """The whole lines with a step of the newest run that has steps, by step."""
    files = sorted((harness.results / "runs").glob("*/steps.jsonl"))
    # A complete run has none: it removes them behind its result, or was killed in between.
    left = [file for file in files if not complete(file.parent)]
    try:
        lines = left[-1].read_text().splitlines(keepends=True) if left else []
    except FileNotFoundError:  # it was completed meanwhile
        return {}
    whole = [parse_log_line(line.encode()) for line in lines if line.endswith("\n")]
    entries = [line for line in whole if "step" in line]
    assert len({line["step"] for line in entries}) == len(entries), "a step was measured twice"
    return {line["step"]: line["document"] for line in entries}


def complete(run: Path) -> bool:
    """Return whether the run in a directory went to its end."""
    try:
        return json.loads((run / "run.json").read_text())["error"] is None
    except FileNotFoundError:
        return False


def complete_runs(harness) -> set[str]:
    """Names of all runs that did."""
    return {run.name for run in (harness.results / "runs").glob("*") if complete(run)}


def start_and_await(harness, argv, count):
    """The command, when it has so many steps finished (or has ended)."""
    process = harness.start(*argv)
    while process.poll() is None and len(steps(harness)) < count:
        time.sleep(0.01)
    return process


def cut_off(harness, argv, count, number=signal.SIGKILL):
    """End the command by a signal after ``count`` steps; return what it leaves."""
    marker = harness.root / "held"
    process = harness.start(*argv, first=_HELD.format(count=count))
    while not marker.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    marker.unlink()
    done = harness.interrupt(process, number)
    assert harness.settled() == []
    assert len(steps(harness)) == count
    return done


def durations(run) -> dict[str, int]:
    """Times of a finished run by the step that they were measured in."""
    queries = {
        f"q{m['labels']['query']}": m["value"]
        for m in run["metrics"]
        if m["name"] == "query_duration_ns" and "stream" not in m["labels"]
    }
    refresh = {
        f"{m['labels']['function'].lower()}-{m['labels']['pair']}": m["value"]
        for m in run["metrics"]
        if m["name"] == "refresh_duration_ns"
    }
    return queries | refresh


def unfinished(harness) -> set[str]:
    """Runs without a result, as the command lists them (other tests' failures among them)."""
    return set(harness("runs", "list", "--json").json["unfinished"])


def times(documents) -> dict[str, int]:
    """The times in kept steps."""
    refresh = {s: d["ended_ns"] - d["submitted_ns"] for s, d in documents.items() if "commits" in d}
    return refresh | {s: d["duration_ns"] for s, d in documents.items() if "duration_ns" in d}


@pytest.fixture(autouse=True)
def no_steps_of_other_tests(loaded):
    """Runs that other tests made fail have kept theirs."""
    for file in (loaded.results / "runs").glob("*/steps.jsonl"):
        file.unlink()


@pytest.fixture(scope="module")
def references(loaded):
    """DuckDB cannot vouch for itself: PostgreSQL has given the same answers before it runs."""
    done = loaded(*POWER, "--engine", "postgres", "--cache", "warm", "--again", "--json")
    assert done.run["status"] == "complete"
    return loaded


def test_kill_9_of_a_power_run_loses_no_finished_query(references):
    """HARNESS_TEST_KILLS=N: that many kills (one here, for time)."""
    harness = references
    argv = [*POWER, "--engine", "duckdb", "--cache", "cold-per-query"]
    draw = random.Random("power")
    finished: dict[str, dict] = {}
    for kill in range(int(os.environ.get("HARNESS_TEST_KILLS", "1"))):
        before = complete_runs(harness)
        process = start_and_await(
            harness, argv, min(len(finished) + draw.randint(0, 6), POWER_STEPS)
        )
        time.sleep(draw.uniform(0, 1))
        process.kill()
        process.communicate()
        assert harness.settled() == [], f"kill {kill}"
        if complete_runs(harness) != before:  # it was finished before it was killed
            finished = {}
            continue
        documents = steps(harness)
        assert finished.items() <= documents.items(), (
            f"kill {kill} lost or changed what was finished"
        )
        finished = documents
    done = harness(*argv, "--json")
    run = done.run
    assert run["status"] == "complete", [c for c in run["checks"] if c["status"] != "passed"]
    measured = durations(run)
    assert len(measured) == POWER_STEPS
    assert times(finished).items() <= measured.items()
    if finished:
        assert run["resumed"][-1]["kept_steps"] == len(finished)
    if "data-check" not in finished and finished:
        assert f"{sum(s.startswith('q') for s in finished)} of 22 " in done.err
    names = {check["name"] for check in run["checks"]}
    assert {"answer", "refresh_rows", "refresh_totals"} <= names
    # Each cold start is there, whichever sitting it was in.
    assert set(measured) <= {entry["label"] for entry in run["residency"]}
    assert steps(harness) == {}


def test_ctrl_c_keeps_finished_steps_and_says_how_to_go_on_or_discard_them(loaded):
    before = unfinished(loaded)
    done = cut_off(loaded, QUERIES, 3, signal.SIGINT)
    assert done.code == 130, done.err
    assert "3 finished steps" in done.err and "harness runs rm --unfinished" in done.err
    (run_id,) = unfinished(loaded) - before
    assert "3 steps retained" in loaded("runs", "list").out
    assert loaded("runs", "rm", "--unfinished", "--yes").code == 0
    assert not (loaded.results / "runs" / run_id).exists()


@pytest.mark.parametrize(
    ("suite", "more"),
    [
        ("quick", ["--tier", "dram", "-p", "only=chase,random", "-p", "range=16MiB",
                   "-p", "pages=base", "--duration", "50ms", "--warm-up", "1ms"]),
        ("ioping", ["--tier", "ssd", "-p", "requests=10", "-p", "working_set=1MiB"]),
    ],
)  # fmt: skip
def test_a_suite_is_resumed_after_its_finished_configurations(loaded, suite, more):
    before = unfinished(loaded)
    argv = ["run", "micro", "--suite", suite, *more]
    cut_off(loaded, argv, 3)
    finished = steps(loaded)
    done = loaded(*argv, "--json")
    (run,) = done.json["runs"]
    assert [resumption["kept_steps"] for resumption in run["resumed"]] == [3], done.err
    assert unfinished(loaded) == before
    if suite == "quick":
        artifact = loaded.results / "runs" / run["run_id"] / "artifacts" / "microbench.json"
        stored = json.loads(artifact.read_text())
        measured = stored["result"]["measurements"]
        names = [measurement["name"] for measurement in stored["spec"]["measurements"]]
        assert [measurement["name"] for measurement in measured] == names and len(names) > len(
            finished
        )
        assert all(document["measurements"][0] in measured for document in finished.values())
    else:
        means = [m["samples"] for m in run["metrics"] if m["name"].startswith("operation_mean")]
        assert all([sum(times) / len(times)] in means for times in finished.values())


def test_another_condition_or_again_starts_anew(loaded):
    cut_off(loaded, QUERIES, 3)
    files = (loaded.results / "runs").glob("*/steps.jsonl")
    (file,) = [file for file in files if not complete(file.parent)]
    first, *rest = file.read_text().splitlines(keepends=True)
    attempt = parse_log_line(first.encode())["attempt"]
    file.unlink()
    changed = Checkpoint.create(file.parent)
    conditions = {**attempt["conditions"], "kernel": "2.6.32"}
    changed.begin(Attempt(attempt["run_id"], attempt["unix_ns"], conditions))
    changed.close()
    with file.open("a") as stream:
        stream.writelines(rest)
    run = loaded(*QUERIES, "--json").run
    assert run["run_id"] != file.parent.name and run["resumed"] == []
    assert loaded(*QUERIES, "--again", "--json").run["resumed"] == []
    assert loaded("runs", "rm", "--unfinished", "--yes").code == 0
