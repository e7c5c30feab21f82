"""Bytes that CXL memory devices read and wrote, from the devices' own counters.

A device with a CXL Performance Monitoring Unit (CXL 3.0, Section 13.2) is a PMU of the kernel's,
``cxl_pmu_memN.M`` (Documentation/admin-guide/perf/cxl.rst). Each message with data carries 64
bytes, a partial write's too. Where no device has one, Intel PCM counts at the processor's ports, if
the user supplies it (:mod:`harness.monitors._pcm`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.counters import labelled, split
from harness.host.cpu import cpu
from harness.host.uncore import TrafficEvent, cxl_events
from harness.monitors._pcm import VARIABLE, PcmTraffic
from harness.monitors._traffic import TrafficMonitor
from harness.store.result import Metric
from harness.warnings import RunWarning

_DEVICES = "/sys/bus/cxl/devices"
#: Intel's model numbers whose processors cannot count CXL reads by port either.
_NO_PORT_READS = {143: "Sapphire Rapids", 207: "Emerald Rapids"}
#: PCM programs the counters that this monitor reads.
_MEMORY_TRAFFIC = "memory-traffic"


class CxlMonitor(TrafficMonitor):
    """Opens one counter for each direction of each device, or runs PCM."""

    name: ClassVar[str] = "cxl"
    cost: ClassVar[str] = (
        "reads one counter per CXL device and direction twice a second, or runs pcm-memory"
    )
    interval_s: ClassVar[float] = 0.5
    #: Where no device has counters.
    _pcm: PcmTraffic | None = None

    def preflight(self) -> RunWarning | None:
        """Whether a device has counters that the kernel lets us open, or PCM counts."""
        if (missing := self._why_uncounted()) is None:
            return None
        if missing == "" and (pcm := PcmTraffic.installed()) is not None:
            if _MEMORY_TRAFFIC in self._context.monitors:
                context = f"PCM would program the counters that {_MEMORY_TRAFFIC} reads"
                return _problem(context, f"--no-monitor {_MEMORY_TRAFFIC}")
            self._pcm = pcm
            if (context := pcm.problem() or "") == "":
                return None
            hint = f"as root, set {VARIABLE} to an installation of Intel PCM 202307 or later"
            return _problem(f"{self._why_none()}; {context}", hint)
        return _problem(
            missing or self._why_none(),
            "run as root on Linux 6.6 or later with the module cxl_pmu, and a device with a CPMU;"
            f" or set {VARIABLE} to an installation of Intel PCM (docs/monitors.md)",
        )

    def start(self) -> None:
        """Open the counters, or start PCM; it has intervals, so there are no totals then."""
        if self._pcm is not None:
            self._pcm.start()
        else:
            super().start()

    def stop(self) -> None:
        """End what was started."""
        if self._pcm is not None:
            self._pcm.stop()
        else:
            super().stop()

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, cxl_read_bytes[device=mem0], …}]``."""
        return self._pcm.series() if self._pcm is not None else super().series()

    def metrics(self) -> Sequence[Metric]:
        """By PCM: bytes of the whole phase, whose last interval may be missing."""
        moved = self._pcm.moved() if self._pcm is not None else {}
        named = [(*split(name), value) for name, value in moved.items()]
        return [Metric(f"phase_{name}", "B", "none", of, value=value) for name, of, value in named]

    def warnings(self) -> Sequence[RunWarning]:
        """Of a PCM that was killed."""
        if self._pcm is None or self._pcm.ended is None:
            return ()
        context = f"pcm-memory ended with status {self._pcm.ended}"
        return [RunWarning("monitor-failed", "monitor cxl is incomplete", context)]

    def _events(self) -> Sequence[TrafficEvent]:
        return cxl_events(self._kernel)

    def _sums(self, event: TrafficEvent, events: Sequence[TrafficEvent]) -> Sequence[str]:
        """``cxl_pmu_mem0.1/…`` is of the device mem0."""
        pmu = event.name.partition("/")[0]
        return [labelled(event.counts, device=pmu.removeprefix("cxl_pmu_").partition(".")[0])]

    def _why_none(self) -> str:
        devices = [name for name in self._kernel.names(_DEVICES) if name.startswith("mem")]
        if not devices:
            return "the host has no CXL memory device"
        processor = cpu(self._kernel)
        intel = processor.vendor == "GenuineIntel" and processor.family == 6
        name = _NO_PORT_READS.get(processor.model_number) if intel else None
        also = f"; {name} processors cannot count CXL reads by port" if name else ""
        return f"{', '.join(devices)}: no counters of the device (cxl_pmu){also}"


def _problem(context: str, hint: str) -> RunWarning:
    return RunWarning("cxl-not-counted", "traffic of CXL devices is not counted", context, hint)


MONITOR = CxlMonitor
