"""A run's specification and the smallest result that the store takes."""

from __future__ import annotations

from typing import Any

from harness.execution.run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.store.result import RunResult
from harness.store.runs import RunFolder
from harness.store.spec import RUN_SCHEMA, RunSpec

SPEC = RunSpec("tpch", "duckdb", parse_placement("ssd-both"), {"scale": 1})


def result(writer: RunFolder, status: str = "complete") -> RunResult:
    document: dict[str, Any] = {
        "schema": RUN_SCHEMA,
        "run_id": writer.run_id,
        "status": status,
        "spec": SPEC.to_json(),
        "spec_hash": SPEC.hash(),
        "experiment": {"name": "x", "hash": "0"},
        "started_unix_ns": 1,
        "duration_ns": 1,
        "host_mode": "Default",
        "emulated": [],
        "modelled": [],
        "uncontrolled": [],
        "data_bytes": None,
        "memory_bytes": None,
        "residency": [],
        "metrics": [],
        "checks": [],
        "error": None,
    }
    return RunResult.from_json(document)


class Runnable(ResolvedRun):
    """A run that could be made here, of no engine and no suite."""

    runnable = True
