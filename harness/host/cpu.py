"""Processors: model, topology, the instructions that matter, and how they are set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from harness.tiers.linux.kernel import Kernel

_CPU = "/sys/devices/system/cpu"
#: Instructions that persistence and vector kernels use: x86 flags and Arm features.
PERSISTENCE_FLAGS = ("clflush", "clflushopt", "clwb", "movdiri", "movdir64b", "dcpop", "dcpodp")
VECTOR_FLAGS = ("sse2", "avx2", "avx512f", "avx512vl", "asimd", "sve")
OTHER_FLAGS = (
    "cldemote",
    "enqcmd",
    "serialize",
    "constant_tsc",
    "nonstop_tsc",
    "rdtscp",
    "atomics",
)
#: Intel family 6 models whose servers take Optane modules: Cascade Lake and Cooper Lake, Ice Lake,
#: Sapphire Rapids and Emerald Rapids.
_OPTANE_MODELS = frozenset({85, 106, 108, 143, 207})
RELEVANT_FLAGS = PERSISTENCE_FLAGS + VECTOR_FLAGS + OTHER_FLAGS
#: A setting that cannot be read: equal to no known one.
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Cpu:
    """All processors online; ``online`` as in sysfs (``0-63``). ``cores``: of all sockets."""

    model: str
    vendor: str
    family: int
    model_number: int
    sockets: int
    cores: int
    threads: int
    flags: tuple[str, ...]
    microcode: str | None
    online: str
    hypervisor: bool

    @property
    def takes_optane(self) -> bool:
        """Whether its model is one of servers that take Optane modules."""
        models = self.vendor == "GenuineIntel" and self.family == 6
        return models and self.model_number in _OPTANE_MODELS


def cpu(kernel: Kernel) -> Cpu:
    """What /proc/cpuinfo and sysfs say."""
    blocks = _cpuinfo(kernel)
    first = blocks[0] if blocks else {}
    sockets = {block.get("physical id", "0") for block in blocks}
    cores = {
        (block.get("physical id"), block.get("core id", block.get("processor"))) for block in blocks
    }
    words = set((first.get("flags") or first.get("Features") or "").split())
    return Cpu(
        model=first.get("model name") or _arm_model(first),
        vendor=first.get("vendor_id", ""),
        family=_number(first.get("cpu family")),
        model_number=_number(first.get("model")),
        sockets=len(sockets) or 1,
        cores=len(cores) or 1,
        threads=len(blocks) or 1,
        flags=tuple(flag for flag in RELEVANT_FLAGS if flag in words),
        microcode=first.get("microcode"),
        online=kernel.read(f"{_CPU}/online") or "",
        hypervisor="hypervisor" in words,
    )


def _cpuinfo(kernel: Kernel) -> list[dict[str, str]]:
    blocks = []
    for text in (kernel.read("/proc/cpuinfo") or "").split("\n\n"):
        pairs = (line.partition(":") for line in text.splitlines())
        block = {name.strip(): value.strip() for name, _, value in pairs}
        if "processor" in block:
            blocks.append(block)
    return blocks


def _arm_model(block: dict[str, str]) -> str:
    parts = (block.get("CPU implementer"), block.get("CPU part"))
    return f"Arm {'/'.join(part for part in parts if part)}" if any(parts) else "unknown"


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else -1


def governor(kernel: Kernel) -> str | None:
    """The frequency governor of all processors (``performance``), or those that there are."""
    names = (name for name in kernel.names(_CPU) if name[3:].isdigit())
    result = {kernel.read(f"{_CPU}/{name}/cpufreq/scaling_governor") for name in names}
    return ", ".join(sorted(each for each in result if each)) or None


def turbo(kernel: Kernel) -> bool | None:
    """Whether clocks may rise above the base frequency; None if unknown."""
    off = kernel.read(f"{_CPU}/intel_pstate/no_turbo")
    if off is not None:
        return off == "0"
    boost = kernel.read(f"{_CPU}/cpufreq/boost")
    return None if boost is None else boost == "1"


def smt(kernel: Kernel) -> bool | None:
    """Whether two threads share a core now; None if unknown."""
    active = kernel.read(f"{_CPU}/smt/active")
    return None if active is None else active == "1"


def thp(kernel: Kernel) -> str | None:
    """The transparent huge page setting in force: always, madvise or never."""
    text = kernel.read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), None)


def aslr(kernel: Kernel) -> str | None:
    """Address space randomisation as the sysctl has it, in words."""
    value = kernel.read("/proc/sys/kernel/randomize_va_space")
    return {"0": "off", "1": "partial", "2": "full"}.get(value or "", value)


def virtualised(kernel: Kernel) -> str | None:
    """What this runs inside of (a hypervisor, a container), None on bare metal."""
    vendor = kernel.read("/sys/class/dmi/id/sys_vendor")
    product = kernel.read("/sys/class/dmi/id/product_name")
    machine = " ".join(word for word in (vendor, product) if word)
    result = []
    if cpu(kernel).hypervisor:
        result.append(f"virtual machine ({machine})" if machine else "virtual machine")
    if kernel.path("/.dockerenv").exists() or kernel.path("/run/.containerenv").exists():
        result.append("container")
    elif (kernel.read("/run/systemd/container")) is not None:
        result.append(f"container ({kernel.read('/run/systemd/container')})")
    return ", ".join(result) or None


def uncore_frequency(kernel: Kernel) -> str:
    """``1200-2400 MHz``: what the uncore of Intel's processors may run at, which moves what
    crosses the last-level cache; several where dies differ. ``unreadable`` without the module
    intel_uncore_frequency.
    """
    ranges = set()
    for domain in kernel.names(f"{_CPU}/intel_uncore_frequency"):
        folder = f"{_CPU}/intel_uncore_frequency/{domain}"
        least, most = (kernel.read_int(f"{folder}/{end}_freq_khz") for end in ("min", "max"))
        if least is None or most is None:
            return UNREADABLE
        ranges.add((least // 1000, most // 1000))
    texts = ", ".join(f"{least}-{most}" for least, most in sorted(ranges))
    return f"{texts} MHz" if texts else UNREADABLE


# Prefetchers -----------------------------------------------------------------------

# Intel: "Disclosure of Hardware Prefetcher Control on Some Intel Processors". AMD from Zen 3:
# Prefetch Control (Processor Programming Reference). A set bit switches its prefetcher off. Only
# root may read the registers, and only with the module ``msr``; inside a virtual machine they are
# not the processor's.
#: By vendor: the register, and its prefetchers by bit.
_REGISTERS: Mapping[str, tuple[int, Mapping[int, str]]] = {
    "GenuineIntel": (0x1A4, {0: "L2", 1: "L2 adjacent line", 2: "L1", 3: "L1 IP"}),
    "AuthenticAMD": (
        0xC000_0108,
        {0: "L1 stream", 1: "L1 stride", 2: "L1 region", 3: "L2 stream", 5: "L2 up/down"},
    ),
}


def prefetchers(kernel: Kernel) -> str:
    """``enabled``, ``disabled``, ``disabled: L2, L1``; ``unreadable`` where it cannot be read.

    ``differ`` where one processor is set differently from another.
    """
    processor = cpu(kernel)
    known = _REGISTERS.get(processor.vendor)
    if known is None or processor.hypervisor:
        return UNREADABLE
    register, names = known
    numbers = [name for name in kernel.names("/dev/cpu") if name.isdigit()]
    result = {_state(_register(kernel, number, register), names) for number in numbers}
    if not result or UNREADABLE in result:
        return UNREADABLE
    return result.pop() if len(result) == 1 else "differ"


def _register(kernel: Kernel, processor: str, register: int) -> int | None:
    try:
        with kernel.path(f"/dev/cpu/{processor}/msr").open("rb", buffering=0) as file:
            value = os.pread(file.fileno(), 8, register)
    except OSError:
        return None
    return int.from_bytes(value, "little") if len(value) == 8 else None


def _state(value: int | None, names: Mapping[int, str]) -> str:
    if value is None:
        return UNREADABLE
    off = [name for bit, name in names.items() if value >> bit & 1]
    if not off:
        return "enabled"
    return "disabled" if len(off) == len(names) else f"disabled: {', '.join(off)}"
