"""The host's memory mode from ipmctl's words, the firmware's table, and the kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tiers"))

from recorded_kernel import load, write
from smbios_table import memory_device, write_table

from harness.host.dimms import MemoryResources, host_mode, parse_memory_resources
from harness.tiers.linux.kernel import Kernel

_GIB = 1 << 30


_OPTANE_SERVER = (
    "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\nflags : clwb"
)
#: Recorded: QEMU guest, Debian 12, ipmctl 03.00.00.0468, exit code 1.
NO_MODULES = "Initialization failed. No PMem modules in the system.\n"


def table(volatile: str, direct: str, module: str = "PMemModule") -> str:
    """``ipmctl show -memoryresources`` in the columns its manual page names; not a recording."""
    return f"""
 MemoryType   | DDR         | {module}  | Total
==========================================================
 Volatile     | 189.500 GiB | {volatile} | 189.500 GiB
 AppDirect    | -           | {direct} | {direct}
 Cache        | 0.000 GiB   | -           | 0.000 GiB
 Inaccessible | 2.500 GiB   | 5.000 GiB   | 7.500 GiB
 Physical     | 192.000 GiB | 509.000 GiB | 701.000 GiB
"""


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        (table("0.000 GiB", "504.000 GiB"), MemoryResources(0, 504 * _GIB)),
        (table("504.000 GiB", "0.000 GiB"), MemoryResources(504 * _GIB, 0)),
        (table("252.000 GiB", "252.000 GiB", "DCPMM"), MemoryResources(252 * _GIB, 252 * _GIB)),
        (table("0 B", "541165879296 B"), MemoryResources(0, 504 * _GIB)),
        (
            "Capacity=509.0 GiB\nMemoryCapacity=0.0 GiB\nAppDirectCapacity=504.0 GiB\n",
            MemoryResources(0, 504 * _GIB),
        ),
        (NO_MODULES, None),
        ("", None),
    ],
)
def test_ipmctl_memory_resources(text: str, resources: MemoryResources | None) -> None:
    assert parse_memory_resources(text) == resources


def optane(root: Path, volatile: int, persistent: int) -> None:
    """A firmware's table of one module, invented."""
    module: dict[str, Any] = {"size_mib": 129408, "technology": 7, "locator": "A1"}
    write_table(root, memory_device(**module, volatile=volatile, persistent=persistent))


@pytest.mark.parametrize(
    ("volatile", "persistent", "mode"),
    [(0, 126, "AppDirect"), (126, 0, "Memory"), (63, 63, "Mixed")],
)
def test_optane_modules_in_the_firmware_table(tmp_path, volatile, persistent, mode):
    optane(tmp_path, volatile * _GIB, persistent * _GIB)
    found = host_mode(Kernel(tmp_path))
    assert found.mode == mode
    assert "1 Optane modules" in found.evidence


def test_regions_of_the_kernel_mean_appdirect(tmp_path: Path) -> None:
    found = host_mode(load("two-nvdimms-eadr", tmp_path))
    assert found.mode == "AppDirect"
    assert "region0 1.88 GiB, region1 1.88 GiB" in found.evidence


#: ACPI HMAT shows DRAM as a cache in front of node 0; an invented tree.
_CACHE = "/sys/devices/system/node/node0/memory_side_cache/index1/size"


@pytest.mark.parametrize(
    ("file", "text", "mode"),
    [
        (_CACHE, "34359738368", "Memory"),
        ("/proc/cpuinfo", _OPTANE_SERVER, "unknown"),  # without its firmware's table
        ("/proc/cpuinfo", _OPTANE_SERVER.replace("GenuineIntel", "AuthenticAMD"), "Default"),
    ],
)
def test_without_modules_the_kernel_and_the_processor_decide(tmp_path, file, text, mode):
    write(tmp_path, file, text)
    found = host_mode(Kernel(tmp_path))
    assert found.mode == mode
    assert ("as root" in found.evidence) == (mode == "unknown")


def test_modules_whose_capacities_the_firmware_leaves_out_are_looked_for_elsewhere(tmp_path):
    optane(tmp_path, 0, 0)
    write(tmp_path, "/proc/cpuinfo", _OPTANE_SERVER)
    assert host_mode(Kernel(tmp_path)).mode == "unknown"


def test_this_machine_has_a_mode_and_says_why() -> None:
    found = host_mode()
    assert found.mode in ("Default", "AppDirect", "Memory", "Mixed", "unknown")
    assert found.evidence
