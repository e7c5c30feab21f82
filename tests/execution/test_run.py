"""Runs: which of a list are made again, how they end, and how long the rest takes."""

import errno
import math
import os
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from example_run import SPEC
from patience import LIMITS_S

from harness.engine import DataDirectories
from harness.errors import RunFailed, UsageError
from harness.execution import failure_causes
from harness.execution import run as run_module
from harness.execution.data import write_back
from harness.execution.failure_causes import naming_full_tiers, naming_lost_data
from harness.execution.repro import check_repeatable
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run import Run
from harness.execution.run_list import (
    Retries,
    completed_before_interruption,
    last_attempts,
    newest_alike,
    plan_steps,
    run_batch,
)
from harness.execution.run_time import Item, TimeLeft
from harness.execution.schedule import Schedule
from harness.experiment.placement import parse_placement
from harness.experiment.profile import Plan
from harness.host.clocks import Clocks, clock_warnings
from harness.progress import SilentProgress
from harness.sequences import grouped
from harness.store.checkpoint import Attempt
from harness.store.result import Check, Experiment, Metric, Program
from harness.store.run_store import Store
from harness.store.spec import HOST_STATE, RunSpec
from harness.units import MIB


def test_data_are_written_back_to_their_own_file_system_for_a_limited_time(tmp_path, monkeypatch):
    program = tmp_path / "sync"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments; exec sleep 1000\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    env: Any = SimpleNamespace(
        datasets=SimpleNamespace(root=tmp_path), source=SimpleNamespace(root=tmp_path / "none")
    )
    for limit_s in LIMITS_S:
        monkeypatch.setenv("HARNESS_SILENCE", f"blocked={limit_s}")
        with pytest.raises(RunFailed) as failed:
            write_back(env)
        if (arguments := tmp_path / "arguments").exists() and arguments.read_text():
            break  # the program has started
    assert "HARNESS_SILENCE=blocked=" in failed.value.hint
    assert (tmp_path / "arguments").read_text() == f"-f {tmp_path}\n"


SSD, PMEM, CXL = (
    RunSpec("tpch", "duckdb", parse_placement(f"{tier}-both"), dict(SPEC.params))
    for tier in ("ssd", "pmem", "cxl")
)
FACTS = dict.fromkeys((*HOST_STATE, "memory_bytes"))
HERE: Any = SimpleNamespace(
    host=SimpleNamespace(**FACTS, host_id="here", kernel=SimpleNamespace(release="6.1")),
    progress=SilentProgress(),
    supervisor=SimpleNamespace(renew=lambda: None),
    datasets=SimpleNamespace(datasets=list),
)


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


def completed(runs: list[Any], interrupted: RunSpec | None) -> list[str]:
    store: Any = SimpleNamespace(
        runs=lambda: runs, interrupted=lambda spec, host: (spec, host) == (interrupted, "here")
    )
    by_arm = completed_before_interruption([SSD, PMEM, CXL], HERE, store, "mine")
    return [run.run_id[13:15] for runs_of_arm in by_arm.values() for run in runs_of_arm]


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
    assert completed(runs, interrupted) == expected


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
    chosen, why = newest_alike(runs, now)
    assert (chosen and chosen.run_id) == expected
    assert bool(why) == (expected is None)


@dataclass(frozen=True)
class _Made(ResolvedRun):
    """A run that a list takes, of no engine and no suite. ``ends``: of its attempts."""

    build: int = 0
    ends: list[str] = field(default_factory=list)
    runnable: ClassVar[bool] = True

    def conditions(self, env: Any) -> dict[str, Any]:
        return {"build": self.build}

    def run(self, env: Any, store: Any, attempt: Attempt) -> Any:
        made = run(0, self.spec, status=self.ends.pop(0))
        made.result = SimpleNamespace(status=made.head.status, error=None)
        made.failed_before = attempt.failed
        return made


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
    first = (
        SSD if placed else msgspec.structs.replace(SSD, placement=None)
    )  # a server of the user's
    plan = Plan("mine", "", (first, CXL))
    before = run(1, first)
    of_plan = {"experiment": plan.experiment.to_json(), "host": "here", "kernel": "6.1"}
    conditions = of_plan | {"build": 7, "host state": FACTS}
    before.manifest = SimpleNamespace(conditions=conditions)
    store: Any = SimpleNamespace(
        runs=lambda: [before], interrupted=lambda spec, host: spec == CXL, root=NO_STORE.root
    )
    later = replace(plan, looks=2)  # the same command once more within a budget
    runs = [_Made(first, build=7), _Made(CXL, build=7)]
    steps = plan_steps(later, HERE, store, again=True, resume=True, resolved=runs)
    assert [step.done is before for step in steps] == [placed, False]


