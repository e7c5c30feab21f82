"""The workload of these tests."""

from __future__ import annotations

from typing import Any

from harness.store.spec import Json
from harness.workloads.ycsb.params import YcsbParams


def params(**more: Any) -> YcsbParams:
    """A small workload; what is not said is as ``harness run ycsb`` has it."""
    small: dict[str, Json] = {
        "records": 2000,
        "threads": 2,
        "ramp_up": "1s",
        "duration": "3s",
    }
    return YcsbParams.from_mapping({**small, **more})
