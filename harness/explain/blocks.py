"""Delays that change at random within a run, and the mean latency under each of them.

A window is divided into short blocks; of queries, each execution is a block, and a round has one
without a delay, too. A round has each level
once, in an order of its own, and the next round begins where it ends. Comparing whole runs instead
drowns in a shared machine's noise.
"""

from __future__ import annotations

import random
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import count, islice
from operator import add
from statistics import median
from typing import Any, TypeVar

from harness.errors import RunFailed, UsageError
from harness.explain.fit import LEAST_ROUNDS, Block, TooFewBlocks
from harness.explain.whatif import Calls, WhatIf, calls_of, floor_ns
from harness.iotrace.page import Page, PageError, Reading
from harness.iotrace.plant import LONGEST_NS, Plant
from harness.store.result import Metric
from harness.workloads.parameters import Parameters

T = TypeVar("T")
#: Long enough for hundreds of transactions, short enough for dozens of rounds per minute.
BLOCK_NS = 500_000_000
#: After a change, calls that began before it, and the longest delay, have ended.
_SETTLE_NS = 20_000_000
#: Of the client's series. An interval that contains a change of the delay is dropped.
_SERIES_NS = 50_000_000
#: Longer levels leave a block too few operations.
_LONGEST_IN_BLOCK_NS = BLOCK_NS // 4
#: A block with fewer operations has no mean latency.
_LEAST_OPERATIONS = 5


@dataclass(frozen=True)
class Stretch:
    """A time under one planted delay. ``delayed`` calls were delayed by ``delay_ns`` in all.

    ``call_ns``: mean duration of a call without it; ``spent``: the trace's counters.
    """

    round: int
    planted_ns: int
    begin_ns: int
    end_ns: int
    delayed: int
    delay_ns: int
    call_ns: float | None
    spent: Reading

    def block(self, latency_ns: float) -> Block:
        """Of its operations, or of the query that was executed."""
        delay_ns = self.delay_ns / self.delayed if self.delayed else 0.0
        return Block(self.round, self.planted_ns, delay_ns, latency_ns, self.call_ns)


