"""Planted effects: delays in an engine's log writes, compared as any two placements are.

All arms have a delay, since a thread that sleeps is scheduled differently from one that does not.
One client thread writes the log once per update, so what an arm's delay has on top of the others'
is what its updates take longer: that is the truth, however busy the host is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from harness.selftest import Case, NotMetError, expect, most_misses
from harness.selftest.lab import YCSB, Lab
from harness.store.runs import StoredRun
from reports.compare import Row, compare

#: As shares of the base delay.
EFFECTS = (0.05, 0.1, 0.3)
#: Pairs of a trial, and the fewest that can show a difference.
REPEATS, LEAST_PAIRS = 8, 6
#: The workload that is run.
WORKLOADS: Mapping[str, Mapping[str, Any]] = {"ycsb": YCSB}
_PART, _OPERATION = "wal", "write"
#: Of all arms: long in comparison with the rest of an update.
_BASE_NS = 50_000_000
#: Of a run.
_UPDATES = 20


@dataclass(frozen=True)
class Trial:
    """One comparison; ``truth``: B's speed relative to A's, computed from the delays."""

    effect: float
    truth: float
    row: Row

    @property
    def covered(self) -> bool:
        """Whether the interval covers the truth."""
        estimate = self.row.estimate
        assert estimate is not None
        low, high = estimate.low, estimate.high
        return low is not None and high is not None and low <= self.truth <= high

    def __str__(self) -> str:
        estimate = self.row.estimate
        assert estimate is not None
        low, high = (value or 0.0 for value in (estimate.low, estimate.high))
        return f"{self.truth - 1:+.1%} in [{low - 1:+.1%}, {high - 1:+.1%}]"


@dataclass
class Effects:
    """All trials, of which the cases are conclusions."""

    lab: Lab
    trials: int
    _done: list[Trial] = field(default_factory=list)

    def cases(self) -> Iterator[Case]:
        """Coverage of the truth, and whether the largest effect is always found."""
        yield Case("effects: the interval covers the planted effect", self.covers)
        yield Case(f"effects: {EFFECTS[-1]:.0%} is found", self.finds)

    def covers(self) -> str:
        """Run the trials. Their intervals may miss the truth as often as they say."""
        while len(self._done) < self.trials * len(EFFECTS):
            self._done += trial(self.lab)
        total = len(self._done)
        missed = sum(not one.covered for one in self._done)
        stated = min(one.row.estimate.confidence for one in self._done if one.row.estimate)
        by_effect = "; ".join(
            f"{effect:.0%}: {sum(one.covered for one in own)} of {len(own)}, such as {own[-1]}"
            for effect in EFFECTS
            if (own := [one for one in self._done if one.effect == effect])
        )
        return expect(missed <= most_misses(total, 1 - stated), by_effect)

    def finds(self) -> str:
        """Of the same trials."""
        largest = [one for one in self._done if one.effect == EFFECTS[-1]]
        found = sum(one.row.verdict == "slower" for one in largest)
        return expect(bool(largest) and found == len(largest), f"{found} of {len(largest)} trials")


def trial(lab: Lab) -> list[Trial]:
    """Arms with the base delay and with each effect on top of it, in interleaved blocks."""
    delays_us = [round(_BASE_NS / 1000 * (1 + effect)) for effect in (0, *EFFECTS)]
    arms = [{"plant": [f"{_PART}.{_OPERATION}=+{delay}us"]} for delay in delays_us]
    params = {**YCSB["params"], "operationcount": _UPDATES}
    runs = lab.run("ycsb", {**YCSB, "params": params}, arms, REPEATS)
    by_arm: dict[tuple[str, ...], dict[int, StoredRun]] = {}
    for run in runs:
        if run.run["status"] == "complete":
            by_arm.setdefault(run.spec.plant, {})[run.spec.block] = run
    base, *planted = (by_arm.get(tuple(arm["plant"]), {}) for arm in arms)
    found = [_compared(base, arm) for arm in planted]
    time_ns = median(map(_time_per_operation_ns, base.values()))
    return [
        Trial(effect, time_ns / (time_ns + effect * _BASE_NS), row)
        for effect, row in zip(EFFECTS, found, strict=True)
    ]


def _compared(base: Mapping[int, StoredRun], planted: Mapping[int, StoredRun]) -> Row:
    """By complete pairs: where a busy host stops a client for a second, its run fails."""
    blocks = base.keys() & planted.keys()
    if len(blocks) < LEAST_PAIRS:
        raise NotMetError(f"only {len(blocks)} of {REPEATS} pairs are complete")
    a, b = ([side[block] for block in sorted(blocks)] for side in (base, planted))
    (group,) = compare(a, b, ["placement"]).groups
    if group.deciding is None or group.deciding.estimate is None:
        raise NotMetError("the comparison has no headline")
    return group.deciding


def _time_per_operation_ns(run: StoredRun) -> float:
    """NotMetError if the operations were not delayed once each."""
    done = _value(run, "operations_per_second") * _value(run, "window_duration_ns") / 1e9
    delayed = sum(
        cell["delayed"]
        for cell in run.artifact("io-operations") or ()
        if (cell["part"], cell["operation"]) == (_PART, _OPERATION)
    )
    if round(delayed / done) != 1:
        raise NotMetError(f"{delayed:,} delays in {done:,.0f} updates: not one each")
    return _value(run, "window_duration_ns") / done


def _value(run: StoredRun, name: str) -> float:
    for metric in run.run["metrics"]:
        if metric["name"] == name and metric.get("value"):
            return float(metric["value"])
    raise NotMetError(f"{run.run_id} has no {name}")
