"""Monitors of Linux's own files, of the I/O trace and of waits."""

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patience import eventually
from toy_host import advance, block_stat, pressure, write

from harness.iotrace.page import CELL_FIELDS, HEADS_AT, IoTrace
from harness.monitors import MonitorContext
from harness.monitors import waits as module
from harness.monitors.block import BlockMonitor
from harness.monitors.energy import EnergyMonitor
from harness.monitors.io import IoMonitor
from harness.monitors.others import OthersMonitor
from harness.monitors.pressure import PressureMonitor
from harness.monitors.process import ProcessMonitor
from harness.monitors.vm import VmMonitor
from harness.monitors.waits import WaitMonitor
from harness.supervise.process import ProcessId, own_identity
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.waits import Observation, WaitObserver


def test_a_disk_s_rates_are_those_between_two_samples(tmp_path, ssd, monkeypatch):
    stamps = iter([0, 500_000_000, 1_000_000_000])
    monkeypatch.setattr("harness.monitors.block.time.monotonic_ns", lambda: next(stamps))
    monitor = BlockMonitor(MonitorContext(tiers=[ssd]), Kernel(tmp_path))
    samples = []
    for count in (1000, 1100, 1100):
        write(tmp_path, "sys/class/block/vda/stat", block_stat(count))
        samples.append(monitor.sample())
    assert samples[0] == {}, "no time has passed"
    assert samples[1] == {
        "block_read_per_s[device=vda]": 200,
        "block_read_bytes_per_s[device=vda]": 200 * 4096,
        "block_read_await_ns[device=vda]": 2e6,
        "block_write_per_s[device=vda]": 200,
        "block_write_bytes_per_s[device=vda]": 200 * 4096,
        "block_write_await_ns[device=vda]": 2e6,
        "block_flush_per_s[device=vda]": 200,
        "block_flush_await_ns[device=vda]": 1e6,
        "block_queue_depth[device=vda]": 400 / 500,
        "block_utilisation_share[device=vda]": 300 / 500,
    }
    assert "block_read_await_ns[device=vda]" not in samples[2], "no request ended"
    assert samples[2]["block_utilisation_share[device=vda]"] == 0


def test_a_disk_that_counts_anew_has_no_rates(tmp_path: Path, ssd: Tier) -> None:
    monitor = BlockMonitor(MonitorContext(tiers=[ssd]), Kernel(tmp_path))
    for count in (1000, 10):
        write(tmp_path, "sys/class/block/vda/stat", block_stat(count))
        assert monitor.sample() == {}
    (tmp_path / "sys/class/block/vda/stat").unlink()
    assert monitor.sample() == {} and monitor.totals() == {}


def test_a_disk_s_requests_and_times_add_up(tmp_path: Path, ssd: Tier) -> None:
    write(tmp_path, "sys/class/block/vda/stat", block_stat(5))
    totals = BlockMonitor(MonitorContext(tiers=[ssd]), Kernel(tmp_path)).totals()
    assert totals == {
        "block_read_count[device=vda]": 5,
        "block_read_ns[device=vda]": 10e6,
        "block_write_count[device=vda]": 5,
        "block_write_ns[device=vda]": 10e6,
        "block_busy_ns[device=vda]": 15e6,
        "block_queue_ns[device=vda]": 20e6,
        "block_flush_count[device=vda]": 5,
        "block_flush_ns[device=vda]": 5e6,
    }


def test_block_devices_that_are_not_counted(tmp_path: Path, ssd: Tier, pmem: Tier) -> None:
    def code(*tiers: Tier) -> str | None:
        problem = BlockMonitor(MonitorContext(tiers=tiers), Kernel(tmp_path)).preflight()
        return problem.code if problem else None

    assert code() == code(pmem) == "no-block-device"
    assert code(ssd) == "block-not-counted", "the disk is gone"
    write(tmp_path, "sys/class/block/vda/stat", block_stat(5))
    assert code(ssd) is None and code(ssd, pmem) is None
    write(tmp_path, "sys/class/block/vda/queue/iostats", "0")
    assert code(ssd) == "block-not-counted"


