"""Which two devices of a report a ratio compares: tiers of a host, or one tier in two states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reports.formatting import counted
from reports.micro.pairs import UnderivedError
from reports.micro.points import Device, main_memory

_SECOND_TIER = "a second tier in the report"
_MEMORY_MODE = "memory_mode"
#: One DIMM that is not interleaved with others (FAST'20, Section 2.3).
_ALONE = "pmem_ni"
_DRAM = "dram"


def tiers(over: str, under: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """The devices on both sides of ``over``/``under`` in the column of ``device``.

    One side is the column's device, the other is found among those of its host. UnderivedError
    where it is not there, where several could be it, or where the column's device is that side.
    """
    mine = [
        one
        for one in others
        if one is not device and (one.host, one.state) == (device.host, device.state)
    ]
    if _ALONE in (over, under):
        other = _other(device, mine, lambda one: ways(one) == 1, "a single DIMM")
        if (ways(device) or 0) < 2:
            raise UnderivedError("needs", "a tier of interleaved DIMMs")
    else:
        cached = _MEMORY_MODE in (over, under)
        if cached and not any(map(_is_behind_dram, (device, *mine))):
            raise UnderivedError("needs", "a run in Memory mode")
        other = _other(device, mine, is_dram, "DRAM")
        if cached != _is_behind_dram(device):
            raise UnderivedError("other-side", "in no Memory mode" if cached else "in Memory mode")
    return (other, device) if over in (_DRAM, _ALONE) else (device, other)


def _other(
    device: Device, others: Sequence[Device], fits: Callable[[Device], bool], what: str
) -> Device:
    if fits(device):
        if others:
            raise UnderivedError("other-side", f"{what}, the other side")
        raise UnderivedError("needs", _SECOND_TIER)
    found = [one for one in others if fits(one)]
    if not found:
        raise UnderivedError("needs", f"{_SECOND_TIER}: {what} of this host")
    if len(found) > 1:
        raise UnderivedError("ambiguous", f"{' and '.join(d.name for d in found)} are {what}")
    return found[0]


def is_dram(device: Device) -> bool:
    """Memory of nodes with processors, on a host whose main memory is DRAM."""
    tier = device.tier
    if tier.get("kind") != "numa" or device.emulated:
        return False
    nodes = tier.get("nodes") or [tier.get("node")]
    with_cpus = {node["node"] for node in _nodes(device) if node["cpus"]}
    return set(nodes) <= with_cpus and {main_memory(run) for run in device.runs} == {"DRAM"}


def _is_behind_dram(device: Device) -> bool:
    tier = device.tier
    return tier.get("kind") == "numa" and {main_memory(r) for r in device.runs} == {"Memory"}


def _nodes(device: Device) -> Sequence[dict[str, Any]]:
    manifests = [run.manifest for run in device.runs if run.manifest]
    return manifests[-1]["host"]["numa_nodes"] if manifests else ()


def differ_in(state: str, one: Device, other: Device) -> bool:
    """Whether two devices are one tier of a host that differs in nothing but this state."""
    return (
        (one.host, one.tier.get("name")) == (other.host, other.tier.get("name"))
        and one.state != other.state
        and {**one.state, state: ""} == {**other.state, state: ""}
    )


def ways(device: Device) -> int | None:
    """Over how many DIMMs its region is interleaved; None where it is on none, or emulated."""
    found = device.tier.get("facts", {}).get("interleave_ways")
    return None if found is None or device.emulated else int(found)


def of_dimms(devices: Sequence[Device], host: str, count: int) -> Device:
    """The tier of a host that is interleaved over this many DIMMs; UnderivedError without one."""
    same = [one for one in devices if one.host == host]
    found = [one for one in same if ways(one) == count]
    if not found:
        raise _needs_dimms(count, sorted(filter(None, {ways(one) for one in same})))
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise UnderivedError("ambiguous", f"{names} have {counted(count, 'DIMM')} each")
    return found[0]


def check_dimms(device: Device, count: int) -> None:
    """UnderivedError where a device does not have this number of interleaved DIMMs."""
    here = ways(device)
    if here != count:
        raise _needs_dimms(count, [here] if here else [])


def _needs_dimms(count: int, here: Sequence[int]) -> UnderivedError:
    found = ", ".join(map(str, here)) or "none"
    return UnderivedError("needs", f"a tier of {counted(count, 'DIMM')}, here: {found}")
