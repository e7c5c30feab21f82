"""Ratios that papers print, from the local points: which pairs of points each row compares.

Both sides are of one experiment and of the same accesses (reports.micro.pairs); of bandwidths over
threads each side has its best. Where a paper's sentence leaves something open, every value that it
could mean is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from harness.units import counted, format_bytes
from reports.formatting import TIMES
from reports.micro.pairs import (
    PAGES,
    Having,
    PairQuery,
    PointRatio,
    UnderivedError,
    differ_in,
    numbers_text,
    of_dimms,
    one_experiment,
    tiers,
)
from reports.micro.points import (
    DURATION,
    LATENCY,
    NEAR_NODES,
    OPERATIONS,
    RATE,
    Device,
    Point,
    best,
)
from reports.micro.prices import HASH_UPDATE
from reports.micro.questions import FLUSHES_PER_WRITE, beyond_caches, flushed_line, kind_of, of_kind
from reports.published import Number, Numbers
from reports.sequences import grouped

_SIZE = "access_size_bytes"


@dataclass(frozen=True)
class PaperRow:
    """One row of published.csv in the column of one device.

    ``others``: all devices of the report, with what they have of suites that repeat the figure,
    as ``device``.
    """

    paper: str
    figure: str
    metric: str
    arm: str
    x: str
    device: Device
    others: Sequence[Device] = ()

    def numbers(self, ratios: Sequence[PointRatio], *conditions: str) -> Numbers:
        """A number for each name; its range where several ratios have it."""
        named = grouped((one.name, one.value) for one in ratios)
        return Numbers(
            tuple(
                self.number(min(found), TIMES, name, max(found)) for name, found in named.items()
            ),
            conditions,
        )

    def number(
        self, value: float | None, unit: str, name: str = "", high: float | None = None
    ) -> Number:
        """One number of this device."""
        return Number(value, unit, self.device.emulated, name, high)

    def of_one(self, query: PairQuery) -> Numbers:
        """The numbers of a query whose sides are both of this device."""
        return self.numbers(query.ratios(self.device, self.device))


# Names --------------------------------------------------------------------------------


def _store(point: Point) -> str:
    """Which store it is, of a mix the one in it; of loads there is one."""
    if point["operation"] == "mixed":
        return "" if point["read_share"] == "1" else point["store"]
    return "" if point["operation"] == "load" else kind_of(point)


def _measured_store(point: Point) -> str:
    return f"{point['measurement']} {_store(point)}".strip()


def _size(point: Point) -> str:
    return format_bytes(point.number(_SIZE))


def threads_of(point: Point) -> str:
    """``4 threads``."""
    return counted(int(point.number("threads")), "thread")


#: What an operation is of, besides its flushes: a log's writer, or an index.
_WORK = ("writer", "entry_bytes", "index", "workload", "discipline", "fence")


def _work(point: Point) -> str:
    """``log zero, 4 threads``."""
    names = (point["measurement"].replace("_", " "), *(point[label] for label in _WORK))
    return f"{' '.join(filter(None, names))}, {threads_of(point)}"


# Two tiers ------------------------------------------------------------------------------


def across(row: PaperRow) -> Numbers:
    """``pmem over dram``: of the same accesses on two tiers of the host."""
    query = _OF_TIERS.get((row.paper, row.figure))
    if query is None:
        raise UnderivedError("not-derived")
    over, _, under = row.arm.partition(" over ")
    found = query(row).ratios(*tiers(over, under, row.device, row.others))
    both = (pair for one in found for pair in one.pairs)
    pages = dict.fromkeys((a[PAGES], b[PAGES]) for a, b in both if a[PAGES] != b[PAGES])
    return row.numbers(found, *(f"pages: {a or 'unknown'} over {b or 'unknown'}" for a, b in pages))


def _accesses(
    *measurements: str, varied: tuple[str, ...], each: Callable[[Point], str]
) -> Callable[[PaperRow], PairQuery]:
    """Loads, or every kind of store, as the row's place names them."""
    labels: Having = {"measurement": measurements, "kind": ("", "throughput")}
    return lambda row: PairQuery(
        RATE,
        labels,
        where=lambda p: (p["operation"] == "load") == (row.x == "load"),
        each=each,
        varied=varied,
    )


def _chain_reads(row: PaperRow) -> PairQuery:
    """PVLDB 15(11), Figure 7: dependent reads of 16 threads."""
    labels = {"measurement": "operation_latency", "chain": f"rp_{row.x}", "mode": "dependent"}
    return PairQuery(DURATION, labels, threads=16)


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