def attempts(steps: list[Any], retries: Retries) -> list[Any]:
    """All attempts at runs, block by block."""
    runs: list[Any] = []
    schedule = Schedule(PLAN, steps, HERE, NO_STORE)
    with schedule.running():
        for block in grouped((step.spec.block, step) for step in steps).values():
            run_batch(PLAN, block, HERE, NO_STORE, runs, schedule, retries)
    return runs


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
    made = [
        _Made(spec, ends=[names[end] for end in each])
        for spec, each in zip((SSD, PMEM), ends, strict=True)
    ]
    runs: list[Any] = attempts(made, retries)
    assert [run.result.status for run in runs] == [names[end] for end in expected]
    assert [run.failed_before is not None for run in runs] == [i >= 2 for i in range(len(runs))]
    assert [each_made.spec for each_made in made] == [SSD, PMEM] and len(last_attempts(runs)) == 2


def test_an_arm_that_fails_in_all_attempts_gets_one_in_later_blocks() -> None:
    bad = [_Made(msgspec.structs.replace(SSD, block=k), ends=["failed"] * 2) for k in range(3)]
    good = _Made(msgspec.structs.replace(PMEM, block=2), ends=["failed", "complete"])
    runs = attempts([*bad, good], Retries(1))
    assert [len(each_made.ends) for each_made in bad] == [0, 1, 1]
    assert runs[-1].head.status == "complete"


# How a run ends -------------------------------------------------------------------


ENVIRONMENT: Any = SimpleNamespace(host=SimpleNamespace(mode="Default"), progress=SilentProgress())
ATTEMPT = Attempt(experiment=Experiment("x", "0"))
#: In ns.
S = 10**9
PERHAPS: Any = "perhaps"  # as a plug-in may say


def record() -> Run:
    return Run(SPEC, ENVIRONMENT, ATTEMPT, [])


def test_the_manifest_has_the_prices_of_tiers_that_no_part_uses(tmp_path: Path) -> None:
    tiers = {
        name: SimpleNamespace(
            claim=SimpleNamespace(price_per_gb=price, nodes=nodes), facts=SimpleNamespace(kind=kind)
        )
        for name, price, kind, nodes in (("dram", 5.0, "numa", (0, 1)), ("ssd", None, "block", ()))
    }
    env: Any = SimpleNamespace(**vars(ENVIRONMENT), tiers=tiers, argv=())
    run = Run(SPEC, env, ATTEMPT, [])
    with run.storing(Store(tmp_path)):
        manifest = run._manifest(Program("postgres", "18", "", ""))
    assert (list(manifest.tiers), manifest.prices_per_gb) == ([], {"dram": 5.0})
    assert manifest.memory_nodes == {"dram": (0, 1)}


class FakeClocks:
    """Clocks that differ from a moment on."""

    def __init__(self, *moments: Clocks) -> None:
        self.moments = list(moments)

    def now(self) -> Clocks:
        return self.moments.pop(0)


@pytest.mark.parametrize(
    ("end", "codes"),
    [
        (Clocks(20 * S, 120 * S, 1020 * S + 1_000_000), []),  # read one after the other
        (Clocks(20 * S, 3720 * S, 4620 * S), ["host-suspended"]),
        (Clocks(20 * S, 120 * S, 1019 * S), ["clock-stepped"]),
        (Clocks(20 * S, 120 * S, 5000 * S), ["clock-stepped"]),
        (Clocks(20 * S, 130 * S, 1025 * S), ["host-suspended", "clock-stepped"]),
    ],
)
def test_a_run_in_which_the_clocks_went_apart_has_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Clocks, codes: list[str]
) -> None:
    begin = Clocks(10 * S, 110 * S, 1010 * S)
    monkeypatch.setattr(run_module, "Clocks", FakeClocks(begin, end))
    monkeypatch.setattr(
        run_module, "one_at_a_time", lambda progress, hold: nullcontext(enter_result=[])
    )
    supervisor = SimpleNamespace(hold=None, watch=SimpleNamespace(naming=nullcontext))
    env: Any = SimpleNamespace(**vars(ENVIRONMENT), supervisor=supervisor)
    run = Run(SPEC, env, ATTEMPT, [])
    with run.storing(Store(tmp_path)), run.measuring():
        pass
    stored = {warning["code"] for warning in run.stored.document["uncontrolled"]}
    assert stored & {"host-suspended", "clock-stepped"} == set(codes)


def test_the_clocks_of_this_host_go_together() -> None:
    assert not [*clock_warnings(Clocks.now(), Clocks.now())]


@pytest.mark.parametrize(
    "error",
    [KeyError("rows"), AssertionError(), MemoryError(), RecursionError("deep"), OSError(5, "I/O")],
)
def test_whatever_is_raised_is_stored_with_its_traceback(tmp_path: Path, error: Exception) -> None:
    run = record()
    with run.storing(Store(tmp_path)):
        raise error
    (stored,) = Store(tmp_path).runs()
    assert stored.document["status"] == "failed" and stored.directory == run.folder.directory
    document = stored.document["error"]
    assert document["type"] == "RunFailed" and document["context"]
    assert type(error).__name__ in document["traceback"] and "raise error" in document["traceback"]


