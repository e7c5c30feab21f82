"""Monitors of Linux's own files, on trees that follow its documentation.

block: Documentation/block/stat.rst; pressure: Documentation/accounting/psi.rst; vm: mm/vmstat.c
and proc(5), numa_maps.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_host import advance, block_stat, pressure, write

from harness.monitors import MonitorContext
from harness.monitors.block import BlockMonitor
from harness.monitors.pressure import PressureMonitor
from harness.monitors.process import ProcessMonitor
from harness.monitors.vm import VmMonitor
from harness.supervise.process import ProcessId, own_identity
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier


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


def test_events_of_memory_management_are_summed_by_kind_and_node(tmp_path: Path) -> None:
    lines = ["pgmajfault 3", "pgdemote_kswapd 10", "pgdemote_direct 5", "nr_dirty 9", "pgfault 4"]
    write(tmp_path, "proc/vmstat", "\n".join(lines))
    for node in (0, 1):
        write(tmp_path, f"sys/devices/system/node/node{node}/vmstat", f"numa_miss {node + 1}")
    monitor = VmMonitor(MonitorContext(), Kernel(tmp_path))
    totals = {
        "vm_pgmajfault_count": 3,
        "vm_pgdemote_count": 15,
        "vm_node_numa_miss_count[node=0]": 1,
        "vm_node_numa_miss_count[node=1]": 2,
    }
    assert monitor.totals() == totals
    assert monitor.sample() == {**totals, "vm_pgfault_count": 4, "vm_nr_dirty_pages": 9}


def test_the_engine_s_memory_is_read_at_both_ends(tmp_path: Path) -> None:
    advance(tmp_path, 1)
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


@pytest.mark.parametrize("kind", [PressureMonitor, VmMonitor])
def test_this_host_counts(kind: type[PressureMonitor] | type[VmMonitor]) -> None:
    monitor = kind(MonitorContext(), LIVE)
    assert monitor.preflight() is None
    assert all(value >= 0 for value in monitor.totals().values())


def test_bytes_written_to_storage_are_no_counter_of_the_engine() -> None:
    """Linux counts a large folio for each page that is dirtied in it."""
    me = own_identity()
    monitor = ProcessMonitor(MonitorContext(lambda: [me]))
    for found in (monitor.totals(), monitor.sample()):
        assert "io_read_bytes" in found and "io_write_bytes" not in found