def test_stalls_of_the_host_and_of_the_run_s_group(tmp_path: Path) -> None:
    write(tmp_path, "proc/pressure/io", pressure(30))
    write(tmp_path, "group/io.pressure", pressure(20))
    context = MonitorContext(cgroup=tmp_path / "group")
    assert PressureMonitor(context, Kernel(tmp_path)).totals() == {
        "pressure_io_some_ns[of=host]": 30_000,
        "pressure_io_full_ns[of=host]": 30_000,
        "pressure_io_some_ns[of=run]": 20_000,
        "pressure_io_full_ns[of=run]": 20_000,
    }


@pytest.mark.parametrize(("stopped_us", "codes"), [(10, []), (60_000_000, ["cpu-throttled"])])
def test_stops_by_a_quota_are_counted_and_reported(tmp_path, monkeypatch, stopped_us, codes):
    """Of 60 s over all processors, of which 10 µs are no more than what is left of a period."""
    group, proc = tmp_path / "group", tmp_path / "proc/self"
    write(proc, "cgroup", "0::/")
    write(proc, "mountinfo", f"35 25 0:30 / {group} rw shared:4 - cgroup2 cgroup2 rw")
    write(group, "cpu.max", "50000 100000")
    monkeypatch.setattr(PressureMonitor, "interval_s", 0.01)
    monitor = PressureMonitor(MonitorContext(), Kernel(tmp_path))
    write(group, "cpu.stat", "nr_throttled 5\nthrottled_usec 1000")
    monitor.start()
    assert eventually(lambda: len(monitor.series()["samples"]) > 1)
    write(group, "cpu.stat", f"nr_throttled 9\nthrottled_usec {1000 + stopped_us}")
    seen = len(monitor.series()["samples"])
    assert eventually(lambda: len(monitor.series()["samples"]) > seen + 1)
    monitor.stop()
    last = monitor.series()["samples"][-1]
    assert last["cpu_throttled_ns"] == (1000 + stopped_us) * 1000
    assert last["cpu_throttled_count"] == 9
    assert [warning.code for warning in monitor.warnings()] == codes


def test_events_of_memory_management_are_summed_by_kind_and_node(tmp_path: Path) -> None:
    lines = ["pgmajfault 3", "pgdemote_kswapd 10", "pgdemote_direct 5", "nr_dirty 9", "pgfault 4"]
    write(tmp_path, "proc/vmstat", "\n".join(lines))
    for node in (0, 1):
        write(tmp_path, f"sys/devices/system/node/node{node}/vmstat", f"numa_miss {node + 1}")
    monitor = VmMonitor(MonitorContext(), Kernel(tmp_path))
    totals = {
        "vm_pgmajfault_count": 3,
        "vm_pgdemote_count": 15,
        "vm_pgdemote_kswapd_count": 10,
        "vm_pgdemote_direct_count": 5,
        "vm_node_numa_miss_count[node=0]": 1,
        "vm_node_numa_miss_count[node=1]": 2,
    }
    assert monitor.totals() == totals
    assert monitor.sample() == {**totals, "vm_pgfault_count": 4, "vm_nr_dirty_pages": 9}


def test_the_engine_s_memory_is_read_at_both_ends(tmp_path: Path) -> None:
    advance(tmp_path, 1)
    for node in (0, 1):
        write(tmp_path, f"sys/devices/system/node/node{node}/vmstat", "numa_miss 0")
    engine = [ProcessId(7, 0)]
    monitor = VmMonitor(MonitorContext(lambda: engine), Kernel(tmp_path))
    for page in ("N0=3 N1=1", "N0=1 N1=3"):
        write(tmp_path, "proc/7/numa_maps", f"7f00 default anon=4 {page} kernelpagesize_kB=4")
        if page.startswith("N0=3"):
            monitor.start()
    monitor.stop()
    first, last = monitor.series()["engine_memory"]
    assert (first["at"], last["at"]) == ("start", "stop")
    assert first["anonymous_bytes"] == {"0": 3 * 4096, "1": 4096}
    assert last["anonymous_bytes"] == {"0": 4096, "1": 3 * 4096}
    sizes = {(m.labels["at"], m.labels["node"]): m.value for m in monitor.metrics()}
    assert sizes == {
        ("start", "0"): 3 * 4096,
        ("start", "1"): 4096,
        ("stop", "0"): 4096,
        ("stop", "1"): 3 * 4096,
    }


