"""The stop rule of `harness model verify`: blocks that other work disturbed are made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import last_attempts
from harness.experiment.profile import Plan
from harness.experiment.study import Batch, Batches, Cost, ModelsCompared
from harness.models.score import NOT_KEPT
from harness.sequences import grouped
from harness.store.runs import StoredRun

#: How often blocks are made again that other work disturbed.
_REPETITIONS = 2


def disturbed(runs: Sequence[StoredRun]) -> dict[int, str]:
    """Return the blocks whose runs do not say what the model does, each with warnings' codes."""
    codes = grouped(
        (run.spec.block, warning.code)
        for run in runs
        for warning in run.result.uncontrolled
        if warning.code in NOT_KEPT
    )
    return {block: ", ".join(dict.fromkeys(of_block)) for block, of_block in codes.items()}


@dataclass(frozen=True, kw_only=True)
class Undisturbed(ModelsCompared):
    """All blocks, and again those that other work disturbed; ``note``: says which.

    A block of which a run is missing is made whole: an earlier run of the tier is no pair of a
    run on a model that was made since.
    """

    note: Callable[[str], None]

    def batches(
        self,
        plan: Plan,
        steps: Sequence[ResolvedRun],
        cost_ns: Cost,
        say: Callable[[str], None],
    ) -> Batches:
        blocks = grouped((step.spec.block, step) for step in steps)
        runs: list[StoredRun] = []
        for block in blocks.values():
            whole = all(step.done for step in block)
            runs += yield Batch(plan, block if whole else _afresh(block))
        for _ in range(_REPETITIONS):
            numbers = disturbed(last_attempts(runs))
            if not numbers:
                break
            repeated = ", ".join(map(str, numbers))
            self.note(f"repeating blocks that other work disturbed: {repeated}")
            again = {number: blocks[number] for number in blocks if number in numbers}
            specs = tuple(step.spec for block in again.values() for step in block)
            looks = max(run.result.experiment.looks for run in runs)
            of_again = replace(plan, runs=specs, looks=looks)
            for block in again.values():
                runs += yield Batch(of_again, _afresh(block))
        return ""


def _afresh(block: Sequence[ResolvedRun]) -> list[ResolvedRun]:
    return [replace(step, done=None) for step in block]
