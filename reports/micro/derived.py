"""Figures that papers read off a curve, read off the local one: where it peaks, where two cross.

Each is of the largest experiment that measured the curve (reports.micro.questions); ratios
of two sides are in reports.micro.ratios. What cannot be derived says what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.hdr import Histogram
from harness.units import format_bytes
from reports.formatting import counted, significant
from reports.micro import policies, ratios
from reports.micro.pairs import TIERS, Asked, UnderivedError, one_experiment, ratio
from reports.micro.points import DURATION, NEAR_NODES, OPERATIONS, RATE, Device, Point, best
from reports.micro.questions import INSTRUCTIONS, beyond_caches, by_kind
from reports.micro.saturation import NEAR
from reports.published import Cell, Missing

#: Two bandwidths of one device: ``pmem_ni load over ntstore``, ``pmem_ni 8 over 1 threads``.
_KINDS = re.compile(r"^\S+ ([a-z+]+) over ([a-z+]+)$")
_THREADS = re.compile(r"^\S+ (\d+) over (\d+) threads$")
#: What the papers call the size that is best, by what they sweep: FAST'20's Figures 5 and 13,
#: PerMA-Bench's Figure 5b.
_SWEEPS = {"knee": "access_size", "peak": "fence_interval", "best": "sequential_writes"}
_SIZE = "access_size_bytes"
_WRITE_BACK = re.compile(r"^rp_(\d+),wp_\1_(cache|nocache)$")
#: FAST'20, Section 3.3, has no bound for its outliers; this is the one that its text names.
_OUTLIER_NS = 50_000


def derived(asked: Asked) -> Cell:
    """The device's own value, or why there is none."""
    read = _READ.get(asked.metric, _not_derived)
    for metric, arm, special in _OF_ARMS:
        if asked.metric == metric and arm.search(asked.arm):
            read = special
            break
    try:
        return read(asked) or Missing()
    except UnderivedError as error:
        return error.missing


def _not_derived(asked: Asked) -> str:
    raise UnderivedError("not-derived")


def _needs(what: str) -> Callable[[Asked], str]:
    """What nothing here measures."""

    def told(asked: Asked) -> str:
        raise UnderivedError("needs", what)

    return told


def _rates(device: Device, measurement: str, *varied: str, far: bool = False) -> Sequence[Point]:
    numa: Sequence[str] = ("far",) if far else NEAR_NODES
    points = beyond_caches(device, device.select(RATE, measurement=measurement, numa=numa))
    return one_experiment((p for p in points if p[_SIZE] and not p["job"]), *INSTRUCTIONS, *varied)


def _best_threads(asked: Asked) -> str:
    """Of a kind of access; of DaMoN'19's Figure 5, which names none, each way to flush a page."""
    if asked.x == "threads":
        points = asked.device.select(OPERATIONS, measurement="threads", kind="page")
        points = beyond_caches(asked.device, points)
        held: dict[str, list[Point]] = {}
        for point in one_experiment(points, "method", "threads"):
            held.setdefault(point["method"], []).append(point)
        return ", ".join(f"{name} {_threads_of_best(same)}" for name, same in held.items())
    # FAST'20, Figure 5, is of access sizes; Section 5.4 has far threads, and names no store.
    swept = ("access_size", _SIZE) if asked.figure == "fig5" else ("threads",)
    far = asked.arm.endswith(" far")
    kinds = by_kind(_rates(asked.device, swept[0], *swept[1:], "threads", far=far))
    if far and not kinds:
        raise UnderivedError("needs", "the same accesses from a far node")
    if asked.x == "write":
        stores = {kind: same for kind, same in kinds.items() if kind != "load"}
        return ", ".join(f"{kind} {_threads_of_best(same)}" for kind, same in stores.items())
    return _threads_of_best(kinds[asked.x]) if asked.x in kinds else ""


def _threads_of_best(points: Sequence[Point]) -> str:
    return counted(int(best(points).number("threads")), "thread")


def _best_access_size(asked: Asked) -> str:
    """``knee``: the smallest size near the best of the best thread count; else the best one."""
    x = asked.x
    if x not in _SWEEPS:
        raise UnderivedError("not-derived")
    points = _rates(asked.device, _SWEEPS[x], _SIZE, "threads", "flush_when")
    if x == "peak":
        points = [p for p in points if p["flush_when"] == "write"]
    told = []
    for kind, same in by_kind(points).items():
        top = best(same)
        near = [p for p in _at_threads_of(top, same) if p.median >= NEAR * top.median]
        found = min(near, key=lambda p: p.number(_SIZE)) if x == "knee" else top
        told.append(f"{kind} {format_bytes(found.number(_SIZE))}")
    return ", ".join(told)