def _trees(row: PaperRow) -> PairQuery:
    return PairQuery(
        OPERATIONS,
        {"chain": _TREES.get(row.x, ()), "mode": "independent"},
        each=lambda p: "update" if "w" in p["chain"] else "lookup",
        threads=32,
    )


_OF_TIERS: Mapping[tuple[str, str], Callable[[PaperRow], PairQuery]] = {
    ("empirical-guide", "sec3.2"): lambda row: PairQuery(
        DURATION,
        {"measurement": "latency", "operation": row.x},
        each=lambda p: p["pattern"],
    ),
    ("empirical-guide", "fig4"): _accesses("threads", varied=("threads",), each=_store),
    ("pmem-io-primitives", "sec2.2"): _accesses(
        "granularity", "threads", varied=(_SIZE, "threads"), each=_measured_store
    ),
    # A chase whose suite says no order is one in random order.
    ("pmem-io-primitives", "fig3"): lambda row: PairQuery(
        LATENCY, {"measurement": "chase", "pattern": ("", row.x)}
    ),
    ("perma-bench", "fig7"): _chain_reads,
    ("perma-bench", "fig9"): _trees,
}


def over_dimms(row: PaperRow) -> Numbers:
    """``apache_256 6 over 1 dimms``: of sequential writes, 32 threads (PVLDB 15(11), 4.5.3)."""
    _, over, _, under, _ = row.arm.split()
    writes = {"measurement": "sequential_writes", **of_kind(row.x)}
    query = PairQuery(RATE, writes, varied=(_SIZE,), threads=32)
    a, b = (of_dimms(row.others, row.device.host, int(count)) for count in (over, under))
    return row.numbers(query.ratios(a, b))


_PREFETCHERS = "prefetchers"
#: The state of what a host did not let the harness read.
_UNREADABLE = "unreadable"


def prefetched_reads(row: PaperRow) -> Numbers:
    """Random reads with prefetchers over those without (PVLDB 15(11), Figure 13), by size.

    Below 1 the prefetchers cost bandwidth.
    """
    others = (one for one in row.others if differ_in(_PREFETCHERS, one, row.device))
    states = {one.state.get(_PREFETCHERS, _UNREADABLE): one for one in (row.device, *others)}
    if set(states) <= {_UNREADABLE}:
        readable = "prefetchers whose state can be read (root, module msr, no VM)"
        raise UnderivedError("needs", readable)
    if missing := [state for state in ("enabled", "disabled") if state not in states]:
        other = f"a run of this tier with prefetchers {' and '.join(missing)}"
        raise UnderivedError("needs", other)
    reads = {"measurement": "prefetched_reads", "operation": "load"}
    query = PairQuery(RATE, reads, each=_size, threads=int(row.x))
    found = query.ratios(states["enabled"], states["disabled"])
    return row.numbers(sorted(found, key=lambda one: one.over.number(_SIZE)))


# Patterns, near and far -------------------------------------------------------------------


def random_over_sequential(row: PaperRow) -> Numbers:
    """Mean times of the same loads; of PerMA-Bench bandwidths over the sequential peak."""
    if row.paper == "perma-bench":
        return _of_sequential_peak(row)
    return row.of_one(
        PairQuery(
            DURATION,
            {"measurement": "latency", "operation": row.x},
            over={"pattern": "random"},
            under={"pattern": "sequential"},
        )
    )


def _of_sequential_peak(row: PaperRow) -> Numbers:
    """PVLDB 15(11), Section 4.2.2: the best of random reads of a size over that of sequential."""
    held = {}
    for name in ("random_reads", "sequential_reads"):
        points = row.device.select(RATE, measurement=name, operation="load", job="")
        held[name] = one_experiment(beyond_caches(row.device, points), _SIZE, "threads")
        if not held[name]:
            raise UnderivedError("needs", f"{name.replace('_', ' ')} as well")
    reads = [p for p in held["random_reads"] if p[_SIZE] == row.x]
    if not reads:
        raise UnderivedError("one-sided")
    return row.numbers([PointRatio(best(reads), best(held["sequential_reads"]))])


_FAR: Having = {"numa": "far"}


def _far_over_near(row: PaperRow, query: PairQuery, needed: str) -> list[PointRatio]:
    query = replace(query, over=_FAR, under={"numa": NEAR_NODES})
    if not query.points(row.device, _FAR):
        raise UnderivedError("needs", needed)
    return query.ratios(row.device, row.device)


