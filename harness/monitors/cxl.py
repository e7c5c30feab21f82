"""Bytes that CXL memory devices read and wrote, from the devices' own counters.

A device with a CXL Performance Monitoring Unit (CXL 3.0, Section 13.2) is a PMU of the kernel's,
``cxl_pmu_memN.M`` (Documentation/admin-guide/perf/cxl.rst). Each message with data carries 64
bytes, a partial write's too. Where no device has one, the processor's CXL ports are counted, on
Intel processors whose PMUs of ports the kernel knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from harness.counters import labelled
from harness.host.uncore import TrafficEvent, cxl_events
from harness.monitors.memory_traffic import TrafficMonitor
from harness.warnings import RunWarning

_DEVICES = "/sys/bus/cxl/devices"
_PORT = re.compile(r"uncore_cxl\w+_(\d+)")


class CxlMonitor(TrafficMonitor):
    """Counts both directions of each device, or of each port."""

    name: ClassVar[str] = "cxl"
    cost: ClassVar[str] = "runs perf stat, which reads the devices' counters 10 times a second"

    def preflight(self) -> RunWarning | None:
        """Return why no device or port has counters that the kernel lets us open."""
        if (missing := self._why_uncounted()) is None:
            return None
        devices = [name for name in self._kernel.names(_DEVICES) if name.startswith("mem")]
        without = (
            f"{', '.join(devices)}: neither the device nor the processor's ports have counters"
        )
        return RunWarning(
            "cxl-not-counted",
            "traffic of CXL devices is not counted",
            missing or (without if devices else "the host has no CXL memory device"),
            "run as root on Linux 6.6 or later with the module cxl_pmu, and a device with a CPMU",
        )

    def _choices(self) -> Sequence[Sequence[TrafficEvent]]:
        return (cxl_events(self._kernel),)

    def _sums(self, event: TrafficEvent, socket: str, sockets: int) -> Sequence[str]:
        """``cxl_pmu_mem0.1/…`` is of the device mem0, ``uncore_cxlcm_3/…`` of port 3."""
        pmu = event.name.partition("/")[0]
        if port := _PORT.fullmatch(pmu):
            return [labelled(event.counts, port=port[1], socket=socket)]
        return [labelled(event.counts, device=pmu.removeprefix("cxl_pmu_").partition(".")[0])]


MONITOR = CxlMonitor
