"""Counters of devices that are not here: Optane modules' media, CXL memory.

The CXL trees follow drivers/perf/cxl_pmu.c; what is counted is a software event of this kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy_host import write

from harness.host.uncore import PerfEvent, cxl_events
from harness.monitors import MonitorContext
from harness.monitors.cxl import CxlMonitor
from harness.monitors.dimm_media import DimmMediaMonitor, media_counters
from harness.tiers.linux.kernel import Kernel

RECORDING = Path(__file__).parent / "recordings/ipmctl-performance.txt"
EVENTS = "sys/bus/event_source/devices/cxl_pmu_mem0.0"
SOFTWARE = "1"  # PERF_TYPE_SOFTWARE, of linux/perf_event.h
CPU_CLOCK = "config=0x0"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="system-wide counters are root's")


# Optane modules ------------------------------------------------------------------


def printed(media: int, requests: int, module: str = "0x0001") -> str:
    """Counters of one module, in units of 64 bytes."""
    names = {"MediaReads": 9, "MediaWrites": media, "ReadRequests": 9, "WriteRequests": requests}
    lines = "".join(f"   {name}=0x{value:032x}\n" for name, value in names.items())
    return f"---DimmID={module}---\n{lines}"


def measured(*texts: str) -> DimmMediaMonitor:
    """A monitor that has read these: while the host was idle, at the phase's start, at its end."""
    readings = iter(texts)
    monitor = DimmMediaMonitor(MonitorContext(), lambda: next(readings), idle_s=0)
    monitor.start()
    monitor.stop()
    return monitor


def test_media_counters_are_in_units_of_64_bytes() -> None:
    found = media_counters(RECORDING.read_text())
    assert list(found) == ["0x0011", "0x0021"]
    assert found["0x0011"] == {
        "media_read_bytes": 0x1580458028 * 64,
        "media_write_bytes": 0x115D003898 * 64,
        "request_read_bytes": 0x5F3CE3C * 64,
        "request_write_bytes": 0x5E952D8 * 64,
    }


def test_the_effective_write_ratio_is_that_of_the_measured_phase() -> None:
    monitor = measured(printed(100, 50), printed(110, 50), printed(510, 150))
    found = {metric.name: metric.value for metric in monitor.metrics()}
    assert found["phase_media_write_bytes"] == 400 * 64
    assert found["phase_effective_write_ratio"] == 100 / 400
    drift = monitor.series()["idle_bytes_per_s"]["0x0001"]
    assert drift["media_write_bytes"] > 0 and drift["request_write_bytes"] == 0


@pytest.mark.parametrize("last", [printed(1, 1), printed(900, 900, "0x0101"), ""])
def test_a_module_that_was_reset_or_is_gone_has_no_figures(last: str) -> None:
    assert measured(printed(100, 50), printed(100, 50), last).metrics() == []


def test_a_phase_without_writes_has_no_ratio():
    metrics = measured(*[printed(100, 50)] * 3).metrics()
    assert "phase_effective_write_ratio" not in {metric.name for metric in metrics}


# CXL -----------------------------------------------------------------------------


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A host with a CXL memory device and its PMU."""
    write(tmp_path, "proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6")
    write(tmp_path, "sys/devices/system/cpu/online", "0")
    write(tmp_path, "sys/bus/cxl/devices/mem0/serial", "0x1")
    write(tmp_path, f"{EVENTS}/type", SOFTWARE)
    write(tmp_path, f"{EVENTS}/cpumask", str(min(os.sched_getaffinity(0))))
    for name in ("s2m_drs_memdata", "m2s_rwd_memwr", "m2s_rwd_memwrptl"):
        write(tmp_path, f"{EVENTS}/events/{name}", CPU_CLOCK)
    return tmp_path


def test_a_device_counts_data_read_and_written(device: Path) -> None:
    write(device, f"{EVENTS}/cpumask", "0")
    write(device, f"{EVENTS}/events/s2m_drs_memdata", "config=0x1e98002400000001")
    events = cxl_events(Kernel(device))
    assert [event.counts for event in events] == ["cxl_read_bytes", *["cxl_write_bytes"] * 2]
    assert events[0].event == PerfEvent(1, 0x1E98002400000001)
    assert {event.bytes_per_count for event in events} == {64}


def test_a_direction_of_which_an_event_is_missing_is_left_out(device: Path) -> None:
    (device / EVENTS / "events/m2s_rwd_memwrptl").unlink()
    assert [event.counts for event in cxl_events(Kernel(device))] == ["cxl_read_bytes"]


@as_root
def test_bytes_are_labelled_with_their_device(device: Path) -> None:
    monitor = CxlMonitor(MonitorContext(), Kernel(device))
    assert monitor.preflight() is None
    monitor.start()
    totals = monitor.totals()
    monitor.stop()
    assert totals.keys() == {"cxl_read_bytes[device=mem0]", "cxl_write_bytes[device=mem0]"}


def without_device_counters(device: Path) -> Kernel:
    for file in (device / EVENTS / "events").iterdir():
        file.unlink()
    return Kernel(device)


def test_devices_without_counters_are_not_zero(device: Path) -> None:
    monitor = CxlMonitor(MonitorContext(), without_device_counters(device))
    problem = monitor.preflight()
    assert problem and problem.code == "cxl-not-counted" and "mem0" in problem.context
    assert monitor.totals() == {}


def test_without_counters_of_devices_those_of_ports_count(device: Path) -> None:
    kernel = without_device_counters(device)
    for pmu, number in (("uncore_cxlcm_0", 31), ("uncore_cxldp_0", 32)):
        folder = f"sys/bus/event_source/devices/{pmu}"
        write(device, f"{folder}/type", str(number))
        write(device, f"{folder}/cpumask", "0")
        write(device, f"{folder}/format/event", "config:0-7")
        write(device, f"{folder}/format/umask", "config:8-15")
    events = cxl_events(kernel)
    assert [(e.counts, e.event) for e in events] == [
        ("cxl_read_bytes", PerfEvent(31, 0x1041)),
        ("cxl_write_bytes", PerfEvent(32, 0x2002)),
    ]
    names = CxlMonitor(MonitorContext(), kernel)._sums(events[0], events)
    assert names == ["cxl_read_bytes[port=0,socket=0]"]
