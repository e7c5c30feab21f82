"""Traffic of memory controllers, Optane modules and CXL devices."""

import json
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrowed import present
from patience import eventually
from recorded_kernel import write

from harness.counters import bandwidths, counter_metrics
from harness.host.uncore import TrafficEvent, cxl_events, traffic_choices
from harness.monitors import Monitor, MonitorContext
from harness.monitors.cxl import CxlMonitor
from harness.monitors.dimm_media import DimmMediaMonitor, media_counters
from harness.monitors.memory_traffic import MemoryTraffic
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts

PERF_TYPE_SOFTWARE = 1  # linux/perf_event.h
CPU_CLOCK, PAGE_FAULTS = 0, 2  # PERF_COUNT_SW_…
MIB_A_LINE = "6.103515625e-5"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="system-wide counters are root's")


class Sysfs:
    """A tree of files that a Kernel reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\n")
        self.write("sys/devices/system/cpu/online", "0-3")
        for cpu in range(4):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", cpu // 2)

    def write(self, name: str, text: object) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def pmu(self, name: str, number: int, cpumask: str, **terms: str) -> None:
        folder = f"sys/bus/event_source/devices/{name}"
        self.write(f"{folder}/type", number)
        self.write(f"{folder}/cpumask", cpumask)
        formats = {"event": "config:0-7", "umask": "config:8-15"} | terms
        for term, bits in formats.items():
            self.write(f"{folder}/format/{term}", bits)

    def event(
        self, pmu: str, name: str, terms: str, scale: str = MIB_A_LINE, unit: str = "MiB"
    ) -> None:
        path = f"sys/bus/event_source/devices/{pmu}/events/{name}"
        self.write(path, terms)
        self.write(f"{path}.scale", scale)
        self.write(f"{path}.unit", unit)

    def perf(self, processor: str = "6-55-7") -> str:
        """A perf that reads this tree, on an Intel processor of this family, model and stepping."""
        program = self.root / "perf"
        variables = f"SYSFS_PATH={self.root}/sys PERF_CPUID=GenuineIntel-{processor}"
        program.write_text(f'#!/bin/sh\nexec env {variables} perf "$@"\n')
        program.chmod(0o755)
        return str(program)

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.root)


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def test_an_intel_server_counts_on_every_channel(sysfs: Sysfs) -> None:
    for channel in (0, 1):
        sysfs.pmu(f"uncore_imc_{channel}", 20 + channel, "0,2")
        sysfs.event(f"uncore_imc_{channel}", "cas_count_read", "event=0x04,umask=0x03")
        sysfs.event(f"uncore_imc_{channel}", "cas_count_write", "event=0x04,umask=0x0c")
        sysfs.event(f"uncore_imc_{channel}", "clockticks", "event=0x00")
    assert traffic_choices(sysfs.kernel)[-1] == [
        TrafficEvent(f"dram_{direction}_bytes", f"uncore_imc_{channel}/cas_count_{direction}/")
        for channel in (0, 1)
        for direction in ("read", "write")
    ]


@as_root
@pytest.mark.parametrize(
    ("processor", "counted"),
    [("6-55-7", True), ("6-55-4", False), ("6-6A-6", True), ("6-4F-1", False)],
)  # Cascade Lake, Skylake, Ice Lake, Broadwell
def test_traffic_of_optane_modules_where_controllers_queue_it(sysfs, processor, counted):
    """The events' codes are in a word that the stand-in, a clock, does not read."""
    sysfs.pmu("uncore_imc_0", PERF_TYPE_SOFTWARE, "0", event="config1:0-7", umask="config1:8-15")
    sysfs.event("uncore_imc_0", "cas_count_read", "event=0x04")
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel, sysfs.perf(processor))
    assert traffic.preflight() is None
    modules = {"pmem_read_bytes", "pmem_write_bytes"} if counted else set()
    assert {event.counts for event in traffic._events.values()} == {"dram_read_bytes"} | modules


def test_an_amd_server_s_controllers_are_asked_by_the_vendor_s_codes(sysfs: Sysfs) -> None:
    sysfs.pmu("amd_umc_0", 30, "0", rdwrmask="config:8-9")
    assert traffic_choices(sysfs.kernel) == [
        [
            TrafficEvent("dram_read_bytes", "amd_umc_0/event=0x0a,rdwrmask=0x1/"),
            TrafficEvent("dram_write_bytes", "amd_umc_0/event=0x0a,rdwrmask=0x2/"),
        ]
    ]


