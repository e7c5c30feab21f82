"""Figures that papers read off a curve, read off the local one: where it peaks, where two cross.

Each is of the largest experiment that measured the curve (reports.micro.questions); ratios
of two sides are in reports.micro.ratios. What cannot be derived says what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.hdr import Histogram
from harness.units import format_bytes
from reports.micro import ratios
from reports.micro.pairs import UnderivedError, one_experiment
from reports.micro.points import DURATION, NEAR_NODES, OPERATIONS, RATE, Device, Point, best
from reports.micro.questions import INSTRUCTIONS, beyond_caches, by_kind
from reports.micro.ratios import PaperRow
from reports.micro.saturation import NEAR
from reports.published import Cell, Numbers
from reports.sequences import grouped
from reports.statistics import Missing

#: What the papers call the size that is best, by what they sweep: FAST'20's Figures 5 and 13,
#: PerMA-Bench's Figure 5b.
_SWEEPS = {"knee": "access_size", "peak": "fence_interval", "best": "sequential_writes"}
_SIZE = "access_size_bytes"
_WRITE_BACK = re.compile(r"^rp_(\d+),wp_\1_(cache|nocache)$")
#: FAST'20, Section 3.3, has no bound for its outliers; this is the one that its text names.
_OUTLIER_NS = 50_000
Read = Callable[[PaperRow], Numbers]


def derived(row: PaperRow) -> Cell:
    """The device's own value, or why there is none."""
    try:
        for rule in _RULES:
            if row.metric in rule.metrics and re.search(rule.arm, row.arm):
                found = rule.read(row)
                return found if found.numbers else Missing("no-counterpart")
    except UnderivedError as error:
        return error.missing
    return Missing("not-derived")


def _needs(what: str) -> Read:
    """What nothing here measures."""

    def read(row: PaperRow) -> Numbers:
        raise UnderivedError("needs", what)

    return read


def _rates(device: Device, measurement: str, *varied: str, far: bool = False) -> Sequence[Point]:
    numa: Sequence[str] = ("far",) if far else NEAR_NODES
    points = beyond_caches(device, device.select(RATE, measurement=measurement, numa=numa))
    return one_experiment((p for p in points if p[_SIZE] and not p["job"]), *INSTRUCTIONS, *varied)


def _best_threads(row: PaperRow) -> Numbers:
    """Of a kind of access; of DaMoN'19's Figure 5, which names none, each way to flush a page."""
    curves = _pages(row.device) if row.x == "threads" else _threads(row)
    return Numbers(
        tuple(
            row.number(best(same).number("threads"), "threads", name if name != row.x else "")
            for name, same in curves.items()
        )
    )


def _pages(device: Device) -> Mapping[str, list[Point]]:
    points: Sequence[Point] = device.select(OPERATIONS, measurement="threads", kind="page")
    points = one_experiment(beyond_caches(device, points), "method", "threads")
    return grouped((point["method"], point) for point in points)


def _threads(row: PaperRow) -> Mapping[str, list[Point]]:
    # FAST'20, Figure 5, is of access sizes; Section 5.4 has far threads, and names no store.
    swept = ("access_size", _SIZE) if row.figure == "fig5" else ("threads",)
    far = row.arm.endswith(" far")
    kinds = by_kind(_rates(row.device, swept[0], *swept[1:], "threads", far=far))
    if far and not kinds:
        raise UnderivedError("needs", "the same accesses from a far node")
    return {
        kind: same
        for kind, same in kinds.items()
        if (kind != "load" if row.x == "write" else kind == row.x)
    }


def _sizes(row: PaperRow, found: Mapping[str, Sequence[Point]]) -> Numbers:
    """The sizes of points by kind; none of a kind that has no point."""
    return Numbers(
        tuple(
            row.number(size, "bytes", kind)
            for kind, points in found.items()
            for size in ([p.number(_SIZE) for p in points] if points else [None])
        )
    )


