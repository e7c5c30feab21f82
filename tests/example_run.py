"""A run's specification and the smallest result that the store takes."""

from typing import Any

from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.store.result import Experiment, RunResult
from harness.store.run_store import RunFolder
from harness.store.spec import RunSpec

SPEC = RunSpec("tpch", "duckdb", parse_placement("ssd-both"), {"scale": 1})


def result(writer: RunFolder, status: Any = "complete") -> RunResult:
    return result_of(writer.run_id, SPEC, status=status)


def result_of(run_id: str, spec: RunSpec, **members: Any) -> RunResult:
    usual: dict[str, Any] = {
        "status": "complete",
        "experiment": Experiment("x", "0"),
        "started_unix_ns": 1,
        "duration_ns": 1,
        "host_mode": "Default",
        "emulated": (),
        "modelled": (),
        "uncontrolled": (),
        "data_bytes": None,
        "memory_bytes": None,
        "residency": (),
        "metrics": (),
        "checks": (),
        "error": None,
    }
    return RunResult(run_id=run_id, spec=spec, spec_hash=spec.hash(), **usual | members)


class Runnable(ResolvedRun):
    """A run that could be made here, of no engine and no suite."""

    runnable = True
