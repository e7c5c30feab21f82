"""Processor time that others took while the engine was measured: programs, and the hypervisor.

Others are processes that neither descend from this harness nor are the kernel's own threads, which
work for whoever asks. A load average does not tell: it counts the harness's own processes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning

#: Of other programs: processors in use, or of all processors this share, if that is less.
_MOST_PROCESSORS, _MOST_SHARE = 0.25, 0.05
#: Of the hypervisor's other guests.
_MOST_STOLEN = 0.01
_KTHREADD = 2


@dataclass(frozen=True)
class _Ticks:
    """Clock ticks since boot, over all processors; ``harness``: of the harness's processes.

    ``kernel``: of the kernel's threads that there are; idle ones end, and their ticks with them.
    """

    monotonic_ns: int
    total: int
    busy: int
    stolen: int
    harness: int
    kernel: int


class OthersMonitor(Monitor):
    """Reads the host's and each process's processor time at both ends of the measured phase."""

    name: ClassVar[str] = "others"
    cost: ClassVar[str] = "reads /proc/PID/stat of all processes at both ends"

    def __init__(
        self, context: MonitorContext, kernel: Kernel = LIVE, harness_pid: int | None = None
    ) -> None:
        super().__init__(context)
        self._kernel = kernel
        self._harness_pid = os.getpid() if harness_pid is None else harness_pid
        self._ends: list[_Ticks] = []
        #: At both ends, the ticks of each of the kernel's threads.
        self._threads: list[Mapping[int, int]] = []

    def preflight(self) -> RunWarning | None:
        if self._kernel.read("/proc/stat") is not None:
            return None
        return RunWarning("others-not-counted", "others are not counted", "no /proc/stat")

    def start(self) -> None:
        self._ends, self._threads = [], []
        self._read()

    def stop(self) -> None:
        if self._ends:
            self._read()

    def series(self) -> Mapping[str, Any]:
        """The ticks at both ends."""
        return {"clock": "monotonic", "samples": [vars(ticks) for ticks in self._ends]}

    def metrics(self) -> Sequence[Metric]:
        """``other_cpu_share`` and ``stolen_cpu_share``: of the processors' time."""
        if self._shares is None:
            return ()
        names = ("other_cpu_share", "stolen_cpu_share")
        return [
            Metric(name, "share", "none", {}, value=value)
            for name, value in zip(names, self._shares, strict=True)
        ]

    def warnings(self) -> Sequence[RunWarning]:
        if self._shares is None:
            return ()
        others, stolen = self._shares
        processors = len(re.findall(r"^cpu\d", self._kernel.read("/proc/stat") or "", re.M)) or 1
        warnings = []
        if others * processors > min(_MOST_PROCESSORS, _MOST_SHARE * processors):
            warnings.append(
                RunWarning(
                    "other-load",
                    "other programs used the processors in the measured phase",
                    f"{others * processors:.2f} of {processors} processors",
                    "stop other programs (see top), or wait until they have ended",
                )
            )
        if stolen > _MOST_STOLEN:
            warnings.append(
                RunWarning(
                    "stolen-while-measuring",
                    "the hypervisor took processor time in the measured phase",
                    f"{stolen:.1%}",
                    "request dedicated processors",
                )
            )
        return warnings

    @property
    def _shares(self) -> tuple[float, float] | None:
        """Shares of others and of the hypervisor; None where an external server is among others."""
        if len(self._ends) < 2 or self._context.external:
            return None
        first, last = self._ends[0], self._ends[-1]
        total = last.total - first.total
        if total <= 0:
            return None
        before, after = self._threads[0], self._threads[-1]
        of_kernel = sum(ticks - before.get(pid, 0) for pid, ticks in after.items())
        others = (last.busy - first.busy) - (last.harness - first.harness) - of_kernel
        return max(0.0, others / total), max(0.0, (last.stolen - first.stolen) / total)

    def _read(self) -> None:
        now = time.monotonic_ns()
        head = (self._kernel.read("/proc/stat") or "").partition("\n")[0].split()
        user, nice, system, idle, iowait, irq, softirq, steal, *_ = (
            *map(int, head[1:9]), *[0] * 8,
        )  # fmt: skip
        parents: dict[int, int] = {}
        used: dict[int, int] = {}
        for name in self._kernel.names("/proc"):
            if name.isdigit() and (text := self._kernel.read(f"/proc/{name}/stat")):
                fields = text[text.rindex(")") + 2 :].split()
                parents[int(name)] = int(fields[1])
                # With the time of children that have ended.
                used[int(name)] = sum(map(int, fields[11:15]))
        threads = {
            pid: ticks for pid, ticks in used.items() if self._descends(pid, _KTHREADD, parents)
        }
        of_harness = sum(
            ticks for pid, ticks in used.items() if self._descends(pid, self._harness_pid, parents)
        )
        total = user + nice + system + idle + iowait + irq + softirq + steal
        busy = user + nice + system
        self._ends.append(_Ticks(now, total, busy, steal, of_harness, sum(threads.values())))
        self._threads.append(threads)

    @staticmethod
    def _descends(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
        for _ in range(len(parents)):
            if pid == ancestor:
                return True
            pid = parents.get(pid, 0)
        return False


MONITOR = OthersMonitor
