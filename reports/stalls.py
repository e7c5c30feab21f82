"""Where the processor waits longer: stall cycles by cache level, of one arm against another.

A stall counter of one arm does not say what memory costs: out-of-order execution hides much of
it. Its *difference* between two arms, which differ in memory alone, does (Spa: Melody, ASPLOS
2025). Of the cycles for each operation:

=========  =========================================================================
memory     stalled while a load missed the last-level cache
L3         stalled while one missed L2, but not L3
L2         stalled while one missed L1, but not L2
stores     no load outstanding, and the store buffer full
other      all other cycles: computing, L1, instruction fetch, waiting for locks by spinning
=========  =========================================================================

They add up to all cycles. Each has the difference and interval of ``statistics.difference``, as
has their total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from harness.counters import split
from harness.store.runs import StoredRun
from reports.compare import Group
from reports.compared_rows import interim_analyses_of
from reports.formatting import interval_text, percent, significant
from reports.over_time import measured_spans
from reports.sections import Block, Table, note
from reports.series import Panel
from reports.statistics import Value, difference
from reports.tables import done_count
from reports.values import CLIENT_LABELS, measured

TOTAL = "all cycles"
_CYCLES, _STORES = "perf_cycles", "perf_bound_on_stores"
_MISSES = tuple(f"perf_stalls_{cache}_miss" for cache in ("l1d", "l2", "l3"))
_COUNTERS = (_CYCLES, *_MISSES, _STORES)
_NS_PER_S = 1e9
#: perf's samples must cover this share of what was measured …
_COVERED = 0.9
#: … and intervals that also cover something else be at most this share of it.
_EDGES = 0.1


@dataclass(frozen=True)
class StallTable:
    """One comparison. ``each``: what cycles are counted for; ``of``: the run's, or the host's.

    ``levels``: medians of A and B by level, and their difference.
    """

    a: str
    b: str
    each: str
    of: str
    levels: Mapping[str, tuple[float, float, Value]]

    def share(self, level: str) -> float:
        """Its difference, of all cycles of A."""
        return self.levels[level][2].value / self.levels[TOTAL][0]

    def blocks(self) -> Iterator[Block]:
        """Yield the table and its note."""
        rows = [
            (
                level,
                *(significant(value) for value in (a, b, change.value)),
                interval_text(change),
                percent(self.share(level)),
            )
            for level, (a, b, change) in self.levels.items()
        ]
        yield Table(
            f"Stall cycles by cache level, for each {self.each}: {self.b} against {self.a}",
            ("", self.a, self.b, "difference", "interval", f"of all cycles of {self.a}"),
            rows,
            "numbers",
        )
        of = "the run's processes" if self.of == "run" else "the whole host"
        yield note(
            f"Cycles of {of}. A level's cycles are those in which execution stalled while a load "
            "was served there; stores: the store buffer was full. The levels and other add up to "
            "all cycles."
        )


def stall_tables(panel: Panel) -> list[StallTable]:
    """Return a table of every comparison with the baseline whose arms both counted stalls."""
    return [table for group in panel.groups if (table := _table(group)) is not None]


def _table(group: Group) -> StallTable | None:
    sides = [[per_operation(run) for run in arm.runs] for arm in (group.a, group.b)]
    both_sides = [[cycles for cycles in side if cycles is not None] for side in sides]
    if group.pairing == "paired":
        pairs = [(x, y) for x, y in zip(*sides, strict=True) if x is not None and y is not None]
        both_sides = [[x for x, _ in pairs], [y for _, y in pairs]]
    a, b = both_sides
    if not a or not b or len({(cycles.each, cycles.of) for cycles in (*a, *b)}) != 1:
        return None
    interim_analyses = interim_analyses_of(group.a.runs, group.b.runs)
    levels = {}
    for level in a[0].cycles:
        of_a, of_b = ([cycles.cycles[level] for cycles in side] for side in both_sides)
        change = difference(of_a, of_b, group.pairing, interim_analyses)
        levels[level] = (median(of_a), median(of_b), change)
    return StallTable(group.a.marked_name, group.b.marked_name, a[0].each, a[0].of, levels)


@dataclass(frozen=True)
class Cycles:
    """Cycles for each operation of one run by level, the total first."""

    each: str
    of: str
    cycles: Mapping[str, float]


def per_operation(run: StoredRun) -> Cycles | None:
    """None where they were not counted, or not over what was measured."""
    document = run.artifact("monitor-perf") or {}
    samples = document.get("samples", ())
    if not any(split(counter)[0] == _STORES for sample in samples for counter in sample):
        return None
    spans, (each, done) = measured_spans(run), _operations(run)
    if not spans or not done:
        return None
    interval_ns = document.get("interval_s", 1) * _NS_PER_S
    whole = sum(end - begin for begin, end in spans)
    # A window is one span in steady state: its edges are as the rest of it.
    if len(spans) > 1 and 2 * interval_ns * len(spans) > _EDGES * whole:
        return None
    stamps = [
        samples[0]["monotonic_ns"] - interval_ns,
        *(sample["monotonic_ns"] for sample in samples),
    ]
    covered, counts = 0.0, dict[str, float]()
    for (begin, end), sample in zip(pairwise(stamps), samples, strict=True):
        inside = sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)
        if inside <= 0 or end <= begin:
            continue
        covered += inside
        for counter, value in sample.items():
            if counter != "monotonic_ns" and isinstance(value, int | float):
                counts[counter] = counts.get(counter, 0.0) + value * inside / (end - begin)
    if covered < _COVERED * whole:
        return None
    scale = whole / covered / done
    # A hybrid processor's kinds of cores count apart, and not the same events.
    scaled = {
        split(counter)[0]: value * scale
        for counter, value in counts.items()
        if "pmu" not in split(counter)[1]
    }
    if not all(scaled.get(counter) is not None for counter in _COUNTERS):
        return None
    of = {split(counter)[1].get("of", "") for counter in counts}
    return Cycles(each, ", ".join(sorted(of)), _levels(scaled))


def _levels(counts: Mapping[str, float]) -> dict[str, float]:
    l1d, l2, l3 = (counts[counter] for counter in _MISSES)
    cycles, stores = counts[_CYCLES], counts[_STORES]
    return {
        TOTAL: cycles,
        "memory": l3,
        "L3": l2 - l3,
        "L2": l1d - l2,
        "stores": stores,
        "other": cycles - l1d - stores,
    }


def _operations(run: StoredRun) -> tuple[str, float]:
    """Return the kind of operation that a run did while it was measured, and the number of them."""
    values = measured(run)
    for noun in CLIENT_LABELS:
        if done := done_count(values, noun):
            return noun, done
    return "query", float(sum("query" in entry for entry in run.artifact("timeline") or []))
