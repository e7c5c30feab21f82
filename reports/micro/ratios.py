"""Ratios that papers print of two tiers, two patterns, near and far: from the local points.

Both sides are of one experiment and of the same accesses (reports.micro.pairs); of
bandwidths over threads each side has its best. Where a paper's sentence leaves something open,
every value that it could mean is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.units import format_bytes
from reports.formatting import LINE, counted, times
from reports.micro.pairs import (
    TIERS,
    Asked,
    Pair,
    UnderivedError,
    each_ratio,
    named_ratios,
    numbers_text,
    one_experiment,
    pages_text,
    pairs,
    pairs_by,
    ratio,
    ratio_of,
    sides,
    value,
    ways,
)
from reports.micro.points import (
    DURATION,
    LATENCY,
    NEAR_NODES,
    OPERATIONS,
    RATE,
    Device,
    Point,
)
from reports.micro.questions import INSTRUCTIONS, beyond_caches, by_kind, largest

_SIZE = "access_size_bytes"


# Two tiers ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Selection:
    """Points of one side. ``varied``: of these labels each side has its best; ``each``: told."""

    points: Callable[[Asked, Device], Sequence[Point]]
    varied: tuple[str, ...] = ()
    each: Callable[[Point], str] = lambda point: ""


def across(asked: Asked) -> str:
    """``pmem over dram``: of the same accesses on two tiers of the host."""
    match = TIERS.match(asked.arm)
    chosen = _OF_TIERS.get(asked.source)
    if match is None or chosen is None:
        raise UnderivedError("not-derived")
    over, under = sides(match[1], match[2], asked.device, asked.others)
    a, b = (beyond_caches(side, chosen.points(asked, side)) for side in (over, under))
    held = pairs(a, b)
    return _by(held, chosen.each, *chosen.varied) + pages_text(held)


def _by(held: Sequence[Pair], name: Callable[[Point], str], *varied: str) -> str:
    """The ratio of each of several, by name: ``random 3.02×, sequential 2.09×``.

    Each is of the largest experiment that varies these labels; the best on each side.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in held:
        groups.setdefault(name(pair[0]), []).append(pair)
    return ", ".join(
        f"{one} {ratio_of(_largest_pairs(same, *varied))}".strip() for one, same in groups.items()
    )


def _largest_pairs(held: Sequence[Pair], *varied: str) -> list[Pair]:
    kept = set(map(id, largest([a for a, _ in held], *varied)))
    return [pair for pair in held if id(pair[0]) in kept]


def _kind(point: Point) -> str:
    (name,) = by_kind([point])
    return name


def _told_kind(point: Point) -> str:
    """Which store it is, of a mix the one in it; of loads there is one."""
    if point["operation"] == "mixed":
        return "" if point["read_share"] == "1" else point["store"]
    return "" if point["operation"] == "load" else _kind(point)


def _accesses(*measurements: str) -> Callable[[Asked, Device], Sequence[Point]]:
    """Loads, or every kind of store, as the row's place names them."""

    def found(asked: Asked, device: Device) -> Sequence[Point]:
        points = device.select(RATE, measurement=measurements, job="", kind=("", "throughput"))
        return [p for p in points if (p["operation"] == "load") == (asked.x == "load")]

    return found


def _loads(asked: Asked, device: Device) -> Sequence[Point]:
    return device.select(DURATION, measurement="latency", operation=asked.x)


def _chases(asked: Asked, device: Device) -> Sequence[Point]:
    """A chase whose suite says no order is one in random order."""
    return device.select(LATENCY, measurement="chase", pattern=("", asked.x), job="")


def _chain_reads(asked: Asked, device: Device) -> Sequence[Point]:
    """PVLDB 15(11), Figure 7: dependent reads of 16 threads."""
    points = device.select(
        DURATION, measurement="operation_latency", chain=f"rp_{asked.x}", mode="dependent"
    )
    return with_threads(points, 16)


#: PVLDB 15(11), Section 4.4.1, of 32 threads: three nodes of 512 bytes and an insert of four
#: flushes (FAST+FAIR); two of 2048 bytes in DRAM, a leaf of 1024 and three flushes (FPTree).
_TREES = {
    "tree": (
        "rp_512,rp_512,rp_512",
        "rp_512,rp_512,rp_512,wp_64_cache_320,wp_64_cache_-64,wp_64_cache_-64,wp_64_cache_-64",
    ),
    "hybrid tree": (
        "rd_2048,rd_2048,rp_1024",
        "rd_2048,rd_2048,rp_1024,wp_64_cache_512,wp_64_cache_-512,wp_64_cache",
    ),
}