@as_root
def test_perf_encodes_the_vendor_s_codes(sysfs: Sysfs) -> None:
    sysfs.pmu("amd_umc_0", PERF_TYPE_SOFTWARE, "0", event="config1:0-7", rdwrmask="config1:8-9")
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel, sysfs.perf())
    assert traffic.preflight() is None
    with started(traffic):
        assert traffic.totals()["dram_read_bytes"] > 0


@pytest.mark.parametrize(
    ("scale", "unit"), [("3.814697266e-6", "MiB"), ("1", "MiB"), ("", "MiB"), (MIB_A_LINE, "")]
)
def test_a_scale_that_is_no_line_of_memory_is_not_believed(sysfs, scale, unit):
    """Linux before 6.1 had 3.8e-6 MiB (4 bytes) for the free-running counters."""
    sysfs.pmu("uncore_imc_free_running", 25, "0")
    sysfs.event("uncore_imc_free_running", "data_read", "event=0xff,umask=0x20", scale, unit)
    assert traffic_choices(sysfs.kernel) == [[]]
    sysfs.event("uncore_imc_free_running", "data_read", "event=0xff,umask=0x20")
    (event,) = traffic_choices(sysfs.kernel)[0]
    assert event == TrafficEvent("dram_read_bytes", "uncore_imc_free_running/data_read/")


@as_root
def test_an_event_with_a_term_that_its_pmu_lacks_is_named(sysfs: Sysfs) -> None:
    sysfs.pmu("uncore_imc_0", PERF_TYPE_SOFTWARE, "0")
    sysfs.event("uncore_imc_0", "cas_count_read", "event=0x0,thresh=1")
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel, sysfs.perf())
    warning = traffic.preflight()
    assert warning and warning.code == "memory-traffic-not-counted" and "cas_" in warning.context
    with started(traffic):
        assert traffic.totals() == {}


READS, WRITES = "uncore_imc_0/cas_count_read/", "uncore_imc_0/cas_count_write/"


def printed(sysfs: Sysfs, *intervals: Mapping[str, float | None]) -> list[dict[str, float]]:
    """Samples of intervals of a second, with lines of memory by event; None: not counted."""
    for name in ("cas_count_read", "cas_count_write"):
        sysfs.event("uncore_imc_0", name, "event=0x04")
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel)
    traffic.__dict__["_tried"] = ({e.name: e for e in traffic_choices(sysfs.kernel)[-1]}, "")
    for second, lines in enumerate(intervals, 1):
        for event, value in lines.items():
            text = "<not counted>" if value is None else f"{value}"
            row = {"interval": second, "counter-value": text, "event": event, "pcnt-running": 1.0}
            traffic._perf.receive(json.dumps(row), second * 10**9)
    traffic.stop()
    samples = traffic.series()["samples"]
    return [{k: v / 64 for k, v in sample.items() if k != "monotonic_ns"} for sample in samples]


def test_totals_grow_by_what_perf_counts_in_each_interval(sysfs: Sysfs) -> None:
    assert printed(sysfs, {READS: 100.0, WRITES: 5}, {READS: 50.0, WRITES: 0}) == [
        {"dram_read_bytes": 100, "dram_write_bytes": 5},
        {"dram_read_bytes": 150, "dram_write_bytes": 5},
    ]


def test_an_interval_in_which_a_counter_did_not_run_has_no_number_and_goes_to_the_next(sysfs):
    gap = printed(
        sysfs, {READS: None, WRITES: 5}, {READS: 100.0, WRITES: 5}, {READS: 10, WRITES: 0}
    )
    assert gap == [
        {"dram_write_bytes": 5},
        {"dram_read_bytes": 200, "dram_write_bytes": 10},
        {"dram_read_bytes": 210, "dram_write_bytes": 10},
    ]


@pytest.fixture
def two_sockets(sysfs: Sysfs) -> Sysfs:
    """Controllers of two sockets whose counters are the kernel's page faults and clock."""
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    for socket, cpu in enumerate((first, last)):
        sysfs.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", socket)
    sysfs.write("sys/devices/system/cpu/online", f"0-{last}")
    sysfs.pmu("uncore_imc_0", PERF_TYPE_SOFTWARE, f"{first},{last}")
    sysfs.event("uncore_imc_0", "cas_count_read", f"event={PAGE_FAULTS:#x}")
    sysfs.event("uncore_imc_0", "cas_count_write", f"event={CPU_CLOCK:#x}")
    return sysfs


@contextmanager
def started(monitor: Monitor) -> Iterator[None]:
    monitor.start()
    try:
        yield
    finally:
        monitor.stop()


