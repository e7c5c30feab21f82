"""Rules of ``harness model verify``: which runs are pairs of a score."""

from dataclasses import replace
from typing import Any, cast

from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.experiment.profile import Plan
from harness.models.verify import Undisturbed
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec


def test_a_block_without_one_of_its_runs_is_made_whole() -> None:
    def step(placement: str, block: int, done: StoredRun | None) -> ResolvedRun:
        spec = RunSpec("tpcc", "postgres", parse_placement(placement), {}, block=block)
        return replace(ResolvedRun(spec), done=done)

    earlier = cast(StoredRun, object())
    steps = [
        *(step("ssd-both", 0, earlier), step("fast-both", 0, None)),  # the model was made again
        *(step("ssd-both", 1, earlier), step("fast-both", 1, earlier)),
    ]
    plan = Plan("verify", "", tuple(step.spec for step in steps))
    none: Any = None
    batches = Undisturbed(note=print).batches(plan, steps, none, print)
    assert [step.done for step in next(batches).steps] == [None, None]
    assert [step.done for step in batches.send([]).steps] == [earlier, earlier]