def far_over_near(row: PaperRow) -> Numbers:
    """FAST'20, Section 5.4: times of the same accesses, or bandwidths at the best thread count."""
    if row.metric == "bandwidth_ratio":
        return _far_bandwidth(row)
    if row.x in ("sequential", "random"):
        query = PairQuery(DURATION, {"operation": "load", "pattern": row.x})
    else:
        query = PairQuery(DURATION, of_kind(row.x), each=lambda p: p["pattern"], every=True)
    return row.numbers(_far_over_near(row, query, "times of far accesses"))


def _far_bandwidth(row: PaperRow) -> Numbers:
    """Loads or stores alone; of a mix its ends, which are nothing but loads, or stores."""
    loads = row.x == "load"

    def alone(point: Point) -> bool:
        if point["operation"] == "mixed":
            return point["read_share"] == ("1" if loads else "0")
        return (point["operation"] == "load") == loads

    query = PairQuery(RATE, where=alone, each=_store, varied=("threads",))
    found = _far_over_near(row, query, "the same accesses from a far node")
    counts = numbers_text((a for one in found for a, _ in one.pairs), "threads")
    return row.numbers(found, f"best of {counts} threads")


def near_over_far(row: PaperRow) -> Numbers:
    """The largest gap of a workload that was measured from both (FAST'20, Sections 3.1, 5.4)."""

    def workload(point: Point) -> str:
        return ", ".join((kind_of(point), point["pattern"], _size(point), threads_of(point)))

    query = PairQuery(RATE, each=workload, every=True)
    found = [one for one in _far_over_near(row, query, "a sweep from a far node") if one.value]
    if not found:
        raise UnderivedError("one-sided")
    least = min(found, key=lambda one: one.value)
    return row.numbers([PointRatio(least.under, least.over)], least.name)


# Instructions and flushes -------------------------------------------------------------------

#: PerMA-Bench's words for persist instructions (PVLDB 15(11), Section 3.3), as kinds.
_PERSIST = {
    "nocache": "ntstore",
    "cache": "store+clwb",
    "cacheinv": "store+clflushopt",
    "none": "store",
}


#: Bandwidth over threads.
_SWEPT = PairQuery(RATE, {"measurement": "threads"}, where=lambda p: bool(p[_SIZE]))


def persist_instructions(row: PaperRow) -> Numbers:
    """``none over cache`` of random writes with 32 threads (Figure 6b)."""
    over, under = (of_kind(_PERSIST[word]) for word in row.arm.split()[1::2])
    writes = {"measurement": "random_writes", _SIZE: row.x}
    return row.of_one(PairQuery(RATE, writes, over, under, ("fence",), threads=32))


def kinds(row: PaperRow) -> Numbers:
    """``pmem load over ntstore``: each at its best thread count (FAST'20, Figure 4)."""
    over, under = (of_kind(word) for word in row.arm.split()[1::2])
    return row.of_one(
        replace(_SWEPT, over=over, under=under, apart=("fence",), varied=("threads",))
    )


def thread_counts(row: PaperRow) -> Numbers:
    """``pmem 8 over 1 threads`` of one kind of access (FAST'20, Figure 4)."""
    _, over, _, under, _ = row.arm.split()
    labels = {**_SWEPT.labels, **of_kind(row.x)}
    return row.of_one(PairQuery(RATE, labels, {"threads": over}, {"threads": under}))


def double_flush(row: PaperRow) -> Numbers:
    """A line written and flushed twice over once, by instruction, 16 threads (Figures 7, 8).

    The paper's sentence takes the single flush of Figure 7, which is of 256 bytes: it is shown
    next to that of the same line.
    """
    return row.numbers(
        [
            replace(one, name=f"{word} over {of}{size} B")
            for size, of in ((row.x, ""), ("256", "Figure 7's "))
            for word in ("cache", "cacheinv", "nocache")
            for one in _double_flush(row.x, word, size).ratios(row.device, row.device)
        ]
    )


def _double_flush(line_bytes: str, word: str, size: str) -> PairQuery:
    line = f"wp_{line_bytes}_{word}"
    twice = f"rp_{line_bytes},{line},{line}"
    return PairQuery(
        DURATION,
        {"mode": "dependent"},
        over={"measurement": "double_flush_latency", "chain": twice},
        under={"measurement": "operation_latency", "chain": f"rp_{size},wp_{size}_{word}"},
        threads=16,
    )


#: The chains of PVLDB 15(11), Section 4.4.1; what has no chain is a log.
_CHAINS = {"hash": HASH_UPDATE, **{name: update for name, (_, update) in _TREES.items()}}