def _touch(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


@as_root
def test_what_happens_on_a_socket_is_in_its_count_and_in_the_sum(two_sockets):
    cpus = os.sched_getaffinity(0)
    pages = 2000
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel, two_sockets.perf())
    assert traffic.preflight() is None
    with started(traffic):
        before = traffic.totals()
        os.sched_setaffinity(0, {max(cpus)})
        _touch(pages)
        os.sched_setaffinity(0, cpus)
        after = traffic.totals()
        touched = time.monotonic_ns()
        while sum(sample["monotonic_ns"] > touched for sample in traffic.series()["samples"]) < 3:
            time.sleep(0.01)
    moved = {name: after[name] - before[name] for name in after}
    assert moved["socket_dram_read_bytes[socket=1]"] >= pages * 64
    by_socket = [moved[f"socket_dram_read_bytes[socket={socket}]"] for socket in (0, 1)]
    assert moved["dram_read_bytes"] == sum(by_socket)
    series = traffic.series()
    assert series["events"] == [READS, WRITES]
    stamps = [sample["monotonic_ns"] for sample in series["samples"]]
    counts = [sample["dram_read_bytes"] for sample in series["samples"]]
    assert len(stamps) > 2 and stamps == sorted(stamps) and counts == sorted(counts)
    assert counts[-1] >= pages * 64
    assert traffic.warnings() == []


@as_root
def test_a_killed_perf_leaves_its_samples_and_a_warning_and_is_not_waited_for(two_sockets):
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel, two_sockets.perf())
    traffic.start()
    before = traffic.totals()
    present(traffic._perf.process).kill()
    assert eventually(lambda: not traffic._perf.prints)
    assert traffic.totals().keys() == before.keys()
    traffic.stop()
    assert [warning.code for warning in traffic.warnings()] == ["monitor-failed"]


@as_root
def test_a_counter_that_cannot_be_opened_leaves_out_all_of_them(two_sockets: Sysfs) -> None:
    two_sockets.pmu("uncore_imc_1", 4095, "0")
    two_sockets.event("uncore_imc_1", "cas_count_read", "event=0x04")
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel, two_sockets.perf())
    warning = traffic.preflight()
    assert warning and warning.context.startswith("uncore_imc_1/cas_count_read/: ")
    with started(traffic):
        assert traffic.totals() == {}


def test_a_host_without_perf_says_so(two_sockets: Sysfs) -> None:
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel, "/no/perf")
    warning = traffic.preflight()
    assert warning and warning.code == "memory-traffic-not-counted"
    assert "not installed" in warning.context


def test_a_host_without_such_counters_says_so_and_invents_nothing(sysfs: Sysfs) -> None:
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel)
    warning = traffic.preflight()
    assert warning and warning.code == "memory-traffic-not-counted"
    with started(traffic):
        assert traffic.totals() == {}


def test_bandwidth_is_bytes_over_the_query_s_own_time() -> None:
    bandwidth = bandwidths({"dram_read_bytes": 3e9, "cpu_ns": 5.0}, 1_500_000_000)
    assert bandwidth == {"dram_read_bytes_per_s": 2e9}
    [metric] = counter_metrics("query_", {"query": "6"}, bandwidth)
    assert (metric.name, metric.unit) == ("query_dram_read_bytes_per_s", "B/s")


# Counters of devices that are not here --------------------------------------------


RECORDING = Path(__file__).parent / "recordings/ipmctl-performance.txt"
EVENTS = "sys/bus/event_source/devices/cxl_pmu_mem0.0/events"


# Optane modules ------------------------------------------------------------------


def performance(media: int, requests: int, module: str = "0x0001") -> str:
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
    counters = media_counters(RECORDING.read_text())
    assert list(counters) == ["0x0011", "0x0021"]
    assert counters["0x0011"] == {
        "media_read_bytes": 0x1580458028 * 64,
        "media_write_bytes": 0x115D003898 * 64,
        "request_read_bytes": 0x5F3CE3C * 64,
        "request_write_bytes": 0x5E952D8 * 64,
    }


def test_the_effective_write_ratio_is_that_of_the_measured_phase() -> None:
    monitor = measured(performance(100, 50), performance(100, 50), performance(500, 150))
    values = {metric.name: metric.value for metric in monitor.metrics()}
    assert values["phase_media_write_bytes"] == 400 * 64
    assert values["phase_effective_write_ratio"] == 100 / 400