def _trees(asked: Asked, device: Device) -> Sequence[Point]:
    chains = _TREES.get(asked.x, ())
    points = device.select(OPERATIONS, chain=chains, mode="independent")
    return with_threads(points, 32)


def _index_operation(point: Point) -> str:
    return "update" if "w" in point["chain"] else "lookup"


_OF_TIERS: Mapping[tuple[str, str], _Selection] = {
    ("empirical-guide", "sec3.2"): _Selection(_loads, each=lambda p: p["pattern"]),
    ("empirical-guide", "fig4"): _Selection(_accesses("threads"), ("threads",), _told_kind),
    ("pmem-io-primitives", "sec2.2"): _Selection(
        _accesses("granularity", "threads"),
        (_SIZE, "threads"),
        lambda p: f"{p['measurement']} {_told_kind(p)}".strip(),
    ),
    ("pmem-io-primitives", "fig3"): _Selection(_chases),
    ("perma-bench", "fig7"): _Selection(_chain_reads),
    ("perma-bench", "fig9"): _Selection(_trees, each=_index_operation),
}


# Random and sequential, near and far ---------------------------------------------


def random_over_sequential(asked: Asked) -> str:
    """Mean times of the same loads; of PerMA-Bench bandwidths over the sequential peak."""
    if asked.paper == "perma-bench":
        return _of_sequential_peak(asked)
    points = asked.device.select(DURATION, measurement="latency", operation=asked.x)
    same = one_experiment(beyond_caches(asked.device, points), "pattern")
    return ratio_of(pairs_by(same, "pattern", "random", "sequential"))


def _of_sequential_peak(asked: Asked) -> str:
    """PVLDB 15(11), Section 4.2.2: the best of random reads of a size over that of sequential."""
    device = asked.device
    reads, peak = (
        one_experiment(
            beyond_caches(device, device.select(RATE, measurement=name, operation="load", job="")),
            _SIZE,
            "threads",
        )
        for name in ("random_reads", "sequential_reads")
    )
    for name, held in (("random reads", reads), ("sequential reads", peak)):
        if not held:
            raise UnderivedError("needs", f"{name} as well")
    return ratio([p for p in reads if p[_SIZE] == asked.x], peak)


def far_over_near(asked: Asked) -> str:
    """FAST'20, Section 5.4: times of the same accesses, or bandwidths at the best thread count."""
    if asked.metric == "bandwidth_ratio":
        return _far_bandwidth(asked)
    points = [p for p in asked.device.select(DURATION, job="") if _is_asked_of(p, asked.x)]
    near, far = _near_and_far(asked.device, points, "times of far accesses")
    patterned = asked.x in ("sequential", "random")
    return named_ratios(pairs(far, near, "numa"), lambda p: "" if patterned else p["pattern"])


def _is_asked_of(point: Point, x: str) -> bool:
    """``sequential``, ``random``: loads of that pattern; else the kind of a store."""
    if x in ("sequential", "random"):
        return point["operation"] == "load" and point["pattern"] == x
    return _kind(point) == x


def _far_bandwidth(asked: Asked) -> str:
    """Loads or stores alone; of a mix its ends, which are nothing but loads, or stores."""
    share = "1" if asked.x == "load" else "0"
    device = asked.device
    points = [
        p
        for p in device.select(RATE, job="")
        if (
            p["read_share"] == share
            if p["operation"] == "mixed"
            else (p["operation"] == "load") == (asked.x == "load")
        )
    ]
    near, far = _near_and_far(device, points, "the same accesses from a far node")
    held = pairs(far, near, "numa")
    counts = numbers_text((a for a, _ in held), "threads")
    return f"{_by(held, _told_kind, 'threads')} (best of {counts} threads)"


def _near_and_far(
    device: Device, points: Sequence[Point], needed: str
) -> tuple[list[Point], list[Point]]:
    points = beyond_caches(device, points)
    near = [p for p in points if p["numa"] != "far"]
    far = [p for p in points if p["numa"] == "far"]
    if not far:
        raise UnderivedError("needs", needed)
    return near, far


def near_over_far(asked: Asked) -> str:
    """The largest gap of a workload that was measured from both (FAST'20, Sections 3.1, 5.4)."""
    device = asked.device
    near, far = _near_and_far(device, device.select(RATE, job=""), "a sweep from a far node")
    held = [pair for pair in pairs(near, far, "numa") if value(pair[1])]
    if not held:
        raise UnderivedError("one-sided")
    a, b = max(held, key=lambda pair: value(pair[0]) / value(pair[1]))
    threads = counted(int(a.number("threads")), "thread")
    what = f"{_kind(a)}, {a['pattern']}, {format_bytes(a.number(_SIZE))}, {threads}"
    return f"{times(value(a) / value(b))} ({what})"