def _at_threads_of(top: Point, points: Sequence[Point]) -> list[Point]:
    return [p for p in points if p["threads"] == top["threads"]]


def _peak_access_size(asked: Asked) -> str:
    """Sizes of writes with a peak in bandwidth (FAST'20, Section 5.3)."""
    return _outstanding(asked, lambda kind: kind != "load", 1)


def _outstanding(asked: Asked, shown: Callable[[str], bool], sign: int) -> str:
    """Sizes whose repeats all lie above (-1: below) those of both neighbouring sizes, by kind.

    Each curve is of its best thread count.
    """
    by_sizes = []
    points = _rates(asked.device, "access_size", _SIZE, "threads")
    for kind, same in by_kind(points).items():
        curve = sorted(_at_threads_of(best(same), same), key=lambda p: p.number(_SIZE))
        ends = [sorted(sign * sample for sample in p.samples) for p in curve]
        sizes = [
            format_bytes(curve[i].number(_SIZE))
            for i in range(1, len(curve) - 1)
            if ends[i][0] > max(ends[i - 1][-1], ends[i + 1][-1])
        ]
        if shown(kind):
            by_sizes.append(f"{kind} {', '.join(sizes) or 'none'}")
    return "; ".join(by_sizes)


def _worst_access_size(asked: Asked) -> str:
    """From which size on flushing after the write is slower than at each line.

    ``dip`` (FAST'20, Figure 5): sizes with less bandwidth than both neighbouring ones.
    """
    if asked.x == "dip":
        return _outstanding(asked, lambda kind: True, -1)
    points = _rates(asked.device, "fence_interval", _SIZE, "flush_when")
    told = [
        (kind, _leads_from(same, lambda p: p["flush_when"] == "line"))
        for kind, same in by_kind(points).items()
    ]
    return ", ".join(f"{kind} {size}" for kind, size in told)


def _crossover(asked: Asked) -> str:
    """From which size on ntstore is the best of all."""
    device = asked.device
    if asked.x == "latency":
        points: Sequence[Point] = device.select(DURATION, measurement="persist_latency")
        points = one_experiment(beyond_caches(device, points), *INSTRUCTIONS, _SIZE)
    elif asked.x == "write-back":
        points = [*_written_back(device)]
    else:
        points = _rates(device, "persist_size", _SIZE)
    return _leads_from(points, lambda p: p["operation"] == "ntstore")


def _written_back(device: Device) -> Iterator[Point]:
    """FAST'20, Figure 14: objects read and written back whole, as accesses of their size."""
    points = device.select(DURATION, measurement="write_back", mode="dependent")
    for point in one_experiment(beyond_caches(device, points), "chain"):
        if match := _WRITE_BACK.match(point["chain"]):
            operation = "ntstore" if match[2] == "nocache" else "store"
            yield replace(point, labels={**point.labels, _SIZE: match[1], "operation": operation})


def _leads_from(points: Sequence[Point], leading: Callable[[Point], bool]) -> str:
    """The smallest size from which on a leading point is the best at every size."""
    sizes = sorted({p.number(_SIZE) for p in points})
    leads = [leading(best([p for p in points if p.number(_SIZE) == size])) for size in sizes]
    if not leads or not leads[-1]:
        return "at no size" if leads else ""
    first = max((i for i, lead in enumerate(leads) if not lead), default=-1) + 1
    return format_bytes(sizes[first])


def _bandwidth_ratio(asked: Asked) -> str:
    """Of two instructions, each at its best thread count, or of two thread counts of one."""
    held = by_kind(_rates(asked.device, "threads", "threads"))
    if match := _THREADS.match(asked.arm):
        a, b = ([p for p in held.get(asked.x, []) if p["threads"] == n] for n in match.groups())
    elif match := _KINDS.match(asked.arm):
        a, b = (held.get(name, []) for name in match.groups())
    else:
        raise UnderivedError("not-derived")
    return ratio(a, b) if a and b else ""


