"""Which devices of a report are the two sides of a paper's ratio of two tiers.

Both are of the same host in the same state, as the papers' are. What a tier is, its facts tell,
never its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from reports.micro.pairs import UnderivedError
from reports.micro.points import Device, main_memory

#: ``pmem over dram``, as the papers' rows call their machines' memories.
TIERS = re.compile(r"^(\w+) over (\w+)$")
SECOND_TIER = "needs a second tier in the report"
MEMORY_MODE = "memory_mode"
#: One DIMM that is not interleaved with others (FAST'20, Section 2.3).
ALONE = "pmem_ni"
DRAM = "dram"


def sides(over: str, under: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """The devices on both sides of ``over``/``under`` in the column of ``device``.

    One side is the column's device, the other is found among those of its host. UnderivedError
    where it is not there, where several could be it, or where the column's device is that side.
    """
    mine = [
        one
        for one in others
        if one is not device and (one.host, one.state) == (device.host, device.state)
    ]
    if ALONE in (over, under):
        other = _one(device, mine, _is_alone, "a single DIMM")
        if (ways(device) or 0) < 2:
            raise UnderivedError("needs a tier of interleaved DIMMs")
    else:
        cached = MEMORY_MODE in (over, under)
        if cached and not any(map(_is_behind_dram, (device, *mine))):
            raise UnderivedError("needs a run in Memory mode")
        other = _one(device, mine, _is_dram, "DRAM")
        if cached != _is_behind_dram(device):
            raise UnderivedError("is in no Memory mode" if cached else "is in Memory mode")
    return (other, device) if over in (DRAM, ALONE) else (device, other)


def _one(
    device: Device, others: Sequence[Device], fits: Callable[[Device], bool], what: str
) -> Device:
    if fits(device):
        raise UnderivedError(f"is {what}, the other side" if others else SECOND_TIER)
    found = [one for one in others if fits(one)]
    if not found:
        raise UnderivedError(f"{SECOND_TIER}: {what} of this host")
    if len(found) > 1:
        raise UnderivedError(f"ambiguous: {' and '.join(d.name for d in found)} are {what}")
    return found[0]


def _is_dram(device: Device) -> bool:
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


def _is_alone(device: Device) -> bool:
    return ways(device) == 1


def ways(device: Device) -> int | None:
    """Over how many DIMMs its region is interleaved; None where it is on none, or emulated."""
    found = device.tier.get("facts", {}).get("interleave_ways")
    return None if found is None or device.emulated else int(found)


def _nodes(device: Device) -> Sequence[dict[str, Any]]:
    manifests = [run.manifest for run in device.runs if run.manifest]
    return manifests[-1]["host"]["numa_nodes"] if manifests else ()
