"""Planted effects: delays in an engine's log writes, compared as any two placements are.

The truth is not the delay that was planted but the one that the engine got (harness.iotrace): of
one client thread that writes the log once per update, a run would have been faster by just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from harness.selftest import Case, NotMetError, expect, most_misses
from harness.selftest.lab import TIER, YCSB, Lab
from harness.store.runs import StoredRun
from reports.compare import Row, compare

#: As shares of the time of an operation.
EFFECTS = (0.05, 0.1, 0.3)
#: Pairs of a trial.
REPEATS = 8
_PART, _OPERATION = "wal", "write"
#: Calls per operation are a whole number, but for the window's ends.
_WHOLE = 0.05


@dataclass(frozen=True)
class Trial:
    """One comparison; ``truth``: B's speed relative to A's, computed from the achieved delays."""

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
    """Arms without a delay and with each of the effects, in interleaved blocks."""
    (pilot,) = lab.run("ycsb", YCSB)
    time_ns = _time_per_operation_ns(pilot)
    calls = _calls_per_operation(pilot)
    delays = [max(1, round(effect * time_ns / calls)) for effect in EFFECTS]
    arms = [{"plant": [f"{_PART}.{_OPERATION}=+{ns}ns"]} for ns in delays]
    runs = lab.run("ycsb", YCSB, [{"placement": f"{TIER}-both"}, *arms], REPEATS)
    failed = [run.run_id for run in runs if run.run["status"] != "complete"]
    if failed:
        raise NotMetError(f"{len(failed)} of {len(runs)} runs failed, such as {failed[0]}")
    by_arm: dict[tuple[str, ...], list[StoredRun]] = {}
    for run in runs:
        by_arm.setdefault(run.spec.plant, []).append(run)
    plain = by_arm.pop(())
    return [
        _trial(effect, plain, planted)
        for effect, planted in zip(EFFECTS, by_arm.values(), strict=True)
    ]


def _trial(effect: float, plain: Sequence[StoredRun], planted: Sequence[StoredRun]) -> Trial:
    (group,) = compare(plain, planted, ["placement"]).groups
    if group.deciding is None or group.deciding.estimate is None:
        raise NotMetError("the comparison has no headline")
    return Trial(effect, median(map(_truth, planted)), group.deciding)


def _truth(run: StoredRun) -> float:
    """Speed with the achieved delays relative to the speed without."""
    time_ns = _time_per_operation_ns(run)
    cell = _cell(run)
    delay_ns = cell["delay_ns"] / cell["delayed"] * round(_calls_per_operation(run))
    return (time_ns - delay_ns) / time_ns


def _time_per_operation_ns(run: StoredRun) -> float:
    return _value(run, "window_duration_ns") / _done(run)


def _calls_per_operation(run: StoredRun) -> float:
    calls = _cell(run)["calls"] / _done(run)
    if abs(calls - round(calls)) > _WHOLE * calls:
        raise NotMetError(f"{calls:.2f} writes of the log per update: not a whole number")
    return calls


def _done(run: StoredRun) -> float:
    return _value(run, "operations_per_second") * _value(run, "window_duration_ns") / 1e9


def _value(run: StoredRun, name: str) -> float:
    for metric in run.run["metrics"]:
        if metric["name"] == name and metric.get("value"):
            return float(metric["value"])
    raise NotMetError(f"{run.run_id} has no {name}")


def _cell(run: StoredRun) -> dict[str, int]:
    """The trace's counters of the delayed operation."""
    for cell in run.artifact("io-operations") or ():
        if (cell["part"], cell["operation"], cell["role"]) == (_PART, _OPERATION, "foreground"):
            return dict(cell)
    raise NotMetError(f"{run.run_id}: the log's writes were not traced")