@pytest.mark.parametrize(
    "result",
    [
        {"metrics": [Metric("operations_per_second", "1/s", "higher", value=math.nan)]},
        {"metrics": [Metric("Not A Name", "1", "none", value=1)]},
        {"checks": [Check("answer", PERHAPS)]},
        {"artifacts": {"plans": {1, 2}}},
        {"artifacts": {"plans": math.inf}},
        {"data_bytes": -1},
    ],
)
def test_a_result_that_cannot_be_stored_fails_its_run_alone(tmp_path, result):
    run = record()
    with run.storing(Store(tmp_path)):
        for name, value in result.items():
            setattr(run, name, value)
    (stored,) = Store(tmp_path).runs()
    assert stored.document["status"] == "failed"
    assert stored.document["error"]["context"] and not stored.document["metrics"]


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, ended: BaseException) -> None:
    with pytest.raises(type(ended)), record().storing(Store(tmp_path)):
        raise ended
    assert not list((tmp_path / "runs").iterdir())


# What a run adds to the reason of its failure -------------------------------------


def tier(name: str, path: str | None = "/mnt") -> Any:
    return SimpleNamespace(name=name, claim=SimpleNamespace(path=path))


@pytest.mark.parametrize(
    ("free_bytes", "named"),
    [({"ssd": 0}, True), ({"ssd": 8192, "pmem": MIB}, True), ({"ssd": MIB}, False), ({}, False)],
)
def test_a_failure_on_a_full_tier_names_it(monkeypatch, free_bytes, named):
    monkeypatch.setattr(failure_causes, "free_now", lambda place: free_bytes.get(place.name))
    tiers = [tier("ssd"), tier("pmem"), tier("dram", path=None)]
    with pytest.raises(RunFailed) as raised, naming_full_tiers(tiers):
        raise RunFailed("connect to PostgreSQL", "FATAL: could not write init file")
    error = raised.value
    assert (os.strerror(errno.ENOSPC) in error.context) == named
    assert ("ssd" in error.context) == named
    assert "pmem" not in error.context
    assert error.context.startswith("FATAL")


def test_a_reason_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_causes, "free_now", lambda place: 0)
    reason = os.strerror(errno.ENOSPC)
    with pytest.raises(RunFailed) as raised, naming_full_tiers([tier("ssd")]):
        raise RunFailed("write", f"{reason}: /mnt/file")
    assert raised.value.context.count(reason) == 1
    assert raised.value.context.count("ssd") == 1


@pytest.mark.parametrize(("removed", "also"), [(True, ""), (True, "ended"), (False, "ended")])
def test_removed_files_are_named(tmp_path: Path, removed: bool, also: str) -> None:
    (tmp_path / "file").write_text("rows")
    places = DataDirectories({"data": tmp_path})
    with pytest.raises(RunFailed) as failure, naming_lost_data(lambda: places, None):
        if removed:
            (tmp_path / "file").unlink()
        if also:
            raise RunFailed("query", also)
    assert also in failure.value.context
    assert (str(tmp_path) in failure.value.context) == removed


@pytest.mark.parametrize("restored", [True, False])
def test_what_is_there_or_was_not_restored_yet_is_not_missed(tmp_path, restored):
    (tmp_path / "file").write_text("rows")
    with naming_lost_data(lambda: DataDirectories({"data": tmp_path}) if restored else None, None):
        pass


# Whether a stored run may be repeated here ----------------------------------------


@pytest.mark.parametrize(
    ("imported", "same_host", "trusted", "refused"),
    [
        (False, True, False, False),
        (True, True, False, True),  # whatever its manifest says
        (False, False, False, True),
        (True, False, True, False),
    ],
)
def test_another_hosts_run_is_repeated_only_if_it_is_trusted(imported, same_host, trusted, refused):
    original: Any = SimpleNamespace(
        run_id="R",
        run={"spec_hash": ""},
        manifest=SimpleNamespace(host=SimpleNamespace(host_id="here")),
        imported=imported,
    )
    env: Any = SimpleNamespace(host=SimpleNamespace(host_id="here" if same_host else "there"))
    with pytest.raises(UsageError) if refused else nullcontext():
        check_repeatable(original, env, 0.25, trusted)


# How long the runs of a command still take ----------------------------------------


def test_estimates_follow_what_runs_took_here():
    clock = SimpleNamespace(now=0)
    items = [Item("load", "data", 100), Item("run", "a", 10), Item("run", "b", 20)]
    left = TimeLeft(items, lambda: clock.now, lambda: clock.now)
    assert left.left_ns() == 130
    with left.doing("load", "data") as done:
        clock.now += 50  # a load says nothing of runs
        done()
    assert left.left_ns() == 30
    with left.doing("run", "a") as done:
        clock.now += 15
        done()
    assert left.left_ns() == 30  # 1.5 times as long as expected
    with left.doing("run", "b"):
        clock.now += 20
        assert left.left_ns() == 10
        clock.now += 20
        assert left.left_ns() == 0
    assert left.left_ns() == 0
