"""Traffic of memory controllers, Optane modules and CXL devices."""

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrowed import present
from recorded_kernel import write

from harness.counters import bandwidths, counter_metrics
from harness.host.uncore import PerfCounter, PerfEvent, Reading, Total, cxl_events, traffic_events
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

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.root)


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def test_an_intel_server_counts_on_every_channel_of_every_socket(sysfs: Sysfs) -> None:
    for channel in (0, 1):
        sysfs.pmu(f"uncore_imc_{channel}", 20 + channel, "0,2")
        sysfs.event(f"uncore_imc_{channel}", "cas_count_read", "event=0x04,umask=0x03")
        sysfs.event(f"uncore_imc_{channel}", "cas_count_write", "event=0x04,umask=0x0c")
        sysfs.event(f"uncore_imc_{channel}", "clockticks", "event=0x00")
    events = traffic_events(sysfs.kernel)
    assert len(events) == 2 * 2 * 2
    assert {(e.cpu, e.socket) for e in events} == {(0, 0), (2, 1)}
    assert {e.bytes_per_count for e in events} == {64.0}
    reads = {e.event for e in events if e.counts == "dram_read_bytes"}
    assert reads == {PerfEvent(20, 0x0304), PerfEvent(21, 0x0304)}
    writes = {e.event for e in events if e.counts == "dram_write_bytes"}
    assert writes == {PerfEvent(20, 0x0C04), PerfEvent(21, 0x0C04)}


@pytest.mark.parametrize(
    ("model", "stepping", "counted"),
    [(85, 7, True), (85, 4, False), (106, 6, True), (79, 1, False)],
)  # Cascade Lake, Skylake, Ice Lake, Broadwell
def test_traffic_of_optane_modules_where_controllers_queue_it(sysfs, model, stepping, counted):
    sysfs.write(
        "proc/cpuinfo",
        f"processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\n"
        f"stepping : {stepping}",
    )
    sysfs.pmu("uncore_imc_0", 20, "0")
    found = {e.counts: e.event.config for e in traffic_events(sysfs.kernel)}
    assert found == ({"pmem_read_bytes": 0xE3, "pmem_write_bytes": 0xE7} if counted else {})


def test_an_amd_server_s_controllers_are_asked_by_the_vendor_s_codes(sysfs: Sysfs) -> None:
    sysfs.pmu("amd_umc_0", 30, "0", rdwrmask="config:8-9")
    found = {e.counts: e.event for e in traffic_events(sysfs.kernel)}
    assert found == {
        "dram_read_bytes": PerfEvent(30, 0x10A),
        "dram_write_bytes": PerfEvent(30, 0x20A),
    }


@pytest.mark.parametrize(
    ("scale", "unit"), [("3.814697266e-6", "MiB"), ("1", "MiB"), ("", "MiB"), (MIB_A_LINE, "")]
)
def test_a_scale_that_is_no_line_of_memory_is_not_believed(sysfs, scale, unit):
    """Linux before 6.1 had 3.8e-6 MiB (4 bytes) for the free-running counters."""
    sysfs.pmu("uncore_imc_free_running", 25, "0")
    sysfs.event("uncore_imc_free_running", "data_read", "event=0xff,umask=0x20", scale, unit)
    assert traffic_events(sysfs.kernel) == []
    sysfs.event("uncore_imc_free_running", "data_read", "event=0xff,umask=0x20")
    assert [e.event.config for e in traffic_events(sysfs.kernel)] == [0x20FF]


def test_bits_of_a_term_may_be_scattered_and_unknown_terms_leave_an_event_out(sysfs):
    sysfs.pmu("uncore_imc_0", 20, "0", event="config:0-3,8", edge="config1:1")
    sysfs.event("uncore_imc_0", "cas_count_read", "event=0x1f,edge")
    sysfs.event("uncore_imc_0", "cas_count_write", "event=0x04,thresh=1")
    assert [e.event for e in traffic_events(sysfs.kernel)] == [PerfEvent(20, 0x10F, 0x2)]


@as_root
def test_a_processor_s_clock_is_counted_as_it_passes() -> None:
    counter = PerfCounter(PerfEvent(PERF_TYPE_SOFTWARE, CPU_CLOCK), min(os.sched_getaffinity(0)))
    outside = time.monotonic_ns()
    before = counter.read()
    inside = time.monotonic_ns()
    time.sleep(0.3)
    least = time.monotonic_ns() - inside
    after = counter.read()
    most = time.monotonic_ns() - outside
    counter.close()
    assert 0.99 * least <= present(after.since(before)) <= 1.01 * most


def test_a_counter_that_shared_its_hardware_is_scaled_over_the_span_asked_for() -> None:
    """Alone for 100 ns, then for half of 100 ns: what the second half had is not in the first."""
    total = Total()
    assert total.at(Reading(1000, 100, 100)) == 1000
    assert total.at(Reading(1000, 200, 150)) == 1000, "it counted nothing while it ran"
    assert total.at(Reading(1300, 300, 250)) == 1300


