"""Bytes that CXL memory devices read and wrote, from the devices' own counters.

A device with a CXL Performance Monitoring Unit (CXL 3.0, Section 13.2) is a PMU of the kernel's,
``cxl_pmu_memN.M`` (Documentation/admin-guide/perf/cxl.rst). Each message with data carries 64
bytes, a partial write's too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from harness.counters import labelled
from harness.host.cpu import cpu
from harness.host.uncore import TrafficEvent, cxl_events
from harness.monitors import MonitorContext
from harness.monitors._sampler import Sampler
from harness.monitors._traffic import TrafficCounters
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning

_DEVICES = "/sys/bus/cxl/devices"
#: Intel's model numbers whose processors cannot count CXL reads by port either.
_NO_PORT_READS = {143: "Sapphire Rapids", 207: "Emerald Rapids"}


class CxlMonitor:
    """Opens one counter for each direction of each device."""

    name: ClassVar[str] = "cxl"
    cost: ClassVar[str] = "reads one counter per CXL device and direction twice a second"
    default: ClassVar[bool] = True
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(
        self, context: MonitorContext, kernel: Kernel = LIVE, interval_s: float = 0.5
    ) -> None:
        self._kernel = kernel
        self._counters = TrafficCounters(kernel, cxl_events, _names)
        self._read = self._counters.reader()
        self._sampler = Sampler(self._counters.reader(), interval_s)

    def preflight(self) -> RunWarning | None:
        """Whether a device has counters, and the kernel lets us open them."""
        missing = self._counters.open()
        self._counters.close()
        if missing is None:
            return None
        return RunWarning(
            "cxl-not-counted",
            "traffic of CXL devices is not counted",
            missing or self._why_none(),
            "run as root on Linux 6.6 or later with the module cxl_pmu, and a device with a CPMU",
        )

    def start(self) -> None:
        """Open the counters, and sample them."""
        self._counters.open()
        self._sampler.start()

    def stop(self) -> None:
        """Stop sampling, and close the counters."""
        self._sampler.stop()
        self._counters.close()

    def totals(self) -> Mapping[str, float]:
        """Bytes so far: ``cxl_read_bytes[device=mem0]``."""
        return self._read()

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, cxl_read_bytes[device=mem0], …}]``."""
        return {**self._sampler.series(), "events": self._counters.events}

    def _why_none(self) -> str:
        devices = [name for name in self._kernel.names(_DEVICES) if name.startswith("mem")]
        if not devices:
            return "the host has no CXL memory device"
        processor = cpu(self._kernel)
        intel = processor.vendor == "GenuineIntel" and processor.family == 6
        name = _NO_PORT_READS.get(processor.model_number) if intel else None
        also = f"; {name} processors cannot count CXL reads by port" if name else ""
        return f"{', '.join(devices)}: no counters of the device (cxl_pmu){also}"


def _names(event: TrafficEvent, events: Sequence[TrafficEvent]) -> list[str]:
    """``cxl_pmu_mem0.1/…`` is of the device mem0."""
    pmu = event.name.partition("/")[0]
    return [labelled(event.counts, device=pmu.removeprefix("cxl_pmu_").partition(".")[0])]


MONITOR = CxlMonitor
