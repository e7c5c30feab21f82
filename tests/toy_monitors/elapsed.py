"""A monitor with a figure of the whole measured phase: its duration."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from harness.monitors import MonitorContext
from harness.store.result import Metric
from harness.warnings import RunWarning


class Elapsed:
    """Reads the clock at the two ends."""

    name: ClassVar[str] = "elapsed"
    cost: ClassVar[str] = "reads the clock at both ends"
    default: ClassVar[bool] = False
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(self, context: MonitorContext) -> None:
        self._ends: list[int] = []

    def preflight(self) -> RunWarning | None:
        return None

    def start(self) -> None:
        self._ends.append(time.monotonic_ns())

    def stop(self) -> None:
        self._ends.append(time.monotonic_ns())

    def totals(self) -> Mapping[str, float]:
        return {}

    def series(self) -> Mapping[str, Any]:
        return {"ends_ns": self._ends}

    def metrics(self) -> Sequence[Metric]:
        first, last = self._ends
        return [Metric("phase_elapsed_ns", "ns", "none", value=float(last - first))]


MONITOR = Elapsed