def test_a_span_in_which_a_counter_did_not_run_has_no_number_and_goes_to_the_next() -> None:
    total = Total()
    assert total.at(Reading(0, 10, 0)) is None, "it never ran"
    assert total.at(Reading(50, 100, 50)) == 100
    assert total.at(Reading(50, 140, 50)) is None
    assert total.at(Reading(90, 200, 90)) == 100 + 40 * (100 / 40)


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
def test_what_happens_on_a_socket_is_in_its_count_and_in_the_sum(two_sockets, monkeypatch):
    cpus = os.sched_getaffinity(0)
    pages = 2000
    monkeypatch.setattr(MemoryTraffic, "interval_s", 0.02)
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel)
    assert traffic.preflight() is None
    with started(traffic):
        before = traffic.totals()
        os.sched_setaffinity(0, {max(cpus)})
        _touch(pages)
        os.sched_setaffinity(0, cpus)
        after = traffic.totals()
        touched = time.monotonic_ns()
        while sum(one["monotonic_ns"] > touched for one in traffic.series()["samples"]) < 3:
            time.sleep(0.01)
    moved = {name: after[name] - before[name] for name in after}
    assert moved["socket_dram_read_bytes[socket=1]"] >= pages * 64
    by_socket = [moved[f"socket_dram_read_bytes[socket={socket}]"] for socket in (0, 1)]
    assert moved["dram_read_bytes"] == sum(by_socket)
    series = traffic.series()
    assert series["events"] == ["uncore_imc_0/cas_count_read/", "uncore_imc_0/cas_count_write/"]
    stamps = [sample["monotonic_ns"] for sample in series["samples"]]
    counts = [sample["dram_read_bytes"] for sample in series["samples"]]
    assert len(stamps) > 2 and stamps == sorted(stamps) and counts == sorted(counts)
    assert counts[-1] >= pages * 64  # since it was opened: the first sample may hold some already


@as_root
def test_a_counter_that_cannot_be_opened_leaves_out_all_of_them(two_sockets: Sysfs) -> None:
    two_sockets.pmu("uncore_imc_1", 4095, "0")
    two_sockets.event("uncore_imc_1", "cas_count_read", "event=0x04")
    traffic = MemoryTraffic(MonitorContext(), two_sockets.kernel)
    warning = traffic.preflight()
    assert warning and warning.context.startswith("uncore_imc_1/cas_count_read/ on")
    with started(traffic):
        assert traffic.totals() == {}


def test_a_host_without_such_counters_says_so_and_invents_nothing(sysfs: Sysfs) -> None:
    traffic = MemoryTraffic(MonitorContext(), sysfs.kernel)
    warning = traffic.preflight()
    assert warning and warning.code == "memory-traffic-not-counted"
    with started(traffic):
        assert traffic.totals() == {}


def test_bandwidth_is_bytes_over_the_query_s_own_time() -> None:
    found = bandwidths({"dram_read_bytes": 3e9, "cpu_ns": 5.0}, 1_500_000_000)
    assert found == {"dram_read_bytes_per_s": 2e9}
    [metric] = counter_metrics("query_", {"query": "6"}, found)
    assert (metric.name, metric.unit) == ("query_dram_read_bytes_per_s", "B/s")


# Counters of devices that are not here --------------------------------------------


RECORDING = Path(__file__).parent / "recordings/ipmctl-performance.txt"
EVENTS = "sys/bus/event_source/devices/cxl_pmu_mem0.0/events"


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
    monitor = measured(printed(100, 50), printed(100, 50), printed(500, 150))
    found = {metric.name: metric.value for metric in monitor.metrics()}
    assert found["phase_media_write_bytes"] == 400 * 64
    assert found["phase_effective_write_ratio"] == 100 / 400


def test_modules_that_write_as_much_when_idle_have_no_ratio() -> None:
    monitor = measured(printed(100, 50), printed(10**9, 50), printed(10**9 + 400, 150))
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
    monitor = DimmMediaMonitor(context, lambda: printed(1, 1, module), 0, Kernel(tmp_path))
    assert (monitor.preflight() is None) is counted


@pytest.mark.parametrize("last", [printed(1, 1), printed(900, 900, "0x0101"), ""])
def test_a_module_that_was_reset_or_is_gone_has_no_figures(last: str) -> None:
    assert measured(printed(100, 50), printed(100, 50), last).metrics() == []


def test_a_phase_without_writes_has_no_ratio():
    metrics = measured(*[printed(100, 50)] * 3).metrics()
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
    assert events[0].event == PerfEvent(1, 0x1E98002400000001)
    assert {event.bytes_per_count for event in events} == {64}


def test_a_direction_of_which_an_event_is_missing_is_left_out(device: Sysfs) -> None:
    (device.root / EVENTS / "m2s_rwd_memwrptl").unlink()
    assert [event.counts for event in cxl_events(device.kernel)] == ["cxl_read_bytes"]


@as_root
def test_bytes_are_labelled_with_their_device(device: Sysfs) -> None:
    monitor = CxlMonitor(MonitorContext(), device.kernel)
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
    assert [(e.counts, e.event) for e in events] == [
        ("cxl_read_bytes", PerfEvent(31, 0x1041)),
        ("cxl_write_bytes", PerfEvent(32, 0x2002)),
    ]
    names = CxlMonitor(MonitorContext(), kernel)._sums(events[0], events)
    assert names == ["cxl_read_bytes[port=0,socket=0]"]
