"""Energy by RAPL, on a tree that follows Documentation/power/powercap: there is none here."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_host import write

from harness.monitors import MonitorContext
from harness.monitors.energy import EnergyMonitor
from harness.tiers.linux.kernel import Kernel

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


def test_a_zone_that_cannot_be_read_leaves_out_its_kind(root: Path) -> None:
    (root / "sys/class/powercap/intel-rapl:1/energy_uj").unlink()
    monitor = EnergyMonitor(MonitorContext(), Kernel(root))
    assert monitor.preflight() is not None
    assert monitor.totals().keys() == {"energy_j[zone=dram]"}


def test_a_host_without_counters_is_named() -> None:
    problem = EnergyMonitor(MonitorContext(), Kernel(Path("/nonexistent"))).preflight()
    assert problem is not None and problem.code == "energy-not-counted"
