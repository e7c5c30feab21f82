"""Host facts and the memory mode: of this machine, of a recorded one, and of firmware tables."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from recorded_kernel import load, write
from smbios_table import memory_device, write_table

from harness import structs
from harness.host import processors
from harness.host.confounders import uncontrolled
from harness.host.dimms import parse_smbios
from harness.host.facts import host_facts
from harness.host.memory_mode import MemoryResources, host_mode, parse_memory_resources
from harness.store.host import HostFacts
from harness.tiers.discovery import find_tiers
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts


def test_facts_of_this_machine_fit_the_schema_and_agree_with_python(monkeypatch, tmp_path):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    facts = host_facts(find_tiers(None, ["pmem"]).values())
    document = json.loads(json.dumps(facts))
    assert structs.convert(document, HostFacts, "host_facts()").to_json() == document
    assert facts["cpu"]["threads"] == os.cpu_count()
    assert facts["kernel"]["release"] == os.uname().release
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["memory_bytes"] == pytest.approx(pages, rel=0.05)
    assert {mount["tier"] for mount in facts["mounts"]} >= {"ssd", "pmem"}


def test_the_machine_id_itself_stays_at_home(tmp_path: Path) -> None:
    write(tmp_path, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    facts = host_facts((), Kernel(tmp_path))
    assert len(facts["host_id"]) == 16
    assert facts["host_id"] not in "0123456789abcdef0123456789abcdef"


def test_init_arguments_on_the_kernel_command_line_are_not_recorded(tmp_path: Path) -> None:
    write(tmp_path, "/proc/cmdline", "root=/dev/sda quiet -- --token=secret\n")
    assert host_facts((), Kernel(tmp_path))["kernel"]["cmdline"] == "root=/dev/sda quiet"


# Processors ---------------------------------------------------------------------------


def msr(root: Path, processor: int, register: int, value: int) -> None:
    """A processor's registers, as /dev/cpu/N/msr has them: eight bytes at each one's number."""
    path = root / f"dev/cpu/{processor}/msr"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:  # sparse: AMD's register lies at 3 GiB
        stream.seek(register)
        stream.write(value.to_bytes(8, "little"))


INTEL, AMD = ("GenuineIntel", 0x1A4), ("AuthenticAMD", 0xC000_0108)


@pytest.mark.parametrize(
    ("vendor", "values", "expected"),
    [
        (INTEL, (0, 0), "enabled"),
        (INTEL, (0xF, 0xF), "disabled"),
        (INTEL, (0x5, 0x5), "disabled: L2, L1"),
        (INTEL, (0, 0xF), "differ"),
        (AMD, (0x3C0, 0x3C0), "enabled"),  # after reset: an aggressiveness profile
        (AMD, (0x3EF, 0x3EF), "disabled"),
        (("ARM", 0x1A4), (0,), "unreadable"),
    ],
)
def test_prefetchers_are_what_the_registers_of_all_processors_say(
    tmp_path: Path, vendor: tuple[str, int], values: tuple[int, ...], expected: str
) -> None:
    name, register = vendor
    write(tmp_path, "/proc/cpuinfo", f"processor : 0\nvendor_id : {name}\nflags : clwb\n")
    for processor, value in enumerate(values):
        msr(tmp_path, processor, register, value)
    assert host_facts((), Kernel(tmp_path))["prefetchers"] == expected


def test_prefetchers_without_a_register_or_in_a_virtual_machine_are_unreadable(tmp_path):
    cpuinfo = "processor : 0\nvendor_id : GenuineIntel\nflags : clwb{}\n"
    write(tmp_path, "/proc/cpuinfo", cpuinfo.format(""))
    facts = host_facts((), Kernel(tmp_path))
    assert facts["prefetchers"] == "unreadable"
    assert [note for note in facts["notes"] if "prefetchers" in note]
    msr(tmp_path, 0, 0x1A4, 0)
    assert host_facts((), Kernel(tmp_path))["prefetchers"] == "enabled"
    write(tmp_path, "/proc/cpuinfo", cpuinfo.format(" hypervisor"))
    assert host_facts((), Kernel(tmp_path))["prefetchers"] == "unreadable"


def test_governor_turbo_and_smt_of_an_invented_intel_server(tmp_path: Path) -> None:
    for number, governor in enumerate(["performance", "powersave"]):
        write(
            tmp_path,
            f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor",
            f"{governor}\n",
        )
    write(tmp_path, "/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
    write(tmp_path, "/sys/devices/system/cpu/smt/active", "1\n")
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    kernel = Kernel(tmp_path)
    assert processors.governor(kernel) == "performance, powersave"
    assert processors.turbo(kernel) is True
    assert processors.smt(kernel) is True
    assert processors.thp(kernel) == "always"


def test_cores_are_counted_over_sockets(tmp_path: Path) -> None:
    blocks = [
        f"processor : {2 * socket + core}\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\n"
        f"model name : Xeon\nphysical id : {socket}\ncore id : {core}\nflags : clwb avx512f fpu"
        for socket in (0, 1)
        for core in (0, 1)
    ]
    write(tmp_path, "/proc/cpuinfo", "\n\n".join(blocks))
    facts = processors.cpu(Kernel(tmp_path))
    assert (facts.sockets, facts.cores, facts.threads) == (2, 4, 4)
    assert facts.flags == ("clwb", "avx512f")


# Firmware ------------------------------------------------------------------------------


def test_modules_of_the_firmware_table() -> None:
    table = (
        bytes([0, 8, 0, 0, 1, 1, 1, 1]) + b"BIOS\0\0"
        + memory_device(
            size_mib=32768, technology=3, volatile=32 << 30, persistent=0, locator="A1"
        )
        + memory_device(
            size_mib=129408, technology=7, volatile=0, persistent=126 << 30, locator="A2"
        )
        + memory_device(size_mib=0, technology=2, volatile=0, persistent=0, locator="A3")
    )  # fmt: skip
    dram, optane = parse_smbios(table)
    assert (dram.locator, dram.technology, dram.type) == ("A1", "DRAM", "DDR4")
    assert dram.size_bytes == 32 << 30
    assert (optane.technology, optane.speed_mts, optane.manufacturer) == ("Optane", 2666, "Maker")
    assert optane.size_bytes == 129408 << 20
    assert optane.persistent_bytes == 126 << 30


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [((2666, 2666), "2666 MT/s"), ((2666, 3200), "2666, 3200 MT/s"), ((2666, 0), "unreadable"),
     ((), "unreadable")],
)  # fmt: skip
def test_the_memory_bus_runs_as_configured_not_as_modules_are_able_to(tmp_path, speeds, expected):
    module = {"size_mib": 1024, "technology": 3, "volatile": 1 << 30, "persistent": 0}
    devices = [
        memory_device(**module, locator=f"A{slot}", speed_mts=speed, able_mts=3200)
        for slot, speed in enumerate(speeds)
    ]
    if devices:
        write_table(tmp_path, *devices)
    assert host_facts((), Kernel(tmp_path))["memory_speed"] == expected


def test_a_cut_off_table_gives_what_is_whole() -> None:
    whole = memory_device(size_mib=1024, technology=3, volatile=0, persistent=0, locator="A1")
    assert len(list(parse_smbios(whole + b"\x11\x54"))) == 1


# What is uncontrolled ----------------------------------------------------------------------


def test_everything_that_moves_results_is_found_with_a_remedy(tmp_path: Path) -> None:
    """An invented laptop-like server: nothing is held still."""
    write(tmp_path, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    write(tmp_path, "/sys/devices/system/cpu/cpufreq/boost", "1\n")
    write(tmp_path, "/sys/devices/system/cpu/smt/active", "1\n")
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    write(tmp_path, "/proc/sys/kernel/randomize_va_space", "2\n")
    write(tmp_path, "/proc/sys/kernel/numa_balancing", "1\n")
    write(tmp_path, "/sys/kernel/mm/numa/demotion_enabled", "true\n")
    write(tmp_path, "/proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 500 kB\n")
    write(tmp_path, "/proc/stat", "cpu 50 0 50 800 0 0 0 100 0 0\n")
    write(tmp_path, "/proc/loadavg", "8.00 1 1 1/2 3\n")
    write(tmp_path, "/proc/cpuinfo", "processor : 0\nflags : hypervisor\n")
    for node in (0, 1):
        write(tmp_path, f"/sys/devices/system/node/node{node}/cpulist", str(node))
    unsafe = Tier(
        TierClaim("ssd", "block", path="/x"),
        TierFacts("block", mount_point="/x", mount_options=("rw", "nobarrier")),
    )
    write(tmp_path, "/proc/self/cgroup", "0::/batch\n")
    group = tmp_path / "sys/fs/cgroup"
    write(tmp_path, "/proc/self/mountinfo", f"1 1 0:1 / {group} rw - cgroup2 cgroup2 rw\n")
    write(tmp_path, "/sys/fs/cgroup/batch/cpu.max", "150000 100000\n")
    swappable = Tier(TierClaim("pmem", "tmpfs", path="/y"), TierFacts("tmpfs", mount_point="/y"))
    tiers = [unsafe, swappable]
    findings = {
        finding.code: finding for finding in uncontrolled(tiers, Kernel(tmp_path), idle=True)
    }
    assert set(findings) == {
        "frequency-governor",
        "turbo-enabled",
        "smt-enabled",
        "virtual-machine",
        "stolen-cpu-time",
        "other-load",
        "transparent-huge-pages",
        "swap-enabled",
        "address-randomization",
        "threads-not-pinned",
        "numa-balancing",
        "memory-demotion",
        "write-barriers-off",
        "cpu-quota",
        "tmpfs-swappable",
    }
    assert findings["cpu-quota"].context.startswith("1.5 processors")
    assert findings["stolen-cpu-time"].context.startswith("10.0%")
    assert all(finding.hint for finding in findings.values())
    pinned = {
        finding.code for finding in uncontrolled(tiers, Kernel(tmp_path), pinned=True, idle=True)
    }
    assert findings.keys() - pinned == {"threads-not-pinned"}  # threads with a processor each


def test_a_well_kept_server_has_no_findings(tmp_path: Path) -> None:
    write(tmp_path, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    write(tmp_path, "/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path, "/proc/sys/kernel/randomize_va_space", "0\n")
    write(tmp_path, "/proc/cpuinfo", "processor : 0\nflags : clwb\n")
    assert uncontrolled((), Kernel(tmp_path)) == []


def test_the_kernel_s_access_monitor_is_reported_with_its_actions(tmp_path: Path) -> None:
    """DAMON's tree as the kernel lays it out (admin-guide/mm/damon/usage)."""
    kdamonds = "/sys/kernel/mm/damon/admin/kdamonds"
    write(tmp_path, f"{kdamonds}/nr_kdamonds", "3\n")
    for monitor, state in enumerate(("on", "on", "off")):
        write(tmp_path, f"{kdamonds}/{monitor}/state", f"{state}\n")
    for scheme, action in enumerate(("stat", "migrate_cold", "pageout", "pageout")):
        place = f"{kdamonds}/0/contexts/{scheme % 2}/schemes/{scheme}/action"
        write(tmp_path, place, f"{action}\n")
    write(tmp_path, f"{kdamonds}/2/contexts/0/schemes/0/action", "pageout\n")
    write(tmp_path, "/sys/module/damon_reclaim/parameters/enabled", "Y\n")
    write(tmp_path, "/sys/module/damon_lru_sort/parameters/enabled", "N\n")
    findings = [
        (finding.problem, finding.context.partition(" by ")[0])
        for finding in uncontrolled((), Kernel(tmp_path))
    ]
    assert findings[-3:] == [
        ("DAMON kdamond 0", "on: migrate_cold, pageout"),
        ("DAMON kdamond 1", "on: monitors pages"),
        ("DAMON module damon_reclaim", "on"),
    ]


# The memory mode ------------------------------------------------------------------


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
    host = host_mode(Kernel(tmp_path))
    assert host.mode == mode
    assert "1 Optane modules" in host.evidence


def test_regions_of_the_kernel_mean_appdirect(tmp_path: Path) -> None:
    host = host_mode(load("two-nvdimms-eadr", tmp_path))
    assert host.mode == "AppDirect"
    assert "region0 1.88 GiB, region1 1.88 GiB" in host.evidence


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
    host = host_mode(Kernel(tmp_path))
    assert host.mode == mode
    assert ("as root" in host.evidence) == (mode == "unknown")


def test_modules_whose_capacities_the_firmware_leaves_out_are_looked_for_elsewhere(tmp_path):
    optane(tmp_path, 0, 0)
    write(tmp_path, "/proc/cpuinfo", _OPTANE_SERVER)
    assert host_mode(Kernel(tmp_path)).mode == "unknown"