def _best_access_size(row: PaperRow) -> Numbers:
    """``knee``: the smallest size near the best of the best thread count; else the best one."""
    if row.x not in _SWEEPS:
        raise UnderivedError("not-derived")
    points = _rates(row.device, _SWEEPS[row.x], _SIZE, "threads", "flush_when")
    if row.x == "peak":
        points = [p for p in points if p["flush_when"] == "write"]
    found = {}
    for kind, same in by_kind(points).items():
        top = best(same)
        near = [p for p in _at_threads_of(top, same) if p.median >= NEAR * top.median]
        found[kind] = [min(near, key=lambda p: p.number(_SIZE)) if row.x == "knee" else top]
    return _sizes(row, found)


def _at_threads_of(top: Point, points: Sequence[Point]) -> list[Point]:
    return [p for p in points if p["threads"] == top["threads"]]


def _peak_access_size(row: PaperRow) -> Numbers:
    """Sizes of writes with a peak in bandwidth (FAST'20, Section 5.3)."""
    found = _outstanding(row.device, 1)
    return _sizes(row, {kind: points for kind, points in found.items() if kind != "load"})


def _outstanding(device: Device, sign: int) -> Mapping[str, Sequence[Point]]:
    """Points whose repeats all lie above (-1: below) those of both neighbouring sizes, by kind.

    Each curve is of its best thread count.
    """
    found = {}
    for kind, same in by_kind(_rates(device, "access_size", _SIZE, "threads")).items():
        curve = sorted(_at_threads_of(best(same), same), key=lambda p: p.number(_SIZE))
        ends = [sorted(sign * sample for sample in p.samples) for p in curve]
        found[kind] = [
            curve[i]
            for i in range(1, len(curve) - 1)
            if ends[i][0] > max(ends[i - 1][-1], ends[i + 1][-1])
        ]
    return found


def _worst_access_size(row: PaperRow) -> Numbers:
    """From which size on flushing after the write is slower than at each line.

    ``dip`` (FAST'20, Figure 5): sizes with less bandwidth than both neighbouring ones.
    """
    if row.x == "dip":
        return _sizes(row, _outstanding(row.device, -1))
    points = by_kind(_rates(row.device, "fence_interval", _SIZE, "flush_when"))
    found = {
        kind: _leads_from(same, lambda p: p["flush_when"] == "line")
        for kind, same in points.items()
    }
    return _sizes(row, found)


def _crossover(row: PaperRow) -> Numbers:
    """From which size on ntstore is the best of all."""
    device = row.device
    if row.x == "latency":
        points: Sequence[Point] = device.select(DURATION, measurement="persist_latency")
        points = one_experiment(beyond_caches(device, points), *INSTRUCTIONS, _SIZE)
    elif row.x == "write-back":
        points = [*_written_back(device)]
    else:
        points = _rates(device, "persist_size", _SIZE)
    first = {"": _leads_from(points, lambda p: p["operation"] == "ntstore")}
    return _sizes(row, first if points else {})


def _written_back(device: Device) -> Iterator[Point]:
    """FAST'20, Figure 14: objects read and written back whole, as accesses of their size."""
    points = device.select(DURATION, measurement="write_back", mode="dependent")
    for point in one_experiment(beyond_caches(device, points), "chain"):
        if match := _WRITE_BACK.match(point["chain"]):
            operation = "ntstore" if match[2] == "nocache" else "store"
            yield replace(point, labels={**point.labels, _SIZE: match[1], "operation": operation})


def _leads_from(points: Sequence[Point], leading: Callable[[Point], bool]) -> list[Point]:
    """The best of the smallest size from which on a leading point is the best at every size."""
    sizes = sorted({p.number(_SIZE) for p in points})
    tops = [best([p for p in points if p.number(_SIZE) == size]) for size in sizes]
    first = max((i for i, top in enumerate(tops) if not leading(top)), default=-1) + 1
    return tops[first : first + 1]


