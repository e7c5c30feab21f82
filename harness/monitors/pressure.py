"""Pressure stall information: how long tasks waited for processors, memory and I/O.

Threads that a CPU quota has stopped are counted too (``cpu.stat`` of control groups with one):
PSI does not count them as waiting.

Documentation/accounting/psi.rst: ``some``: at least one task waited; ``full``: all tasks that were
not idle waited. The totals are exact; Linux's own averages are not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness.counters import labelled
from harness.host.cpu_quota import cpu_quotas, throttled
from harness.monitors import MonitorContext, SampledMonitor
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.units import format_ns
from harness.warnings import RunWarning

_RESOURCES = ("cpu", "memory", "io")
_LINE = re.compile(r"^(some|full) .*\btotal=(\d+)", re.M)
_US_NS = 1000
_THROTTLED_NS, _THROTTLED_COUNT = "cpu_throttled_ns", "cpu_throttled_count"
#: A share of the measured phase, below which stops of threads are not worth a warning.
_LEAST_STOPPED = 0.01


class PressureMonitor(SampledMonitor):
    """Samples the stall totals of the host, and of the run's control group, once a second."""

    name: ClassVar[str] = "pressure"
    cost: ClassVar[str] = "reads /proc/pressure and the control group's once a second"

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context, kernel)
        self._quotas = cpu_quotas(kernel.path("/proc/self"))

    def preflight(self) -> RunWarning | None:
        """Return whether the kernel accounts for stalls."""
        if self.totals():
            return None
        return RunWarning(
            "pressure-not-counted",
            "stalls are not counted",
            "PSI is disabled: /proc/pressure cannot be read",
            "boot with psi=1 (Linux 4.20 or later, built with CONFIG_PSI)",
        )

    def totals(self) -> Mapping[str, float]:
        """Nanoseconds since boot: ``pressure_io_some_ns[of=host]``; ``of=run``: the group's.

        ``cpu_throttled_ns``, ``cpu_throttled_count``: of the CPU quota that holds the harness.
        """
        totals = throttled(self._quotas)
        for resource in _RESOURCES:
            texts = {"host": self._kernel.read(f"/proc/pressure/{resource}")}
            if (group := self._context.cgroup) is not None:
                texts["run"] = self._kernel.read(group / f"{resource}.pressure")
            for of, text in texts.items():
                for kind, total in _LINE.findall(text or ""):
                    name = labelled(f"pressure_{resource}_{kind}_ns", of=of)
                    totals[name] = float(total) * _US_NS
        return totals

    def warnings(self) -> Sequence[RunWarning]:
        """Return that a quota stopped threads for 1 % of the measured phase or more."""
        counted = [sample for sample in self._samples if _THROTTLED_NS in sample]
        if len(counted) < 2:
            return ()
        first, last = counted[0], counted[-1]
        stopped_ns, stops, phase_ns = (
            last[name] - first[name] for name in (_THROTTLED_NS, _THROTTLED_COUNT, "monotonic_ns")
        )
        if stopped_ns < _LEAST_STOPPED * phase_ns:
            return ()
        least = min(quota.processors for quota in self._quotas)
        return [
            RunWarning(
                "cpu-throttled",
                "a quota stopped threads in the measured phase",
                f"{least:g} processors: {stops:,.0f} stops, {format_ns(round(stopped_ns))} over "
                f"all processors in {format_ns(phase_ns)}",
                "remove the quota, or compare runs of one quota",
            )
        ]


MONITOR = PressureMonitor