@pytest.mark.parametrize(("filesystem", "whole"), [("ext4", {"0": 30, "1": 8}), ("tmpfs", None)])
def test_the_page_cache_is_that_of_the_control_group(tmp_path: Path, filesystem, whole) -> None:
    advance(tmp_path, 1)
    for node in (0, 1):
        write(tmp_path, f"sys/devices/system/node/node{node}/vmstat", "numa_miss 0")
    stat = "anon N0=10 N1=0\nfile N0=20 N1=8\nshmem N0=5 N1=0"
    write(tmp_path, "group/memory.numa_stat", stat)
    tier: Any = SimpleNamespace(facts=SimpleNamespace(filesystem=filesystem))
    context = MonitorContext(tiers=[tier], cgroup=tmp_path / "group")
    monitor = VmMonitor(context, Kernel(tmp_path))
    monitor.start()
    monitor.stop()
    last = monitor.series()["engine_memory"][-1]
    assert last["page_cache_bytes"] == {"0": 15, "1": 8}
    assert last.get("group_bytes") == whole
    sizes = {m.labels["node"]: m.value for m in monitor.metrics() if "page_cache" in m.name}
    assert sizes == {"0": 15, "1": 8}


@pytest.mark.parametrize("kind", [PressureMonitor, VmMonitor])
def test_this_host_counts(kind: type[PressureMonitor] | type[VmMonitor]) -> None:
    monitor = kind(MonitorContext(), LIVE)
    assert monitor.preflight() is None
    assert all(value >= 0 for value in monitor.totals().values())


def test_bytes_written_to_storage_are_no_counter_of_the_engine() -> None:
    """Linux counts a large folio for each page that is dirtied in it."""
    me = own_identity()
    monitor = ProcessMonitor(MonitorContext(lambda: [me]))
    for counters in (monitor.totals(), monitor.sample()):
        assert "io_read_bytes" in counters and "io_write_bytes" not in counters


# Monitors that sample at an interval ----------------------------------------------


def test_the_last_sample_is_that_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "interval_s", 5)
    monitor = ProcessMonitor(MonitorContext())
    monitor.start()
    assert eventually(lambda: bool(monitor.series()["samples"]))
    time.sleep(0.7)
    stops_ns = time.monotonic_ns()
    monitor.stop()
    assert monitor.series()["samples"][-1]["monotonic_ns"] >= stops_ns


def test_there_is_no_sample_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "interval_s", 3600)
    monitor = ProcessMonitor(MonitorContext())
    monitor.start()
    assert eventually(lambda: bool(monitor.series()["samples"]))
    monitor.stop()
    assert len(monitor.series()["samples"]) == 1


# The series of the I/O trace ------------------------------------------------------


#: Of the page: the number of slots in use, and the first slot's counters of reads of data.
USED_AT, CELL_AT = 28, HEADS_AT + 64


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[IoTrace]:
    traced = IoTrace(tmp_path / "library", directories={"data": tmp_path})
    yield traced
    traced.page.close()


def test_durations_include_planted_delays(trace: IoTrace) -> None:
    counts = {"calls": 2, "bytes": 100, "ns": 30, "delay_ns": 4000}
    os.pwrite(trace.page.descriptor, (1).to_bytes(4, "little"), USED_AT)
    for field, value in counts.items():
        at = CELL_AT + 8 * CELL_FIELDS.index(field)
        os.pwrite(trace.page.descriptor, value.to_bytes(8, "little"), at)
    cell = "[operation=read,part=data,role=foreground]"
    assert IoMonitor(MonitorContext(io_trace=lambda: trace)).sample() == {
        f"calls_count{cell}": 2,
        f"bytes{cell}": 100,
        f"duration_ns{cell}": 4030,
    }