def _outlier_share(row: PaperRow) -> Numbers:
    """FAST'20, Figure 3: the share of overwrites that take longest, at the size with most."""
    points = row.device.select(DURATION, measurement="overwrite_tail", hotspot_bytes="")
    found = [
        (_share_above(point.histogram, _OUTLIER_NS), point)
        for point in one_experiment(points, "range_bytes")
        if point.histogram is not None
    ]
    most, point = max(found, key=lambda one: one[0], default=(0.0, None))
    if point is None:
        return Numbers(())
    writes = sum(p.histogram.total for _, p in found if p.histogram is not None)
    size = format_bytes(point.number("range_bytes"))
    where = f"at {size}, the most of {len(found)} sizes" if most else f"of {writes:,} writes"
    return Numbers((row.number(100 * most, "%"),), ("over 50 µs", where))


def _share_above(histogram: Histogram, ns: int) -> float:
    """Of counters that lie wholly above: they are a thousandth of their value wide at most."""
    low, _ = histogram.layout.bounds()
    above = histogram.counts[low[: len(histogram.counts)] > ns].sum()
    return float(above) / histogram.total if histogram.total else 0.0


@dataclass(frozen=True)
class _Rule:
    """How rows of these metrics are read whose arm matches ``arm``."""

    arm: str
    read: Read
    metrics: tuple[str, ...]


_RATIOS = ("bandwidth_ratio", "latency_ratio", "operations_ratio", "operation_duration_ratio")
_TIMES_AND_RATES = ("bandwidth_ratio", "operation_duration_ratio")
_OPERATIONS = ("operations_ratio",)
#: By quantity and by what the paper compares, the first that fits.
_RULES = (
    _Rule("^nova", _needs("NOVA, which the harness lacks"), _TIMES_AND_RATES),
    _Rule(r"^\w+ over \w+$", ratios.across, _RATIOS),
    _Rule(" near over far$", ratios.near_over_far, ("bandwidth_ratio",)),
    _Rule(r" \d+ over \d+ dimms$", ratios.over_dimms, ("bandwidth_ratio",)),
    _Rule(r" \d+ over \d+ threads$", ratios.thread_counts, ("bandwidth_ratio",)),
    _Rule(" random over sequential$", ratios.random_over_sequential, _TIMES_AND_RATES),
    _Rule(" far over near$", ratios.far_over_near, _TIMES_AND_RATES),
    _Rule(" (none|nocache) over cache$", ratios.persist_instructions, ("bandwidth_ratio",)),
    _Rule(r"^\S+ [a-z+]+ over [a-z+]+$", ratios.kinds, ("bandwidth_ratio",)),
    _Rule(" double over single flush$", ratios.double_flush, ("operation_duration_ratio",)),
    _Rule(r" manual\w* over vanilla", ratios.policies, _OPERATIONS),
    _Rule("", ratios.policies, ("flushes_per_write_ratio",)),
    _Rule(" (padded over naive|zero over classic)$", ratios.logs, _OPERATIONS),
    _Rule(" pvn over invalidation$", ratios.versions_over_invalidation, _OPERATIONS),
    _Rule(" none over cache$", ratios.none_over_cache, _OPERATIONS),
    _Rule(" disabled over enabled$", _needs("Viper, which the harness lacks"), _OPERATIONS),
    _Rule(" far over near$", _needs("PMemKV, which the harness lacks"), _OPERATIONS),
    _Rule(
        "persistent_memtable",
        _needs("RocksDB with FLEX and with a persistent memtable, which the harness lacks"),
        _OPERATIONS,
    ),
    _Rule("", _needs("HyMem, which the harness lacks"), ("transactions_per_second",)),
    _Rule("", _best_threads, ("best_threads",)),
    _Rule("", _best_access_size, ("best_access_size",)),
    _Rule("", _worst_access_size, ("worst_access_size",)),
    _Rule("", _peak_access_size, ("peak_access_size",)),
    _Rule("", ratios.prefetched_reads, ("slower_access_size",)),
    _Rule("", _crossover, ("crossover_bytes",)),
    _Rule("", ratios.crossover_dirty_lines, ("crossover_dirty_lines",)),
    _Rule("", _outlier_share, ("operation_outlier_share",)),
    # What only the DIMM's own counters report: nothing that the processor sees.
    _Rule("", _needs("ipmctl/ipmwatch counters"), ("effective_write_ratio", "xpbuffer_bytes")),
)
