"""The time of runs: how long they will take, what is left of a command's, and a budget for several.

Everything that says or decides how long something takes asks :class:`Estimator`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from harness import registry
from harness.errors import UsageError
from harness.execution.host_lock import working_ns
from harness.execution.resolved_run import ResolvedRun
from harness.store.datasets import Dataset
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.units import NS_PER_S


def least_ns(spec: RunSpec) -> int:
    """Ramp-up and window of a client's load: the same for every size of the data."""
    if not registry.all_parameters(spec.workload):  # a suite of microbenchmarks
        return 0
    outline = registry.parameters_of(spec).outline()
    return outline.ramp_up_ns + outline.window_ns


#: Most earlier runs that are read.
_NEWEST = 20
#: Without an earlier run: the rate of copying and checking data, and the time to start and stop
#: the server.
_ASSUMED_BYTES_PER_S = 150_000_000
_ASSUMED_OVERHEAD_NS = 5 * NS_PER_S
#: Parameters that say how much data a run restores and checks.
_SIZES = ("warehouses", "records", "scale")
#: Without a load that was timed: its rate.
_ASSUMED_LOAD_BYTES_PER_S = 30_000_000


def assumed_overhead_ns(copied_bytes: int) -> int:
    """Time that a run takes in addition to its phases where no earlier run says it."""
    return _ASSUMED_OVERHEAD_NS + copied_bytes * NS_PER_S // _ASSUMED_BYTES_PER_S


@dataclass(frozen=True)
class RunTime:
    """The estimated duration of a run, without loading its data, and its basis."""

    duration_ns: int
    basis: Literal["earlier runs", "assumptions"]


class Estimator:
    """Estimate durations of runs and loads from those of the newest earlier ones."""

    def __init__(self, earlier: Iterable[StoredRun] = (), datasets: Sequence[Dataset] = ()) -> None:
        self._datasets = datasets
        self._alike: dict[str, list[StoredRun]] = {}
        self._durations: dict[str, list[int]] = {}
        self._overheads: dict[str, list[int]] = {}
        for stored in earlier:
            spec = stored.spec
            for key in (spec.series(), _kind(spec)):
                self._alike.setdefault(key, []).append(stored)

    def run_time(self, step: ResolvedRun) -> RunTime | None:
        """The median of earlier repeats; of a suite, the time of its configurations.

        Without any, for a client's load: its ramp-up and window plus the overhead of earlier
        runs of workload and engine on as much data, or an assumed overhead with the time to copy
        the data. None where nothing is known.
        """
        if step.planned_ns is not None:
            return RunTime(step.planned_ns, "assumptions") if step.planned_ns else None
        spec = step.spec
        series, kind = spec.series(), _kind(spec)
        if series not in self._durations:
            self._durations[series] = _durations_ns(self._alike.get(series, []))
        if same := self._durations[series]:
            return RunTime(round(median(same)), "earlier runs")
        shortest = least_ns(spec)
        if not shortest:
            return None
        if kind not in self._overheads:
            self._overheads[kind] = _durations_ns(self._alike.get(kind, []), beyond_least=True)
        if overhead := self._overheads[kind]:
            return RunTime(shortest + round(median(overhead)), "earlier runs")
        return RunTime(shortest + assumed_overhead_ns(step.copied_bytes), "assumptions")

    def total_ns(self, steps: Iterable[ResolvedRun], unknown_ns: int | None = None) -> int | None:
        """Sum of the steps to do; None where one is not known, unless it counts ``unknown_ns``."""
        times = [self.run_time(step) for step in steps if step.done is None]
        each = [time_.duration_ns if time_ else unknown_ns for time_ in times]
        durations = [ns for ns in each if ns is not None]
        return sum(durations) if len(durations) == len(each) else None

    def load_ns(self, step: ResolvedRun) -> int:
        """Time to load the data of a run: by the newest dataset alike, or assumed."""
        spec, size_bytes = step.spec, sum(step.needs_bytes.values())
        for dataset in sorted(self._datasets, key=lambda each: -each.record.created_unix_ns):
            key, took_ns = dataset.record.key, dataset.record.loaded_in_ns
            if took_ns and (key.get("workload"), key.get("engine")) == (spec.workload, spec.engine):
                return took_ns * size_bytes // max(1, dataset.size_bytes)
        return size_bytes * NS_PER_S // _ASSUMED_LOAD_BYTES_PER_S