# Energy by RAPL -------------------------------------------------------------------


ZONES = {
    "intel-rapl:0": ("package-0", 1_000_000),
    "intel-rapl:0:0": ("core", 500_000),
    "intel-rapl:0:1": ("dram", 2_000_000),
    "intel-rapl:1": ("package-1", 3_000_000),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for zone, (name, uj) in ZONES.items():
        write(tmp_path, f"sys/class/powercap/{zone}/name", name)
        write(tmp_path, f"sys/class/powercap/{zone}/max_energy_range_uj", "4000000")
        spend(tmp_path, zone, uj)
    return tmp_path


def spend(root: Path, zone: str, uj: int) -> None:
    write(root, f"sys/class/powercap/{zone}/energy_uj", str(uj))


def test_packages_add_up_and_a_counter_may_begin_anew(root: Path) -> None:
    monitor = EnergyMonitor(MonitorContext(), Kernel(root))
    assert monitor.preflight() is None
    monitor.totals()
    spend(root, "intel-rapl:0", 1_500_000)
    spend(root, "intel-rapl:1", 1_000_000)  # of 3 J, over 4 J, to 1 J
    spend(root, "intel-rapl:0:1", 2_250_000)
    assert monitor.totals() == pytest.approx(
        {"energy_j[zone=package]": 0.5 + 2.0, "energy_j[zone=dram]": 0.25}
    )


@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
def test_a_zone_that_cannot_be_read_leaves_out_its_kind(root: Path, file: str) -> None:
    """Without its range, a counter that restarts would add nothing."""
    (root / "sys/class/powercap/intel-rapl:1" / file).unlink()
    monitor = EnergyMonitor(MonitorContext(), Kernel(root))
    problem = monitor.preflight()
    assert problem is not None and file in problem.context
    assert monitor.totals().keys() == {"energy_j[zone=dram]"}


def test_a_host_without_counters_is_named() -> None:
    problem = EnergyMonitor(MonitorContext(), Kernel(Path("/nonexistent"))).preflight()
    assert problem is not None and problem.code == "energy-not-counted"


# The waits monitor ----------------------------------------------------------------


class Engine(WaitObserver):
    """One session that waits for a lock; at times the engine fails or does not answer."""

    def __init__(self) -> None:
        self.events = {"row": "lock"}
        self.fails = self.hangs = self.closed = False
        self.observed = 0
        self.resumes = threading.Event()

    def observe(self) -> Sequence[Observation]:
        self.observed += 1
        if self.fails:
            raise OSError("the server restarts")
        if self.hangs:
            self.resumes.wait()
        return [Observation("waiting", "row")]

    def close(self) -> None:
        self.closed = True


def test_a_short_query_is_left_alone_and_a_young_one_observed_most_often():
    pauses = [module.pause_s(age) for age in (0.0, 0.03, 0.1, 1.0, 60.0)]
    assert pauses == pytest.approx([0.1, 0.07, 0.02, 0.05, 0.1])


def watched(engine: Engine) -> WaitMonitor:
    monitor = WaitMonitor(MonitorContext(waits=lambda: engine))
    assert monitor.preflight() is None
    monitor.start()
    return monitor


def test_its_totals_and_series_hold_what_was_observed():
    monitor = watched(engine := Engine())
    before = monitor.totals()
    assert eventually(lambda: engine.observed > 10)
    after = monitor.totals()
    monitor.stop()
    name = "wait_ns[resource=lock]"
    assert after[name] > before[name]
    assert engine.closed
    series = monitor.series()
    assert series["samples"][0].keys() >= {"monotonic_ns", name}
    assert series["events"]["row"]["resource"] == "lock"


def test_it_counts_failed_observations_and_continues():
    monitor = watched(engine := Engine())
    engine.fails = True
    assert eventually(lambda: monitor.series()["failed_observations"] > 2)
    engine.fails = False
    seen = engine.observed
    assert eventually(lambda: engine.observed > seen + 2)
    monitor.stop()
    assert monitor.series()["events"]["row"]["wait_ns"] > 0


def test_an_engine_that_does_not_answer_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    monitor = watched(engine := Engine())
    engine.hangs = True
    seen = engine.observed
    assert eventually(lambda: engine.observed > seen)
    monitor.stop()
    engine.resumes.set()


def ticks(root: Path, stat: str, processes: dict[int, tuple[int, int, int]]) -> None:
    """Lay a made-up /proc out: of each process its parent, its own ticks and its children's."""
    write(root, "proc/stat", f"cpu  {stat} 0 0\ncpu0 0 0\ncpu1 0 0\n")
    for pid, (parent, own_ticks, children) in processes.items():
        fields = f"S {parent} 0 0 0 0 0 0 0 0 0 {own_ticks} 0 {children} 0 20 0 1 0 0"
        write(root, f"proc/{pid}/stat", f"{pid} (a (b) c) {fields}")


@pytest.mark.parametrize(
    ("others", "stolen", "codes"),
    [(0, 0, set()), (9, 0, set()), (15, 0, {"other-load"}), (0, 3, {"stolen-while-measuring"})],
)
def test_what_others_use_is_neither_the_harness_s_nor_the_kernel_s(tmp_path, others, stolen, codes):
    """On two processors: of 200 ticks, 0.1 processors are 10."""
    monitor = OthersMonitor(MonitorContext(waits=lambda: None), Kernel(tmp_path), 10)
    # Harness, a server whose backends end, a thread of the kernel, and another program.
    before = {10: (1, 0, 0), 11: (10, 0, 0), 2: (0, 0, 0), 3: (2, 0, 0), 50: (1, 1000, 0)}
    ticks(tmp_path, "1000 0 0 0 0 0 0 0", before)
    monitor.start()
    after = {**before, 11: (10, 40, 20), 3: (2, 30, 0), 50: (1, 1000 + others, 0)}
    busy = 90 + others
    ticks(tmp_path, f"{1000 + busy} 0 0 {200 - busy - stolen} 0 0 0 {stolen}", after)
    monitor.stop()
    shares = {metric.name: metric.value for metric in monitor.metrics()}
    assert shares == {"other_cpu_share": others / 200, "stolen_cpu_share": stolen / 200}
    assert {warning.code for warning in monitor.warnings()} == codes


def test_a_thread_of_the_kernel_that_has_ended_leaves_its_time_to_nobody(tmp_path) -> None:
    """Its 500 ticks, of before, are no program's; a new one's 30 are the kernel's."""
    monitor = OthersMonitor(MonitorContext(), Kernel(tmp_path), 10)
    ticks(tmp_path, "1000 0 0 0 0 0 0 0", {10: (1, 0, 0), 2: (0, 0, 0), 3: (2, 500, 0)})
    monitor.start()
    shutil.rmtree(tmp_path / "proc/3")
    ticks(tmp_path, "1030 0 0 170 0 0 0 0", {10: (1, 0, 0), 2: (0, 0, 0), 4: (2, 30, 0)})
    monitor.stop()
    assert {metric.value for metric in monitor.metrics()} == {0.0}


def test_a_server_of_the_user_s_own_is_no_other_program(tmp_path) -> None:
    monitor = OthersMonitor(MonitorContext(external=True), Kernel(tmp_path), 10)
    for busy in (0, 100):
        ticks(tmp_path, f"{busy} 0 0 {busy} 0 0 0 0", {10: (1, 0, 0)})
        (monitor.stop if busy else monitor.start)()
    assert monitor.metrics() == () and monitor.warnings() == ()
