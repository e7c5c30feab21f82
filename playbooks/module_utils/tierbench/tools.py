"""Programs that a desired state needs, their packages, and the hardware without which they are
useless: read from sysfs, so that nothing is installed on a host that lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .commands import Commands, Refusal
from .desired_state import DesiredState
from .linux import Kernel

#: Program to the package that has it, in the Debian and RHEL families.
_PACKAGES = {
    "ndctl": "ndctl",
    "daxctl": "daxctl",
    "ipmctl": "ipmctl",
    "blkid": "util-linux",
    "wipefs": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
}
NO_CXL_HINT = "modprobe cxl_acpi cxl_pci; enable CXL in the firmware's settings"
NO_REGION_HINT = (
    "Optane: -e pmem_goal=AppDirect makes one of the modules. CXL memory has none, and"
    " needs none: it is a memory node already, or -e pmem_dax_devices=[NAME] makes it one; of"
    " CXL devices without a CXL region, setup-cxl.yml (harness host apply cxl). Without either,"
    " setup-emulated.yml (harness host apply emulated) sets DRAM aside for trying things out"
)


def missing_tools(desired: DesiredState, commands: Commands, kernel: Kernel) -> tuple[str, ...]:
    """Missing programs that the desired state needs."""
    if desired.mode == "teardown" and not (_nvdimms(kernel) or _dax(kernel) or _memdevs(kernel)):
        return ()  # there is nothing that they could list
    needed = ["ndctl", "daxctl", "blkid"]
    if desired.mode == "cxl":
        needed.append("cxl")
    if desired.has_filesystem:
        needed += ["wipefs", f"mkfs.{desired.filesystem}"]
    if desired.goal != "none" or desired.mode == "memory-mode":
        needed.append("ipmctl")
    return tuple(tool for tool in needed if not commands.has(tool))


def packages_of(tools: Sequence[str], commands: Commands) -> list[str]:
    """Return the packages of missing programs."""
    return sorted({_PACKAGES.get(tool) or _package_of_cxl(commands) for tool in tools})


def _package_of_cxl(commands: Commands) -> str:
    """``cxl-cli`` in the RHEL family, ``cxl`` from Debian 13 on; Debian 12 has it in ``ndctl``."""
    if not commands.has("apt-cache"):
        return "cxl-cli"
    return "ndctl" if commands.run(["apt-cache", "show", "cxl"]).rc else "cxl"


def install_command(packages: Sequence[str], commands: Commands) -> str:
    """The shell command that installs packages."""
    return " ".join(["apt" if commands.has("apt-get") else "dnf", "install", *packages])


def absent_hardware(desired: DesiredState, kernel: Kernel) -> Refusal | None:
    """Refusal of a host without the hardware of the mode; None where there is some."""
    if desired.mode in ("emulated", "teardown"):
        return None
    has_regions = desired.regions != () and _nvdimms(kernel)
    if desired.mode == "cxl":
        present = _memdevs(kernel)
        why = "no CXL memory device: /sys/bus/cxl/devices lists none"
        refusal = Refusal("CXL memory", why, NO_CXL_HINT)
    elif desired.goal != "none" or desired.mode == "memory-mode":
        present = _nvdimms(kernel)
        why = "no persistent memory module: /sys/bus/nd/devices lists none"
        refusal = Refusal("modules", why, "see the memory settings of the firmware")
    elif desired.devices != ():
        present = has_regions or _dax(kernel)
        why = "no DAX device: /sys/bus/dax/devices lists none"
        refusal = Refusal(
            "DAX devices", why, "CXL memory without a region: setup-cxl.yml makes one"
        )
    else:
        present = has_regions
        why = "no region of persistent memory: /sys/bus/nd/devices lists none"
        refusal = Refusal("regions", why, NO_REGION_HINT)
    return None if present else refusal


def _nvdimms(kernel: Kernel) -> bool:
    """Return whether there are modules or regions of persistent memory."""
    return _any(r"(nmem|region)\d+", "/sys/bus/nd/devices", kernel)


def _dax(kernel: Kernel) -> bool:
    return _any(r"dax\d+\.\d+", "/sys/bus/dax/devices", kernel)


def _memdevs(kernel: Kernel) -> bool:
    return _any(r"mem\d+", "/sys/bus/cxl/devices", kernel)


def _any(pattern: str, folder: str, kernel: Kernel) -> bool:
    return any(re.fullmatch(pattern, name) for name in kernel.names(folder))
