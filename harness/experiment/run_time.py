"""The time of runs: an estimate of how long one will take, and a budget for several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Literal

from harness import registry
from harness.errors import UsageError
from harness.store.datasets import Dataset
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.units import NS_PER_S


def least_ns(spec: RunSpec) -> int:
    """Ramp-up and window of a client's load: the same for every size of the data."""
    if spec.workload not in registry.all_parameters():  # a suite of microbenchmarks
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


@dataclass(frozen=True)
class RunTime:
    """The estimated duration of a run, without loading its data, and its basis."""

    duration_ns: int
    basis: Literal["earlier runs", "assumptions"]


class Estimator:
    """Estimate durations of runs from those of the newest earlier runs."""

    def __init__(self, earlier: Sequence[StoredRun]) -> None:
        self._alike: dict[str, list[StoredRun]] = {}
        for stored in earlier:
            spec = stored.spec
            for key in (spec.series(), _kind(spec)):
                self._alike.setdefault(key, []).append(stored)

    def run_time(self, spec: RunSpec, data_bytes: int) -> RunTime | None:
        """The median of earlier repeats.

        Without any, for a client's load: its ramp-up and window plus the overhead of earlier
        runs of workload and engine on as much data, or an assumed overhead with the time to copy
        ``data_bytes``. None where nothing is known.
        """
        if same := _durations_ns(self._alike.get(spec.series(), [])):
            return RunTime(round(median(same)), "earlier runs")
        shortest = least_ns(spec)
        if not shortest:
            return None
        if overhead := _durations_ns(self._alike.get(_kind(spec), []), beyond_least=True):
            return RunTime(shortest + round(median(overhead)), "earlier runs")
        copying_ns = data_bytes * NS_PER_S // _ASSUMED_BYTES_PER_S
        return RunTime(shortest + _ASSUMED_OVERHEAD_NS + copying_ns, "assumptions")


def load_ns(datasets: Sequence[Dataset], spec: RunSpec, size_bytes: int) -> int:
    """How long it takes to load data of this size: by the newest dataset alike, or assumed."""
    for dataset in sorted(datasets, key=lambda one: -one.record.created_unix_ns):
        key, took_ns = dataset.record.key, dataset.record.loaded_in_ns
        if took_ns and (key.get("workload"), key.get("engine")) == (spec.workload, spec.engine):
            return took_ns * size_bytes // max(1, dataset.size_bytes)
    return size_bytes * NS_PER_S // _ASSUMED_LOAD_BYTES_PER_S


def _kind(spec: RunSpec) -> str:
    sizes = [f"{name} {spec.params[name]}" for name in _SIZES if name in spec.params]
    return " ".join([spec.workload, "on", spec.engine, *sizes])


def _durations_ns(earlier: Sequence[StoredRun], beyond_least: bool = False) -> list[int]:
    """Of the newest runs that were not resumed."""
    found = []
    for stored in earlier[-_NEWEST:]:
        if stored.head.status != "failed" and not stored.result.resumed:
            with suppress(UsageError):  # parameters of another version of the harness
                shortest = least_ns(stored.spec) if beyond_least else 0
                found.append(max(0, int(stored.result.duration_ns) - shortest))
    return found


class Budget:
    """Time that runs may take together, from now on; None: no limit."""

    def __init__(self, budget_ns: int | None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._budget_ns = budget_ns
        self._clock = clock
        self._started = clock()

    def left_ns(self) -> int | None:
        """What is left of it."""
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
