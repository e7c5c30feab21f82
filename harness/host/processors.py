"""Processors: model, topology, settings, and which of them an engine may run on.

Those are written ``0``, ``0-7,16-23``, ``socket:0``, ``node:0``, or ``socket:data``, the socket
that the tier of the data is attached to. The VLDB 2023 paper pins every database to socket 0 (§3.1)
and discusses one core (§7.1 iv). A socket or node means those of its processors that are online and
that this process may use; a list means exactly these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.tiers.linux.kernel import LIVE, Kernel

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
        """Return whether its model is one of servers that take Optane modules."""
        models = self.vendor == "GenuineIntel" and self.family == 6
        return models and self.model_number in _OPTANE_MODELS


def cpu(kernel: Kernel) -> Cpu:
    """Facts that /proc/cpuinfo and sysfs state."""
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
    """Return whether clocks may rise above the base frequency; None if unknown."""
    off = kernel.read(f"{_CPU}/intel_pstate/no_turbo")
    if off is not None:
        return off == "0"
    boost = kernel.read(f"{_CPU}/cpufreq/boost")
    return None if boost is None else boost == "1"


def smt(kernel: Kernel) -> bool | None:
    """Return whether two threads share a core now; None if unknown."""
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


def mitigations(kernel: Kernel) -> dict[str, str]:
    """Return the state of each vulnerability that affects these processors, by its name."""
    folder = kernel.path(f"{_CPU}/vulnerabilities")
    states = {path.name: kernel.read(path) or "" for path in sorted(folder.glob("*"))}
    return {name: state for name, state in states.items() if state not in ("", "Not affected")}


def virtualised(kernel: Kernel) -> str | None:
    """Environment that this runs inside of (a hypervisor, a container), None on bare metal."""
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
    entry = _REGISTERS.get(processor.vendor)
    if entry is None or processor.hypervisor:
        return UNREADABLE
    register, names = entry
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


_NODE = "/sys/devices/system/node"
_GROUP = re.compile(r"^(socket|node):(\d{1,4})$")
_RANGE = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$")
#: The socket that the tier of the data is attached to.
OF_DATA = "socket:data"
_HELP = "write numbers and ranges (0-7,16-23), socket:0, node:0, or socket:data"


def parse_cpus(text: str | int) -> str:
    """The canonical form of a choice of processors; UsageError where it is none. Pure."""
    value = str(text).replace(" ", "")
    if value == OF_DATA:
        return value
    if _GROUP.match(value):
        kind, number = value.split(":")
        return f"{kind}:{int(number)}"
    return format_cpus(cpu_numbers(value, f"processors {text!r}"))


def resolve_cpus(
    text: str,
    kernel: Kernel = LIVE,
    usable: Collection[int] | None = None,
    data_node: int | None = None,
) -> tuple[int, ...]:
    """The numbers that ``text`` stands for here; UsageError where one of them cannot be had.

    ``usable``: what this process may run on (a cpuset may hold it to fewer than there are).
    ``data_node``: the memory node that the tier of the data is attached to, where the kernel names
    one (a disk or a tmpfs may have none): without it ``socket:data`` is socket 0.
    """
    if text == OF_DATA:
        text = f"socket:{socket_of(data_node, kernel)}"
    usable = os.sched_getaffinity(0) if usable is None else usable
    here = f"usable here: {format_cpus(usable)}"
    if match := _GROUP.match(text):
        kind, number = match.group(1), int(match.group(2))
        members = _socket(number, kernel) if kind == "socket" else _node(number, kernel)
        result = sorted(set(members) & set(usable))
        if not result:
            what = "no processor that may be used" if members else f"there is no such {kind}"
            raise UsageError(f"processors {text!r}", what, f"{here}; {_HELP}")
        return tuple(result)
    numbers = cpu_numbers(text, f"processors {text!r}")
    if missing := sorted(set(numbers) - set(usable)):
        raise UsageError(
            f"processors {text!r}", f"{format_cpus(missing)} cannot be used", f"{here}; {_HELP}"
        )
    return numbers


def format_cpus(numbers: Iterable[int]) -> str:
    """``0-3,8``: the kernel's own form of a list."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def cpu_numbers(text: str, problem: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,8``; UsageError with ``problem`` where it is no such list."""
    result: set[int] = set()
    for item in text.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise UsageError(problem, f"{item!r} is not a number or a range", _HELP)
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise UsageError(problem, f"the range {item!r} runs backwards", _HELP)
        result |= set(range(first, last + 1))
    return tuple(sorted(result))


def _online(kernel: Kernel) -> tuple[int, ...]:
    return cpu_numbers(kernel.read(f"{_CPU}/online") or "0", "online processors")


def package_of(cpu: int, kernel: Kernel) -> int:
    """The package of a processor; where firmware gives none (-1), all are in package 0."""
    return max(0, kernel.read_int(f"{_CPU}/cpu{cpu}/topology/physical_package_id") or 0)


def _socket(number: int, kernel: Kernel) -> list[int]:
    """Online processors of a package."""
    return [cpu for cpu in _online(kernel) if package_of(cpu, kernel) == number]


def socket_of(node: int | None, kernel: Kernel) -> int:
    """The package of a node's first processor."""
    first = [] if node is None else _node(node, kernel)[:1]
    return package_of(first[0], kernel) if first else 0


def _node(number: int, kernel: Kernel) -> list[int]:
    listed = kernel.read(f"{_NODE}/node{number}/cpulist")
    return [] if not listed else [c for c in cpu_numbers(listed, "cpulist") if c in _online(kernel)]
