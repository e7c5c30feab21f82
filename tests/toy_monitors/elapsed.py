"""A monitor with a figure of the whole measured phase: its duration."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric


class Elapsed(Monitor):
    """Reads the clock at the two ends."""

    name: ClassVar[str] = "elapsed"
    cost: ClassVar[str] = "reads the clock at both ends"
    default: ClassVar[bool] = False

    def __init__(self, context: MonitorContext) -> None:
        super().__init__(context)
        self._ends: list[int] = []

    def start(self) -> None:
        self._ends.append(time.monotonic_ns())

    def stop(self) -> None:
        self._ends.append(time.monotonic_ns())

    def series(self) -> Mapping[str, Any]:
        return {"ends_ns": self._ends}

    def metrics(self) -> Sequence[Metric]:
        first, last = self._ends
        return [Metric("phase_elapsed_ns", "ns", "none", value=float(last - first))]


MONITOR = Elapsed
