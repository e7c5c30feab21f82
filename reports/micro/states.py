"""One tier of a host in two states: prefetchers on and off, more and fewer DIMMs (PVLDB 15(11)).

Each state is a device of its own in the report (reports.micro.points). A paper's row
compares two of them; a cell names the one that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.host.prefetchers import UNREADABLE
from harness.units import format_bytes
from reports.formatting import counted, times
from reports.micro.pairs import UnderivedError, pairs, ratio_of, value
from reports.micro.paper_rows import Asked
from reports.micro.points import RATE, Device, Point
from reports.micro.questions import beyond_caches
from reports.micro.ratios import with_threads
from reports.micro.sequences import by_kind
from reports.micro.tier_pairs import ways

_DIMMS = re.compile(r" (\d+) over (\d+) dimms$")
_SIZE = "access_size_bytes"
_PREFETCHERS = "prefetchers"


def prefetched_reads(asked: Asked) -> str:
    """Random reads with prefetchers over those without (Figure 13), of each size.

    ``512 B 0.93×, 1 KiB 0.88×``: below 1 the prefetchers cost bandwidth.
    """
    both = [asked.device, *(one for one in asked.others if _switched(one, asked.device))]
    states = {one.state.get(_PREFETCHERS, UNREADABLE): one for one in both}
    if set(states) <= {UNREADABLE}:
        raise UnderivedError("needs prefetchers whose state can be read (root, module msr, no VM)")
    missing = [state for state in ("enabled", "disabled") if state not in states]
    if missing:
        raise UnderivedError(f"needs a run of this tier with prefetchers {' and '.join(missing)}")
    on, off = (_reads(states[state], asked.x) for state in ("enabled", "disabled"))
    held = sorted(pairs(on, off), key=lambda pair: pair[0].number(_SIZE))
    return ", ".join(
        f"{format_bytes(a.number(_SIZE))} {times(value(a) / value(b))}" for a, b in held if value(b)
    )


def _switched(one: Device, other: Device) -> bool:
    """Whether two devices are a tier of a host that differ in the prefetchers alone."""
    return (
        (one.host, one.tier.get("name")) == (other.host, other.tier.get("name"))
        and one.state != other.state
        and {**one.state, _PREFETCHERS: ""} == {**other.state, _PREFETCHERS: ""}
    )


def _reads(device: Device, threads: str) -> list[Point]:
    points = device.select(RATE, measurement="prefetched_reads", operation="load")
    return list(with_threads(beyond_caches(device, points), int(threads)))


def over_dimms(asked: Asked) -> str:
    """Ratio of sequential writes, 32 threads, on tiers of two numbers of DIMMs (Section 4.5.3)."""
    match = _DIMMS.search(asked.arm)
    assert match is not None
    over, under = (
        _of_ways(asked.others, asked.device.host, int(count)) for count in match.groups()
    )
    a, b = (_writes(device, asked.x) for device in (over, under))
    return ratio_of(pairs(a, b))


def _writes(device: Device, kind: str) -> list[Point]:
    points = device.select(RATE, measurement="sequential_writes", job="")
    return list(with_threads(by_kind(beyond_caches(device, points)).get(kind, []), 32))


def _of_ways(devices: Iterable[Device], host: str, count: int) -> Device:
    same = [one for one in devices if one.host == host]
    found = [one for one in same if ways(one) == count]
    if not found:
        here = sorted(filter(None, {ways(one) for one in same}))
        raise UnderivedError(_needs_dimms(count, ", ".join(map(str, here))))
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise UnderivedError(f"ambiguous: {names} have {counted(count, 'DIMM')} each")
    return found[0]


def lacks_dimms(device: Device, count: str) -> str:
    """Why a device does not have the number of interleaved DIMMs of a row; else empty."""
    here = ways(device)
    return "" if str(here) == count else _needs_dimms(int(count), str(here or ""))


def _needs_dimms(count: int, here: str) -> str:
    return f"needs a tier of {counted(count, 'DIMM')}, here: {here or 'none'}"