class DelayBlocks:
    """Plants one level after the other while a window lasts, or for each execution of a query.

    ``seed``: of the order. ``clock`` and ``wait`` (seconds; whether the window has ended) are
    those of the host.
    """

    series_ns = _SERIES_NS

    def __init__(
        self,
        page: Page,
        plant: Plant,
        seed: int,
        clock: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.plant = plant
        self.stretches: list[Stretch] = []
        #: By the labels of a query: its executions with their durations.
        self._executed: dict[tuple[tuple[str, str], ...], list[tuple[Stretch, int]]] = {}
        self._series: Sequence[Mapping[str, Any]] = ()
        self._page, self._clock, self._seed = page, clock, seed
        #: Mean duration of a call by which levels were chosen; None of given levels.
        self._suited_ns: float | None = None
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._levels = orders(plant.levels_ns, seed)
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """The window begins."""
        self._thread = threading.Thread(target=self.run, name="delay-blocks", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """It ends, and its last, incomplete block is dropped."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def offered(self, series: Sequence[Mapping[str, Any]]) -> None:
        """See harness.workload.VariesDelays."""
        self._series = series

    def run(self) -> None:
        """Plant until the window ends, or the page is damaged: its other readers report that."""
        try:
            if self.plant.adapts:
                shortest_ns = self.plant.levels_ns[0]
                ended, stretch = self._under(-1, shortest_ns, lambda: self._wait(BLOCK_NS / 1e9))
                if ended:
                    return
                self._choose_levels(stretch.spent, _LONGEST_IN_BLOCK_NS)
            settle_s = (_SETTLE_NS + self.plant.levels_ns[-1]) / 1e9
            rest_s = BLOCK_NS / 1e9 - settle_s
            for number, level_ns in self._levels:
                self.plant.apply(self._page, level_ns)
                if self._wait(settle_s):
                    break
                ended, stretch = self._under(number, level_ns, lambda: self._wait(rest_s))
                if ended:
                    break
                self.stretches.append(stretch)
        except PageError:
            return

    def order(self, rounds: int) -> list[tuple[int, int]]:
        """See harness.workload.VariesDelays."""
        if self.plant.adapts:
            with _undamaged():
                self._choose_levels(self._page.read(details=False), LONGEST_NS)
        levels_ns = (0, *self.plant.levels_ns)
        return list(islice(orders(levels_ns, self._seed), rounds * len(levels_ns)))

    def execute(
        self,
        labels: Mapping[str, str],
        number: int,
        level_ns: int,
        execute: Callable[[], int | None],
    ) -> None:
        """See harness.workload.VariesDelays."""
        with _undamaged():
            duration_ns, stretch = self._under(number, level_ns, execute)
            self.plant.apply(self._page)  # restarts are as fast as can be
        if duration_ns is not None:
            self._executed.setdefault(tuple(labels.items()), []).append((stretch, duration_ns))

    def _choose_levels(self, spent: Reading, longest_ns: int) -> None:
        """Those that suit the calls that were counted."""
        self._suited_ns = _call_ns(self.plant, spent) or 0.0
        self.plant = self.plant.fitted(self._suited_ns, longest_ns)
        self._levels = orders(self.plant.levels_ns, self._seed)

    def _under(self, number: int, level_ns: int, do: Callable[[], T]) -> tuple[T, Stretch]:
        """The result of ``do`` under a level, and what the trace counted meanwhile."""
        self.plant.apply(self._page, level_ns)
        begin_ns, before = self._clock(), self._page.read(details=False)
        result = do()
        spent, end_ns = self._page.read(details=False) - before, self._clock()
        delayed, delay_ns = (
            sum(spent.value(cell, name) for cell in self.plant.cells())
            for name in ("delayed", "delay_ns")
        )
        call_ns = _call_ns(self.plant, spent)
        return result, Stretch(
            number, level_ns, begin_ns, end_ns, delayed, delay_ns, call_ns, spent
        )

    def concluded(
        self, metrics: Sequence[Metric], operations: Sequence[Mapping[str, Any]]
    ) -> list[WhatIf]:
        """The fit of the window, or of each query; RunFailed where there are too few blocks.

        ``metrics``: of the window, with its waits. ``operations``: of its I/O trace.
        """
        plant = self.plant
        try:
            if self._executed:
                return [
                    _of_query(plant, dict(labels), executed, self._suited_ns)
                    for labels, executed in self._executed.items()
                ]
            done = sum(sum(point["counts"].values()) for point in self._series)
            calls = calls_of(plant, operations)
            per_operation = calls.count / done if done else 0.0
            floor = floor_ns(plant, metrics, calls, done)
            return [
                WhatIf(
                    plant.part,
                    plant.operation,
                    self.blocks(),
                    calls,
                    per_operation,
                    floor,
                    suited_ns=self._suited_ns,
                )
            ]
        except TooFewBlocks as error:
            round_s = len(plant.levels_ns) * BLOCK_NS / 1e9
            more = "delay_rounds" if self._executed else f"--duration (a round takes {round_s:g} s)"
            raise RunFailed(
                f"fit the latency against {plant.part}.{plant.operation}",
                f"{error} with delayed calls and {_LEAST_OPERATIONS} operations in a block",
                f"raise {more}, or choose an operation that the engine calls more often "
                "(io-operations.json)",
            ) from error

    def blocks(self) -> list[Block]:
        """Those with delayed calls and a mean latency."""
        found = []
        mix = _Mix(self._series)
        stamps = [point["monotonic_ns"] for point in self._series]
        for one in self.stretches:
            first = bisect_left(stamps, one.begin_ns)
            after = bisect_left(stamps, one.end_ns - _SERIES_NS + 1)
            latency_ns = mix.latency_ns(self._series[first:after])
            if latency_ns is not None and one.delayed:
                found.append(one.block(latency_ns))
        return found


def check_varied(plant: Plant, driver: str, params: Parameters) -> None:
    """UsageError for a run in which a delay cannot vary."""
    outline, native = params.outline(), next(iter(params.drivers))
    least_ns = (LEAST_ROUNDS * len(plant.levels_ns) + plant.adapts) * BLOCK_NS
    if outline.delay_rounds:
        return
    if driver != native:
        context, hint = f"{driver} does not count in short intervals", f"use --driver {native}"
    elif outline.client_hosts:
        context, hint = "clients on other hosts have clocks of their own", "leave client_hosts out"
    elif outline.kills:
        context, hint = "the server is killed in the window", "use --test throughput"
    elif not outline.window_ns:
        context, hint = "no duration bounds a window", "set --duration, of TPC-H --test queries"
    elif plant.levels_ns[-1] > _LONGEST_IN_BLOCK_NS:
        context = f"a block of {BLOCK_NS / 1e9:g} s has too few operations at its longest delay"
        hint = f"choose levels up to {_LONGEST_IN_BLOCK_NS // 1_000_000} ms"
    elif outline.window_ns < least_ns:
        context = (
            f"{LEAST_ROUNDS} rounds of {len(plant.levels_ns)} levels take {least_ns / 1e9:g} s"
        )
        hint = f"set --duration {least_ns / 1e9:g}s or more"
    else:
        return
    raise UsageError(f"varied delay {plant}", context, hint)


def orders(levels_ns: Sequence[int], seed: int) -> Iterator[tuple[int, int]]:
    """Number of the round and level, without end; each round has each level once."""
    draw = random.Random(seed)
    for number in count():
        for level_ns in draw.sample(levels_ns, len(levels_ns)):
            yield number, level_ns


class _Mix:
    """The window's operations by kind, each with its share of them.

    In half a second, a few long operations more or less would move the mean.
    """

    def __init__(self, series: Sequence[Mapping[str, Any]]) -> None:
        self._counts, self._sums_ns = _sums(series)

    def latency_ns(self, intervals: Sequence[Mapping[str, Any]]) -> float | None:
        """Mean latency in intervals, with the window's shares; None of too few operations."""
        counts, sums_ns = _sums(intervals)
        if sum(counts.values()) < _LEAST_OPERATIONS:
            return None
        mean_ns = 0.0
        for kind, all_ended in self._counts.items():
            ended = counts.get(kind, 0)  # a rare kind counts as in the whole window
            own_ns = sums_ns[kind] / ended if ended else self._sums_ns[kind] / max(1, all_ended)
            mean_ns += own_ns * all_ended
        return mean_ns / sum(self._counts.values())


def _sums(series: Sequence[Mapping[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Operations and their latencies, by kind."""
    counts: Counter[str] = Counter()
    sums_ns: Counter[str] = Counter()
    for point in series:
        counts.update(point["counts"])
        sums_ns.update(point["latencies_ns"])
    return counts, sums_ns


def _call_ns(plant: Plant, spent: Reading) -> float | None:
    """Mean duration of the calls that a plant delays, without the delay.

    Of the foreground's; of all threads where those make none. None without any.
    """
    every = plant.cells()
    for cells in ([cell for cell in every if cell.role != "background"], every):
        if timed := sum(spent.value(cell, "timed") for cell in cells):
            return sum(spent.value(cell, "ns") for cell in cells) / timed
    return None


@contextmanager
def _undamaged() -> Iterator[None]:
    """RunFailed for a page that cannot be read."""
    try:
        yield
    except PageError as error:
        raise RunFailed("vary a planted delay", f"the trace's page is damaged: {error}") from error


def _of_query(
    plant: Plant,
    labels: Mapping[str, str],
    executed: Sequence[tuple[Stretch, int]],
    suited_ns: float | None,
) -> WhatIf:
    """The fit of one query's executions."""
    cells = plant.cells()
    blocks, elsewhere_ns = [], []
    for one, duration_ns in executed:
        own_ns = sum(one.spent.value(cell, "ns") for cell in cells)
        # Of sessions in parallel it is more than they delay the query: a lower bound.
        elsewhere_ns.append(max(0, duration_ns - own_ns - one.delay_ns))
        if one.delayed or not one.planted_ns:
            blocks.append(one.block(float(duration_ns)))
    spent = reduce(add, (one.spent for one, _ in executed))
    count = sum(spent.value(cell, "calls") for cell in cells)
    # As they are now, which a delay may change.
    undelayed = [one.spent for one, _ in executed if not one.planted_ns]
    call_ns = _call_ns(plant, reduce(add, undelayed or [spent]))
    return WhatIf(
        plant.part,
        plant.operation,
        blocks,
        Calls(count, call_ns or 0.0),
        count / len(executed),
        float(median(elsewhere_ns)),
        labels,
        suited_ns,
    )