def unflushed_chain(chain: str) -> PairQuery:
    """Operations without flushes over the same with them, of each thread count."""
    return PairQuery(
        OPERATIONS,
        {"mode": "independent"},
        over={"chain": chain.replace("_cache", "_none")},
        under={"chain": chain},
        each=_work,
    )


#: The same of each way to write a log.
UNFLUSHED_LOGS = PairQuery(
    OPERATIONS,
    {"measurement": "log"},
    over={"flush": "none"},
    under={"flush": "clwb"},
    each=_work,
    every=True,
)


def unflushed_index(flush: str) -> PairQuery:
    """The same of each index that flushes in this way."""
    indexes = replace(UNFLUSHED_LOGS, labels={}, under={"flush": flush}, every=True)
    return replace(indexes, where=lambda point: bool(point["index"]))


def none_over_cache(row: PaperRow) -> Numbers:
    """Operations of 32 threads (PVLDB 15(11), Sections 4.4.1 and 4.4.4)."""
    if row.x == "log":
        return row.of_one(replace(UNFLUSHED_LOGS, each=lambda p: p["writer"], threads=32))
    query = unflushed_chain(_CHAINS[row.x])
    return row.of_one(replace(query, each=lambda p: "", threads=32))


# Indexes, pages and logs --------------------------------------------------------------------


def policies(row: PaperRow) -> Numbers:
    """``level_hash manual over vanilla``: measurements of BENTŌ's Figure 2.

    A gain in operations names its cause.
    """
    index, over, _, under = row.arm.split()
    if row.x != "d" and over.endswith("_unaware"):
        raise UnderivedError("needs", "updates that insert, as the paper's: here they are in place")
    rates = row.metric == "operations_ratio"
    found = PairQuery(
        OPERATIONS if rates else FLUSHES_PER_WRITE,
        {"index": index, "workload": row.x},
        {"measurement": over},
        {"measurement": under},
        ("discipline", "flush", "fence"),
    ).ratios(row.device, row.device)
    line = flushed_line(row.device) if rates else None
    causes = {"kept": ["clwb keeps the line"], "evicted": ["clwb evicts the line"]}
    return row.numbers(found, *(causes.get(line.outcome, []) if line else []))


def _pages(over: str, under: str, measurement: str) -> PairQuery:
    return PairQuery(
        OPERATIONS, {"measurement": measurement}, {"method": over}, {"method": under}, every=True
    )


def crossover_dirty_lines(row: PaperRow) -> Numbers:
    """By dirty lines, which of CoW and µLog flushes more pages a second (DaMoN'19, Figure 5)."""
    query = _pages("cow", "mulog", "dirty_lines")
    query = replace(query, varied=("dirty_lines",), threads=int(row.x))
    found = query.ratios(row.device, row.device)
    ahead = sorted((one.over.number("dirty_lines"), one.value > 1) for one in found)
    spans = [
        (cow, [lines for lines, _ in same]) for cow, same in groupby(ahead, key=lambda one: one[1])
    ]
    if len(spans) > 2:
        places = ", ".join(f"{lines[0]:g}" for _, lines in spans[1:])
        raise UnderivedError("ambiguous", f"which is ahead changes at {places} lines")
    return Numbers(
        tuple(
            row.number(lines[0], "lines", "CoW" if cow else "µLog", lines[-1])
            for cow, lines in spans
        )
    )


def versions_over_invalidation(row: PaperRow) -> Numbers:
    """CoW with page versions, two barriers, over CoW that invalidates, three (Section 3.2.1)."""
    query = _pages("cow", "cow_invalidate", "barriers")
    labels = {**query.labels, "kind": "page"}
    query = replace(query, labels=labels, each=threads_of, varied=("threads",))
    return row.of_one(query)


def logs(row: PaperRow) -> Numbers:
    """Over all sizes of entries (DaMoN'19, Figure 6): ``padded over naive`` of each writer, or
    ``zero over classic``, padded.
    """
    size = "entry_bytes"
    query = PairQuery(OPERATIONS, {"measurement": "log"}, varied=(size,), every=True)
    if row.arm.endswith("padded over naive"):
        query = replace(
            query, over={"padded": "yes"}, under={"padded": "no"}, each=lambda p: p["writer"]
        )
    else:
        labels = {**query.labels, "padded": "yes"}
        query = replace(query, labels=labels, over={"writer": "zero"}, under={"writer": "classic"})
    found = query.ratios(row.device, row.device)
    sizes = sorted(one.over.number(size) for one in found)
    ends = dict.fromkeys(map(format_bytes, (sizes[0], sizes[-1])))
    return row.numbers(found, f"entries of {' to '.join(ends)}")
