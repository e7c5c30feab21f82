"""A run's specification and the smallest result that the store takes."""

from typing import Any

from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.store.result import Experiment, RunResult
from harness.store.run_store import RunFolder
from harness.store.spec import RunSpec

SPEC = RunSpec("tpch", "duckdb", parse_placement("ssd-both"), {"scale": 1})


def result(writer: RunFolder, status: Any = "complete") -> RunResult:
    experiment = Experiment("x", "0")
    return RunResult(writer.run_id, status, SPEC, SPEC.hash(), experiment, 1, 1, "Default")


class Runnable(ResolvedRun):
    """A run that could be made here, of no engine and no suite."""

    runnable = True