def _outlier_share(asked: Asked) -> str:
    """FAST'20, Figure 3: the share of overwrites that take longest, at the size with most."""
    points = asked.device.select(DURATION, measurement="overwrite_tail", hotspot_bytes="")
    found = [
        (_share_above(point.histogram, _OUTLIER_NS), point)
        for point in one_experiment(points, "range_bytes")
        if point.histogram is not None
    ]
    if not found:
        return ""
    most, point = max(found, key=lambda one: one[0])
    writes = sum(p.histogram.total for _, p in found if p.histogram is not None)
    if not most:
        return f"none of {writes:,} writes over 50 µs"
    size = format_bytes(point.number("range_bytes"))
    return f"{significant(100 * most)} % over 50 µs at {size}, the most of {len(found)} sizes"


def _share_above(histogram: Histogram, ns: int) -> float:
    """Of counters that lie wholly above: they are a thousandth of their value wide at most."""
    low, _ = histogram.layout.bounds()
    above = histogram.counts[low[: len(histogram.counts)] > ns].sum()
    return float(above) / histogram.total if histogram.total else 0.0


#: Quantities that are read off differently by what the paper compares, the first that fits.
_OF_ARMS: Sequence[tuple[str, re.Pattern[str], Callable[[Asked], str]]] = (
    ("bandwidth_ratio", re.compile("^nova"), _needs("NOVA, which the harness lacks")),
    ("bandwidth_ratio", TIERS, ratios.across),
    ("bandwidth_ratio", re.compile(" near over far$"), ratios.near_over_far),
    ("bandwidth_ratio", re.compile(r" \d+ over \d+ dimms$"), ratios.over_dimms),
    ("latency_ratio", TIERS, ratios.across),
    ("operations_ratio", TIERS, ratios.across),
    ("operations_ratio", re.compile(r" manual\w* over vanilla"), policies.measured_over),
    ("operation_duration_ratio", re.compile("^nova"), _needs("NOVA, which the harness lacks")),
    ("operation_duration_ratio", TIERS, ratios.across),
    (
        "operation_duration_ratio",
        re.compile(" random over sequential$"),
        ratios.random_over_sequential,
    ),
    ("bandwidth_ratio", re.compile(" random over sequential$"), ratios.random_over_sequential),
    ("operation_duration_ratio", re.compile(" far over near$"), ratios.far_over_near),
    ("bandwidth_ratio", re.compile(" far over near$"), ratios.far_over_near),
    ("bandwidth_ratio", re.compile(" (none|nocache) over cache$"), ratios.persist_instructions),
    ("operation_duration_ratio", re.compile(" double over single flush$"), ratios.double_flush),
    ("operations_ratio", re.compile(" padded over naive$"), ratios.padded_over_naive),
    ("operations_ratio", re.compile(" zero over classic$"), ratios.zero_over_classic),
    ("operations_ratio", re.compile(" pvn over invalidation$"), ratios.versions_over_invalidation),
    ("operations_ratio", re.compile(" none over cache$"), ratios.none_over_cache),
    (
        "operations_ratio",
        re.compile(" disabled over enabled$"),
        _needs("Viper, which the harness lacks"),
    ),
    ("operations_ratio", re.compile(" far over near$"), _needs("PMemKV, which the harness lacks")),
    (
        "operations_ratio",
        re.compile("persistent_memtable"),
        _needs("RocksDB with FLEX and with a persistent memtable, which the harness lacks"),
    ),
    ("transactions_per_second", re.compile("^"), _needs("HyMem, which the harness lacks")),
)
#: Everything else that is read off.
_READ: Mapping[str, Callable[[Asked], str]] = {
    "best_threads": _best_threads,
    "best_access_size": _best_access_size,
    "worst_access_size": _worst_access_size,
    "peak_access_size": _peak_access_size,
    "slower_access_size": ratios.prefetched_reads,
    "crossover_bytes": _crossover,
    "crossover_dirty_lines": ratios.crossover_dirty_lines,
    "bandwidth_ratio": _bandwidth_ratio,
    "operation_outlier_share": _outlier_share,
    "flushes_per_write_ratio": policies.measured_over,
    # What only the DIMM's own counters tell: nothing that the processor sees.
    "effective_write_ratio": _needs("ipmctl/ipmwatch counters"),
    "xpbuffer_bytes": _needs("ipmctl/ipmwatch counters"),
}
