"""DRAM set aside by ``memmap=size!start``: the kernel parameter, and where it may lie.

A wrong stretch can keep a host from starting. It must lie whole in System RAM of /proc/iomem,
above 4 GiB, and leave the host at least as much memory as it takes.
"""

from __future__ import annotations

import re

from .change_builder import ChangeBuilder
from .ndctl import Region
from .state import State

_GIB = 1 << 30
_SAY = (
    "EMULATED: this is DRAM. Nothing on it survives a power failure, and its latency and bandwidth"
    " are DRAM's: what it shows says nothing about persistent memory (FAST 2020, section 3.1)"
)


def plan_memmap(builder: ChangeBuilder) -> bool:
    """Return whether the kernel was started with the parameter; else plan to set it."""
    builder.notes.append(_SAY)
    state = builder.state
    given = effective(state)
    if given:
        return _is_as_wanted(builder, given)
    if state.boot_loader is None:
        builder.refuse(
            "memmap",
            "this host has neither grubby nor update-grub",
            "set the kernel parameter memmap=SIZE!START yourself, restart, and rerun",
        )
        return False
    try:
        parameter = choose(
            state.iomem, builder.desired.memmap_bytes or 4 * _GIB, builder.desired.memmap_start
        )
    except ValueError as error:
        builder.refuse("memmap", str(error), "change emulated_size or emulated_start")
        return False
    builder.reboot = True
    # Recorded before the boot loader is changed: an interrupted run changes it again.
    if state.record.memmap != parameter or not state.record.memmap_done:
        command = f"kernel parameter {parameter} by {state.boot_loader}"
        why = "the kernel sets no DRAM aside"
        builder.add("set-memmap", "memmap", why, command, parameter=parameter)
    builder.add("reboot", "host", "the kernel parameter takes effect at the next start", "reboot")
    return False


def effective(state: State) -> list[str]:
    """The parameters that the kernel was started with: ours alone where it is among them."""
    given = parameters(state.cmdline)
    return [each for each in given if each == state.record.memmap] or given


def _is_as_wanted(builder: ChangeBuilder, given: list[str]) -> bool:
    """Another size or start than the running kernel's would have no effect: refused where the
    parameter is ours. For a foreign one, size and start do not apply.
    """
    ranges = [(begin, end - begin) for begin, end in stretches(given)]
    if not ranges or any(
        builder.desired.memmap_bytes in (None, size)
        and builder.desired.memmap_start in (None, start)
        for start, size in ranges
    ):
        return True
    there = ", ".join(f"{size} bytes from {start} on" for start, size in ranges)
    wanted = (
        []
        if builder.desired.memmap_bytes is None
        else [f"emulated_size {builder.desired.memmap_bytes}"]
    )
    wanted += (
        []
        if builder.desired.memmap_start is None
        else [f"emulated_start {builder.desired.memmap_start}"]
    )
    difference = f"{' and '.join(wanted)}: the kernel was started with {' '.join(given)} ({there})"
    if given != [builder.state.record.memmap]:
        builder.notes.append(f"{difference}, not by us; it is used as it is")
        return True
    do = "request the existing size and start, or restore emulated, restart, and rerun"
    builder.refuse("memmap", difference, do)
    return False


def stretches(given: list[str]) -> list[tuple[int, int]]:
    """(begin, end) of what ``memmap=`` parameters set aside, the end exclusive; those that cannot
    be read are left out.
    """
    ranges = []
    for part in ",".join(word.removeprefix("memmap=") for word in given).split(","):
        size, _, start = (_number(each) for each in part.partition("!"))
        if size and start is not None:
            ranges.append((start, start + size))
    return ranges


def _number(text: str) -> int | None:
    """Number in the form of the kernel's memparse(): 4G, 0x100000000, 512M."""
    match = re.fullmatch(r"(0x[0-9a-f]+|\d+)([kmgt]?)", text.strip().lower())
    if match is None:
        return None
    return int(match.group(1), 0) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match.group(2)]


def is_of(given: list[str], region: Region) -> bool:
    """Return whether a region lies in what these parameters set aside.

    One of e820 may be an NVDIMM of before ACPI 6 (type 12), too. Without a start address in sysfs,
    the answer is yes.
    """
    if region.start is None or not stretches(given):
        return True
    begin, end = region.start, region.start + region.size_bytes
    inside = sum(max(0, min(end, e) - max(begin, b)) for b, e in stretches(given))
    return inside >= region.size_bytes


def plan_removal(builder: ChangeBuilder) -> None:
    """Plan to remove our parameter."""
    parameter = builder.state.record.memmap
    if parameter is None:
        return
    why = "we gave the kernel this parameter"
    command = f"kernel parameter {parameter} away by {builder.state.boot_loader}"
    builder.add("remove-memmap", "memmap", why, command, parameter=parameter)
    if parameter in builder.state.cmdline.split():
        builder.notes.append("the DRAM comes back to the host with the next restart")


def parameters(cmdline: str) -> list[str]:
    """``memmap=4G!12G`` and the like (``!`` alone makes persistent memory of it)."""
    return [word for word in cmdline.split() if word.startswith("memmap=") and "!" in word]


def choose(iomem: str, size: int, start: int | None) -> str:
    """``memmap=4G!12G``; ValueError with the reason where no stretch fits."""
    stretches = system_ram(iomem)
    whole = sum(end - begin for begin, end in stretches)
    if not whole:
        raise ValueError("/proc/iomem shows no System RAM")
    if not size or size % _GIB:
        raise ValueError(f"emulated_size {size} is no multiple of 1 GiB")
    if size > whole // 2:
        raise ValueError(f"{size} bytes are more than half of the host's {whole}")
    if start is None:
        fitting = [(end - size) // _GIB * _GIB for begin, end in stretches]
        fitting = [at for at, (begin, _) in zip(fitting, stretches) if at >= max(begin, 4 * _GIB)]  # noqa: B905
        if not fitting:
            raise ValueError(f"no stretch of System RAM above 4 GiB holds {size} bytes")
        start = max(fitting)
    inside = any(begin <= start and start + size <= end for begin, end in stretches)
    if start % _GIB or start < 4 * _GIB or not inside:
        raise ValueError(
            f"{size} bytes from {start} on do not lie in System RAM above 4 GiB, at a whole GiB"
        )
    return f"memmap={size // _GIB}G!{start // _GIB}G"


def system_ram(iomem: str) -> list[tuple[int, int]]:
    """(begin, end) of every top-level stretch, the end exclusive."""
    ranges = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) : System RAM$", iomem, re.MULTILINE)
    return [(int(begin, 16), int(end, 16) + 1) for begin, end in ranges if int(end, 16)]