# PerMA-Bench's instructions -------------------------------------------------------

#: Its words for persist instructions (PVLDB 15(11), Section 3.3), as kinds.
_PERSIST = {
    "nocache": "ntstore",
    "cache": "store+clwb",
    "cacheinv": "store+clflushopt",
    "none": "store",
}


def persist_instructions(asked: Asked) -> str:
    """``none over cache`` of random writes with 32 threads (Figure 6b)."""
    over, under = (_PERSIST[word] for word in asked.arm.split()[1::2])
    points = _measured(
        asked.device, 32, RATE, measurement="random_writes", job="", access_size_bytes=asked.x
    )
    held = by_kind(one_experiment(points, *INSTRUCTIONS))
    return ratio_of(pairs(held.get(over, []), held.get(under, []), *INSTRUCTIONS))


def double_flush(asked: Asked) -> str:
    """A line written and flushed twice over once, by instruction, 16 threads (Figures 7, 8).

    The paper's sentence takes the single flush of Figure 7, which is of 256 bytes: it is told
    beside that of the same line.
    """
    told = []
    for size, whose in ((asked.x, ""), ("256", "Figure 7's ")):
        each = ", ".join(_flushed(asked, word, size) for word in ("cache", "cacheinv", "nocache"))
        told.append(f"over {whose}{size} B: {each}")
    return LINE.join(told)


def _flushed(asked: Asked, word: str, size: str) -> str:
    line = f"wp_{asked.x}_{word}"
    twice, once = (
        with_threads(
            asked.device.select(DURATION, measurement=name, chain=chain, mode="dependent"), 16
        )
        for name, chain in (
            ("double_flush_latency", f"rp_{asked.x},{line},{line}"),
            ("operation_latency", f"rp_{size},wp_{size}_{word}"),
        )
    )
    return f"{word} {ratio_of(pairs(twice, once, 'chain'))}"


def _measured(
    device: Device, threads: int, metric: str, **labels: str | Sequence[str]
) -> list[Point]:
    """Points beyond the caches, with as many threads."""
    return with_threads(beyond_caches(device, device.select(metric, **labels)), threads)


def with_threads(points: Sequence[Point], threads: int) -> list[Point]:
    """Those with as many threads; UnderivedError where only others were measured."""
    found = [p for p in points if p.number("threads") == threads]
    if points and not found:
        counts = numbers_text(points, "threads")
        raise UnderivedError("needs", f"{threads} threads, measured with {counts}")
    return found


#: The chains of Section 4.4.1 with their flushes and without, and what has no chain.
_FLUSHED = {
    "hash": "rp_512,wp_64_{0}_128,wp_64_{0}_-128",
    "tree": "rp_512,rp_512,rp_512,wp_64_{0}_320,wp_64_{0}_-64,wp_64_{0}_-64,wp_64_{0}_-64",
    "hybrid tree": "rd_2048,rd_2048,rp_1024,wp_64_{0}_512,wp_64_{0}_-512,wp_64_{0}",
}


def none_over_cache(asked: Asked) -> str:
    """Operations without a flush over those with one (PVLDB 15(11), Sections 4.4.1 and 4.4.4)."""
    if asked.x == "log":
        return _unflushed_logs(asked)
    chains = (_FLUSHED[asked.x].format(word) for word in ("none", "cache"))
    near = {"mode": "independent", "numa": NEAR_NODES}
    none, cache = (_measured(asked.device, 32, OPERATIONS, chain=one, **near) for one in chains)
    return ratio_of(pairs(none, cache, "chain"))


def _unflushed_logs(asked: Asked) -> str:
    """Of each way to write a log."""
    points = _measured(asked.device, 32, OPERATIONS, measurement="log", numa=NEAR_NODES)
    held = pairs_by(one_experiment(points, "writer", "flush"), "flush", "none", "clwb")
    return named_ratios(held, lambda p: p["writer"])


# Pages and logs (DaMoN'19) ---------------------------------------------------------


