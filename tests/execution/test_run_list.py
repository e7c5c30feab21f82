"""Which runs of an interrupted command are not repeated; with a made-up store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from example_run import SPEC

from harness.execution.run_list import completed_before_interruption, newest_resumable
from harness.execution.run_record import ResumePolicy
from harness.experiment.placement import parse_placement
from harness.store.spec import RunSpec

SSD, PMEM, CXL = (
    RunSpec("tpch", "duckdb", parse_placement(f"{tier}-both"), dict(SPEC.params))
    for tier in ("ssd", "pmem", "cxl")
)
ENV: Any = SimpleNamespace(host={"host_id": "here"})


def run(
    second: int, spec: RunSpec, host: str = "here", status: str = "complete", name: str = "mine"
) -> Any:
    head = {"status": status, "spec_hash": spec.hash(), "host": {"host_id": host}}
    head["experiment"] = {"name": name}
    return SimpleNamespace(run_id=f"20261124T0000{second:02}Z-r", head=head)


def kept(runs: list[Any], interrupted: RunSpec | None) -> list[str]:
    store: Any = SimpleNamespace(runs=lambda: runs, interrupted=lambda spec: spec == interrupted)
    found = completed_before_interruption([SSD, PMEM, CXL], ENV, store, "mine")
    return [one.run_id[13:15] for own in found.values() for one in own]


@pytest.mark.parametrize(
    ("runs", "interrupted", "expected"),
    [
        ([run(1, SSD), run(2, PMEM)], CXL, ["01", "02"]),
        ([run(1, SSD), run(2, PMEM)], PMEM, []),  # the one of an earlier command is older
        ([run(1, SSD), run(2, PMEM), run(3, CXL)], None, []),  # each command measures
        ([run(1, SSD), run(2, PMEM), run(3, CXL)], SSD, []),
        ([run(1, SSD), run(2, PMEM), run(3, SSD)], PMEM, ["03"]),
        ([run(1, SSD, name="another"), run(2, PMEM)], CXL, ["02"]),
        ([run(1, SSD, host="there"), run(2, SSD, status="failed")], PMEM, []),
    ],
)
def test_runs_before_the_interrupted_one_are_kept(
    runs: list[Any], interrupted: RunSpec | None, expected: list[str]
) -> None:
    assert kept(runs, interrupted) == expected


def made_under(run_id: str, conditions: Any) -> Any:
    return SimpleNamespace(run_id=run_id, manifest={"conditions": conditions})


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"kernel": "6.1", "program": ["fio", 7]}, "b"),
        ({"kernel": "6.1", "program": ["fio", 6]}, "a"),
        ({"kernel": "6.1", "program": ["fio", 8]}, None),  # another build
        ({"kernel": "6.2", "program": ["fio", 7]}, None),
        (None, None),  # an external server
    ],
)
def test_a_finished_run_is_kept_where_an_interrupted_one_would_be_resumed(
    now: Any, expected: str | None
) -> None:
    runs = [
        made_under("a", {"kernel": "6.1", "program": ["fio", 6]}),
        made_under("b", {"kernel": "6.1", "program": ["fio", 7]}),
        made_under("c", None),
    ]
    kept, why = newest_resumable(runs, ResumePolicy({}, now))
    assert (kept and kept.run_id) == expected
    assert bool(why) == (expected is None)
