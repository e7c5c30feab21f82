"""A monitor in one file: the host's context switches, from /proc/stat (proc(5), ctxt)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.warnings import RunWarning


class ContextSwitches(Monitor):
    """The host's context switches, from /proc/stat."""

    name: ClassVar[str] = "context-switches"
    cost: ClassVar[str] = "reads /proc/stat at both ends"
    default: ClassVar[bool] = False

    def __init__(self, context: MonitorContext) -> None:
        super().__init__(context)
        self._stat = Path("/proc/stat")
        self._ends: list[float] = []

    def preflight(self) -> RunWarning | None:
        if self._stat.exists():
            return None
        return RunWarning("no-proc-stat", "context switches are not counted", "no /proc/stat")

    def start(self) -> None:
        self._ends.append(self._count())

    def stop(self) -> None:
        self._ends.append(self._count())

    def totals(self) -> Mapping[str, float]:
        return {"context_switches_count": self._count()}

    def series(self) -> Mapping[str, Any]:
        return {"counts": self._ends}

    def _count(self) -> float:
        lines = self._stat.read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("ctxt ")))


MONITOR = ContextSwitches
