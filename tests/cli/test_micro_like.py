"""``harness run micro --like RUN`` with the real fio, of a run whose trace is made up."""

from __future__ import annotations

import json

import pytest
from example_run import SPEC, result

from harness.iotrace.page import CELL_FIELDS
from harness.store.runs import Store

CELL = dict.fromkeys(CELL_FIELDS, 0) | {"role": "foreground"}
OPERATIONS = [
    {"part": "data", "operation": "read", "calls": 90, "bytes": 90 * 8192, "ns": 9_000_000,
     "sizes": {"8192": 90}},
    {"part": "wal", "operation": "write", "calls": 60, "bytes": 60 * 5000, "ns": 600_000,
     "sizes": {"4096": 20, "8192": 40}},
    {"part": "wal", "operation": "sync", "calls": 40, "bytes": 0, "ns": 20_000_000, "sizes": {}},
    {"part": "data", "operation": "write", "calls": 30, "bytes": 30 * 16384, "ns": 300_000,
     "sizes": {"16384": 30}, "role": "background", "direct": 30},
]  # fmt: skip


@pytest.fixture(scope="module")
def traced(loaded):
    """The id of a run whose window lasted a second."""
    with_trace = [
        dict.fromkeys(CELL_FIELDS, 0) | CELL | {"timed": one["calls"]} | one for one in OPERATIONS
    ]
    window = {"name": "window_duration_ns", "unit": "ns", "better": "none", "labels": {}}
    writer = Store(loaded.results).begin(SPEC)
    writer.write_spec(SPEC)
    writer.write_artifact("io-operations", with_trace)
    stored = writer.finish(
        result(writer) | {"data_bytes": 32 << 20, "metrics": [window | {"value": 10**9}]}
    )
    writer.close()
    return stored.run_id


def like(harness, run, *argv):
    return harness("run", "micro", "--like", run, "--tier", "ssd", *argv)


def test_fio_makes_the_calls_of_the_trace(loaded, traced):
    done = like(loaded, traced, "--duration", "1s", "-p", "size=64MiB", "--json", "-q")
    run = done.run
    assert run["status"] == "complete"
    assert run["spec"]["params"]["like"] == traced
    durations = {
        tuple(metric["labels"][label] for label in ("part", "operation", "role"))
        for metric in run["metrics"]
        if metric["name"] == "io_like_duration_ns"
    }
    assert durations == {
        ("data", "read", "foreground"),
        ("wal", "write", "foreground"),
        ("wal", "sync", "foreground"),
        ("data", "write", "background"),
    }
    assert not [one for one in run["uncontrolled"] if one["code"].startswith("like-")]
    path = loaded.results / "runs" / run["run_id"] / "artifacts" / "like.json"
    executed = {
        (one["part"], one["operation"]): (one["calls"], one["bytes"])
        for one in json.loads(path.read_text())["executed"]
    }
    for one in OPERATIONS:
        assert executed[one["part"], one["operation"]] == (one["calls"], one["bytes"])
    assert loaded.settled() == []


def test_the_derived_suite_is_shown_and_nothing_is_run(loaded, traced):
    before = set(loaded.results.glob("runs/*"))
    done = like(loaded, traced, "--dry-run", "--json")
    assert done.code == 0, done.err
    (plan,) = done.json["plan"]
    assert plan["program"] == "like"
    jobs = {(job["part"], job["role"], job["direct"]) for job in plan["details"]["jobs"]}
    assert jobs == {
        ("data", "foreground", False),
        ("wal", "foreground", False),
        ("data", "background", True),
    }
    assert set(loaded.results.glob("runs/*")) == before


@pytest.mark.parametrize(
    "argv",
    [
        ("--like", "no-such-run", "--tier", "ssd"),
        ("--like", "{run}", "--tier", "dram"),
        ("--like", "{run}", "--tier", "ssd", "-p", "size=1MiB"),
        ("--like", "{run}", "--tier", "ssd", "--suite", "quick"),
    ],
)
def test_what_cannot_be_replayed_is_refused(loaded, traced, argv):
    done = loaded("run", "micro", *(text.format(run=traced) for text in argv), "--dry-run")
    assert done.code == 2, done.out + done.err