def crossover_dirty_lines(asked: Asked) -> str:
    """From how many dirty lines on CoW flushes more pages a second than µLog (Figure 5)."""
    of = {"measurement": "dirty_lines", "method": ("cow", "mulog")}
    points = _measured(asked.device, int(asked.x), OPERATIONS, **of)
    held = pairs_by(one_experiment(points, "method", "dirty_lines"), "method", "cow", "mulog")
    held.sort(key=lambda pair: pair[0].number("dirty_lines"))
    lines = [int(cow.number("dirty_lines")) for cow, _ in held]
    leads = [cow.median > mulog.median for cow, mulog in held]
    changes = [i for i in range(1, len(leads)) if leads[i] != leads[i - 1]]
    if not changes:
        ahead = "CoW" if leads[0] else "µLog"
        return f"none: {ahead} is ahead from {lines[0]} to {lines[-1]} lines"
    if len(changes) > 1 or leads[0]:
        places = ", ".join(str(lines[i]) for i in changes)
        raise UnderivedError("ambiguous", f"which is ahead changes at {places} lines")
    return f"µLog up to {lines[changes[0] - 1]} lines, CoW from {lines[changes[0]]}"


def versions_over_invalidation(asked: Asked) -> str:
    """CoW with page versions, two barriers, over CoW that invalidates, three (Section 3.2.1)."""
    found = asked.device.select(OPERATIONS, measurement="barriers", kind="page")
    points = one_experiment(beyond_caches(asked.device, found), "method", "threads")
    held = pairs_by(points, "method", "cow", "cow_invalidate")
    return named_ratios(held, lambda p: counted(int(p.number("threads")), "thread"))


def padded_over_naive(asked: Asked) -> str:
    """Of each way to write a log, over all sizes of entries (Figure 6)."""
    held = pairs_by(_logs(asked), "padded", "yes", "no")
    writers = dict.fromkeys(a["writer"] for a, _ in held)
    told = [f"{w} {each_ratio([pair for pair in held if pair[0]['writer'] == w])}" for w in writers]
    return ", ".join(told) + _entries(held)


def zero_over_classic(asked: Asked) -> str:
    """Over all sizes of entries, padded (Figure 6)."""
    points = [p for p in _logs(asked) if p["padded"] == "yes"]
    held = pairs_by(points, "writer", "zero", "classic")
    return each_ratio(held) + _entries(held)


def _logs(asked: Asked) -> Sequence[Point]:
    points = asked.device.select(OPERATIONS, measurement="log")
    return one_experiment(beyond_caches(asked.device, points), "writer", "padded", "entry_bytes")


def _entries(held: Sequence[Pair]) -> str:
    """Of which sizes they are."""
    sizes = sorted({a.number("entry_bytes") for a, _ in held})
    ends = dict.fromkeys(map(format_bytes, (sizes[0], sizes[-1])))
    return f" (entries of {' to '.join(ends)})"


_DIMMS = re.compile(r" (\d+) over (\d+) dimms$")
_PREFETCHERS = "prefetchers"
#: The state of what a host did not let the harness read.
_UNREADABLE = "unreadable"


def prefetched_reads(asked: Asked) -> str:
    """Random reads with prefetchers over those without (Figure 13), of each size.

    ``512 B 0.93×, 1 KiB 0.88×``: below 1 the prefetchers cost bandwidth.
    """
    both = [asked.device, *(one for one in asked.others if _switched(one, asked.device))]
    states = {one.state.get(_PREFETCHERS, _UNREADABLE): one for one in both}
    if set(states) <= {_UNREADABLE}:
        raise UnderivedError(
            "needs", "prefetchers whose state can be read (root, module msr, no VM)"
        )
    missing = [state for state in ("enabled", "disabled") if state not in states]
    if missing:
        raise UnderivedError(
            "needs", f"a run of this tier with prefetchers {' and '.join(missing)}"
        )
    reads = {"measurement": "prefetched_reads", "operation": "load"}
    on, off = (
        _measured(states[state], int(asked.x), RATE, **reads) for state in ("enabled", "disabled")
    )
    held = sorted(pairs(on, off), key=lambda pair: pair[0].number(_SIZE))
    return named_ratios(held, lambda p: format_bytes(p.number(_SIZE)))


def _switched(one: Device, other: Device) -> bool:
    """Whether two devices are a tier of a host that differ in the prefetchers alone."""
    return (
        (one.host, one.tier.get("name")) == (other.host, other.tier.get("name"))
        and one.state != other.state
        and {**one.state, _PREFETCHERS: ""} == {**other.state, _PREFETCHERS: ""}
    )


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
        raise UnderivedError("needs", _dimms(count, ", ".join(map(str, here))))
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise UnderivedError("ambiguous", f"{names} have {counted(count, 'DIMM')} each")
    return found[0]


def check_dimms(device: Device, count: str) -> None:
    """UnderivedError where a device does not have the number of interleaved DIMMs of a row."""
    here = ways(device)
    if str(here) != count:
        raise UnderivedError("needs", _dimms(int(count), str(here or "")))


def _dimms(count: int, here: str) -> str:
    return f"a tier of {counted(count, 'DIMM')}, here: {here or 'none'}"