def test_modules_that_write_as_much_when_idle_have_no_ratio() -> None:
    monitor = measured(performance(100, 50), performance(10**9, 50), performance(10**9 + 400, 150))
    assert "phase_effective_write_ratio" not in {metric.name for metric in monitor.metrics()}
    drift = monitor.series()["idle_bytes_per_s"]["0x0001"]
    assert drift["media_write_bytes"] > 0 and drift["request_write_bytes"] == 0


@pytest.mark.parametrize(("module", "counted"), [("0x0001", True), ("0x0101", False)])
def test_modules_of_other_regions_are_not_counted(tmp_path, module, counted):
    """A made-up region on the module 0x0001."""
    files = {"region0/mappings": "1", "region0/mapping0": "nmem0,0,1,0", "nmem0/nfit/handle": "0x1"}
    for name, text in files.items():
        write(tmp_path, f"/sys/bus/nd/devices/{name}", text)
    facts = TierFacts("fsdax", region="region0")
    context = MonitorContext(tiers=[Tier(TierClaim("pmem", "fsdax", path="/x"), facts)])
    monitor = DimmMediaMonitor(context, lambda: performance(1, 1, module), 0, Kernel(tmp_path))
    assert (monitor.preflight() is None) is counted


@pytest.mark.parametrize("last", [performance(1, 1), performance(900, 900, "0x0101"), ""])
def test_a_module_that_was_reset_or_is_gone_has_no_figures(last: str) -> None:
    assert measured(performance(100, 50), performance(100, 50), last).metrics() == []


def test_a_phase_without_writes_has_no_ratio():
    metrics = measured(*[performance(100, 50)] * 3).metrics()
    assert "phase_effective_write_ratio" not in {metric.name for metric in metrics}


# CXL -----------------------------------------------------------------------------


@pytest.fixture
def device(sysfs: Sysfs) -> Sysfs:
    """A host with a CXL memory device and its PMU."""
    sysfs.write("sys/bus/cxl/devices/mem0/serial", "0x1")
    sysfs.pmu("cxl_pmu_mem0.0", PERF_TYPE_SOFTWARE, str(min(os.sched_getaffinity(0))))
    for name in ("s2m_drs_memdata", "m2s_rwd_memwr", "m2s_rwd_memwrptl"):
        sysfs.write(f"{EVENTS}/{name}", f"config={CPU_CLOCK:#x}")
    return sysfs


def test_a_device_counts_data_read_and_written(device: Sysfs) -> None:
    device.write(f"{EVENTS}/s2m_drs_memdata", "config=0x1e98002400000001")
    events = cxl_events(device.kernel)
    assert [event.counts for event in events] == ["cxl_read_bytes", *["cxl_write_bytes"] * 2]
    assert events[0].name == "cxl_pmu_mem0.0/s2m_drs_memdata/"


def test_a_direction_of_which_an_event_is_missing_is_left_out(device: Sysfs) -> None:
    (device.root / EVENTS / "m2s_rwd_memwrptl").unlink()
    assert [event.counts for event in cxl_events(device.kernel)] == ["cxl_read_bytes"]


@as_root
def test_bytes_are_labelled_with_their_device(device: Sysfs) -> None:
    monitor = CxlMonitor(MonitorContext(), device.kernel, device.perf())
    assert monitor.preflight() is None
    monitor.start()
    totals = monitor.totals()
    monitor.stop()
    assert totals.keys() == {"cxl_read_bytes[device=mem0]", "cxl_write_bytes[device=mem0]"}


def without_device_counters(device: Sysfs) -> Kernel:
    for file in (device.root / EVENTS).iterdir():
        file.unlink()
    return device.kernel


def test_devices_without_counters_are_not_zero(device: Sysfs) -> None:
    monitor = CxlMonitor(MonitorContext(), without_device_counters(device))
    problem = monitor.preflight()
    assert problem and problem.code == "cxl-not-counted" and "mem0" in problem.context
    assert monitor.totals() == {}


def test_without_counters_of_devices_those_of_ports_count(device: Sysfs) -> None:
    kernel = without_device_counters(device)
    device.pmu("uncore_cxlcm_0", 31, "0")
    device.pmu("uncore_cxldp_0", 32, "0")
    events = cxl_events(kernel)
    assert events == [
        TrafficEvent("cxl_read_bytes", "uncore_cxlcm_0/event=0x41,umask=0x10/"),
        TrafficEvent("cxl_write_bytes", "uncore_cxldp_0/event=0x02,umask=0x20/"),
    ]
    names = CxlMonitor(MonitorContext(), kernel)._sums(events[0], "0", 1)
    assert names == ["cxl_read_bytes[port=0,socket=0]"]