def _kind(spec: RunSpec) -> str:
    sizes = [f"{name} {spec.params[name]}" for name in _SIZES if name in spec.params]
    return " ".join([spec.workload, "on", spec.engine, *sizes])


def _durations_ns(earlier: Sequence[StoredRun], beyond_least: bool = False) -> list[int]:
    """Durations of the newest runs that were not resumed."""
    durations = []
    for stored in earlier[-_NEWEST:]:
        if stored.head.status != "failed" and not stored.result.resumed:
            with suppress(UsageError):  # parameters of another version of the harness
                shortest = least_ns(stored.spec) if beyond_least else 0
                durations.append(max(0, int(stored.result.duration_ns) - shortest))
    return durations


@dataclass(frozen=True)
class Item:
    """A load or a run that is to do; ``expected_ns``: its estimated duration, None if not known."""

    kind: Literal["load", "run"]
    key: str
    expected_ns: int | None


@dataclass
class TimeLeft:
    """Time that items still take: estimates, corrected by how long those so far took here.

    Waiting for the measuring lock is in what they took, and does not shorten what is left.
    """

    to_do: list[Item]
    clock: Callable[[], int] = time.monotonic_ns
    working: Callable[[], int] = working_ns
    _done: list[tuple[Item, int]] = field(default_factory=list)
    _current: tuple[Item, int] | None = None

    @contextmanager
    def doing(self, kind: Literal["load", "run"], key: str) -> Iterator[Callable[[], None]]:
        """An item is under way. Yield what is called at its end: others take as long.

        Not of one that fails, nor of a further attempt.
        """
        listed = next((item for item in self.to_do if (item.kind, item.key) == (kind, key)), None)
        item = listed or Item(kind, key, None)
        if listed is not None:
            self.to_do.remove(listed)
        began_ns, self._current = self.clock(), (item, self.working())

        def done() -> None:
            if listed is not None:
                self._done.append((item, self.clock() - began_ns))

        try:
            yield done
        finally:
            self._current = None

    def left_ns(self) -> int | None:
        """Time for the items to do and the one under way; None where nothing is known of one."""
        each = [self._each_ns(item) for item in list(self.to_do)]
        if (current := self._current) is not None:
            whole = self._each_ns(current[0])
            spent = self.working() - current[1]
            each.append(None if whole is None else max(0, whole - spent))
        times = [ns for ns in each if ns is not None]
        return round(sum(times)) if len(times) == len(each) else None

    def _each_ns(self, item: Item) -> float | None:
        took = [(done.expected_ns, ns) for done, ns in self._done if done.kind == item.kind]
        if item.expected_ns is None:
            return fmean(ns for _, ns in took) if took else None
        both = [(expected, ns) for expected, ns in took if expected]
        factor = sum(ns for _, ns in both) / sum(ns for ns, _ in both) if both else 1.0
        return item.expected_ns * factor


class Budget:
    """Time that runs may take together, from now on; None: no limit."""

    def __init__(self, budget_ns: int | None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._budget_ns = budget_ns
        self._clock = clock
        self._started = clock()

    def left_ns(self) -> int | None:
        """Time that is left of it."""
        if self._budget_ns is None:
            return None
        return max(0, self._budget_ns - (self._clock() - self._started))

    def refuses(self, cost_ns: int | None) -> str:
        """Why runs of this estimated duration do not fit; empty if they do, or nothing is known."""
        if (left_ns := self.left_ns()) is None:
            return ""
        if left_ns == 0:
            return "the budget is spent"
        if cost_ns is not None and cost_ns > left_ns:
            return "what is next does not fit into what is left of the budget"
        return ""
