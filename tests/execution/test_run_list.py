"""Which runs of an interrupted command are not repeated; with a made-up store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from example_run import SPEC

from harness.execution.run import ResolvedRun
from harness.execution.run_list import (
    Retries,
    completed_before_interruption,
    last_attempts,
    newest_alike,
    plan_steps,
    run_plan,
)
from harness.experiment.placement import parse_placement
from harness.experiment.profile import Plan
from harness.progress import SilentProgress
from harness.store.checkpoint import Attempt
from harness.store.spec import RunSpec

SSD, PMEM, CXL = (
    RunSpec("tpch", "duckdb", parse_placement(f"{tier}-both"), dict(SPEC.params))
    for tier in ("ssd", "pmem", "cxl")
)
ENV: Any = SimpleNamespace(host={"host_id": "here"})


def run(
    second: int, spec: RunSpec, host: str = "here", status: str = "complete", name: str = "mine"
) -> Any:
    head = SimpleNamespace(
        status=status,
        spec_hash=spec.hash(),
        host=SimpleNamespace(host_id=host),
        experiment=SimpleNamespace(name=name),
    )
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
def test_runs_before_the_interrupted_one_are_kept(runs, interrupted, expected):
    assert kept(runs, interrupted) == expected


def made_under(run_id: str, conditions: Any) -> Any:
    return SimpleNamespace(run_id=run_id, manifest=SimpleNamespace(conditions=conditions))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"kernel": "6.1", "program": ["fio", 7]}, "b"),
        ({"kernel": "6.1", "program": ["fio", 6]}, "a"),
        ({"kernel": "6.1", "program": ["fio", 8]}, None),  # another build
        ({"kernel": "6.2", "program": ["fio", 7]}, None),
    ],
)
def test_the_newest_run_under_the_same_conditions_is_kept(now: Any, expected: str | None) -> None:
    runs = [
        made_under("a", {"kernel": "6.1", "program": ["fio", 6]}),
        made_under("b", {"kernel": "6.1", "program": ["fio", 7]}),
        made_under("c", None),
    ]
    kept, why = newest_alike(runs, now)
    assert (kept and kept.run_id) == expected
    assert bool(why) == (expected is None)


@dataclass(frozen=True)
class _Made(ResolvedRun):
    """A run that a list takes, of no engine and no suite. ``ends``: of its attempts."""

    build: int = 0
    ends: list[str] = field(default_factory=list)
    runnable: ClassVar[bool] = True

    def conditions(self, env: Any) -> dict[str, Any]:
        return {"build": self.build}

    def resume_conditions(self) -> dict[str, Any]:
        return {"scaled": 1}

    def run(self, env: Any, store: Any, attempt: Attempt) -> Any:
        made = run(0, self.spec, status=self.ends.pop(0))
        made.result = SimpleNamespace(status=made.head.status, error=None)
        made.failed_before = attempt.failed
        return made


FACTS = dict.fromkeys(
    (
        *("governor", "turbo", "smt", "thp", "aslr", "prefetchers", "memory_speed"),
        *("uncore_frequency", "dimm_power_budget", "memory_bytes"),
    )
) | {"host_id": "here", "kernel": {"release": "6.1"}}
HERE: Any = SimpleNamespace(host=FACTS)
RUNNING: Any = SimpleNamespace(
    host=FACTS, progress=SilentProgress(), supervisor=SimpleNamespace(renew=lambda: None)
)
PLAN = Plan("mine", "", (CXL,))
NO_STORE: Any = SimpleNamespace(runs=list, root=Path("/nonexistent"))


@pytest.mark.parametrize(("build", "done"), [(7, True), (8, False)])
def test_any_run_is_done_where_a_complete_one_was_made_under_its_conditions(build, done):
    complete = run(1, CXL)
    complete.manifest = SimpleNamespace(conditions={"build": 7})
    store: Any = SimpleNamespace(runs=lambda: [complete])
    (step,) = plan_steps(PLAN, HERE, store, resolved=[_Made(CXL, build=build)])
    assert (step.done is complete) == done and bool(step.why) != done


@pytest.mark.parametrize("placed", [True, False])
def test_what_an_interrupted_command_completed_is_kept_where_it_could_be_resumed(placed):
    first = SSD if placed else replace(SSD, placement=None)  # a server of the user's
    plan = Plan("mine", "", (first, CXL))
    before = run(1, first)
    unchanged = {
        "build": 7,
        "experiment": plan.experiment.to_json(),
        "host": "here",
        "kernel": "6.1",
    }
    facts = {name: None for name in FACTS if name not in ("host_id", "kernel")}
    conditions = unchanged | {"host state": facts}  # scaled otherwise
    before.manifest = SimpleNamespace(conditions=conditions)
    store: Any = SimpleNamespace(
        runs=lambda: [before], interrupted=lambda spec: spec == CXL, root=NO_STORE.root
    )
    later = replace(plan, looks=2)  # the same command once more within a budget
    runs = [_Made(first, build=7), _Made(CXL, build=7)]
    steps = plan_steps(later, HERE, store, again=True, resume=True, resolved=runs)
    assert [step.done is before for step in steps] == [placed, False]


def attempted(spec: RunSpec, *ends: str) -> _Made:
    return _Made(spec, ends=list(ends))


@pytest.mark.parametrize(
    ("retries", "ends", "expected"),
    [
        (Retries(0), ["f", "c"], ["f", "c"]),
        (Retries(1), ["fc", "c"], ["f", "c", "c"]),  # at the end of the block
        (Retries(1), ["ff", "fc"], ["f", "f", "f", "c"]),
        (Retries(2), ["fff", "fc"], ["f", "f", "f", "c", "f"]),
        (Retries(1, lambda steps: "no time left"), ["f", "c"], ["f", "c"]),
    ],
)
def test_failed_runs_are_tried_again_at_the_end_of_their_block(retries, ends, expected):
    names = {"f": "failed", "c": "complete"}
    own = [
        attempted(spec, *(names[end] for end in each))
        for spec, each in zip((SSD, PMEM), ends, strict=True)
    ]
    runs: list[Any] = run_plan(PLAN, own, RUNNING, NO_STORE, False, retries)
    assert [one.result.status for one in runs] == [names[end] for end in expected]
    assert [one.failed_before is not None for one in runs] == [i >= 2 for i in range(len(runs))]
    assert [one.spec for one in own] == [SSD, PMEM] and len(last_attempts(runs)) == 2


def test_an_arm_that_fails_in_all_attempts_gets_one_in_later_blocks() -> None:
    bad = [attempted(replace(SSD, block=k), *["failed"] * 2) for k in range(3)]
    good = attempted(replace(PMEM, block=2), "failed", "complete")
    steps = [*bad, good]
    runs = run_plan(PLAN, steps, RUNNING, NO_STORE, False, Retries(1))
    assert [len(one.ends) for one in bad] == [0, 1, 1]
    assert runs[-1].head.status == "complete"
