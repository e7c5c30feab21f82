"""Planted effects: delays in an engine's log writes, compared as any two placements are.

Both arms have a delay, since a thread that sleeps is scheduled differently from one that does not.
One client thread writes the log once per update, so what an arm's delay has on top of the other's
is what its updates take longer, and that is the truth. What else a busy host does to a block of two
short runs is noise of both; each effect has a base of its own, so that one disturbed base does not
hide several effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from harness.selftest import Case, NotMetError, expect, most_misses
from harness.selftest.lab import YCSB, Lab
from harness.store.runs import StoredRun
from harness.units import counted
from reports.compare import Group, compare
from reports.compared_rows import Row
from reports.explain.causes import Cause, explanation
from reports.statistics import Ratio

#: As shares of the base delay.
EFFECTS = (0.05, 0.1, 0.3)
#: Pairs of a trial, and the fewest that can show a difference.
REPEATS, LEAST_PAIRS = 8, 6
#: What is run.
WORKLOADS = (YCSB,)
_PART, _OPERATION = "wal", "write"
#: Of both arms: long in comparison with the rest of an update.
_BASE_NS = 50_000_000
#: Of a run.
_UPDATES = 20
#: Trials whose interval may miss the effect, as a share, without as many more.
_MISSED = 0.1


@dataclass(frozen=True)
class PlantedTrial:
    """One comparison; ``truth``: B's speed relative to A's, computed from the delays.

    ``causes``: what it is explained by.
    """

    truth: float
    row: Row
    causes: tuple[Cause, ...] = ()

    @property
    def estimate(self) -> Ratio:
        """Estimate of B's speed relative to A's; there are enough pairs for an interval."""
        assert self.row.estimate is not None
        return self.row.estimate

    @property
    def covered(self) -> bool:
        """Return whether the interval covers the truth."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and low <= self.truth <= high

    @property
    def detected(self) -> bool:
        """Return whether B is shown to be slower."""
        return self.row.verdict == "slower"

    @property
    def explained(self) -> bool:
        """Return whether the planted operation is named as the largest cause."""
        first = next(iter(self.causes), None)
        return first is not None and (first.part, first.operation) == (_PART, _OPERATION)

    def __str__(self) -> str:
        low, high = (value or 0.0 for value in (self.estimate.low, self.estimate.high))
        return f"{self.truth - 1:+.1%} in [{low - 1:+.1%}, {high - 1:+.1%}]"


@dataclass
class Effects:
    """All trials, of which the cases are conclusions."""

    lab: Lab
    trials: int
    _done: dict[float, list[PlantedTrial]] = field(default_factory=dict)

    def cases(self) -> Iterator[Case]:
        """Coverage of each truth, and whether the largest effect is always found and explained."""
        for effect in EFFECTS:
            covers = partial(self.covers, effect)
            yield Case(f"effects: the interval covers {effect:.0%}", covers)
        yield Case(f"effects: {EFFECTS[-1]:.0%} is found", self.finds)
        yield Case(f"effects: the cause of {EFFECTS[-1]:.0%} is named", self.explains)

    def covers(self, effect: float) -> str:
        """In nine of ten trials, or else, with as many more, as often as intervals say."""
        done = self._of(effect)
        if sum(not result.covered for result in done) > _MISSED * len(done):
            done += [trial(self.lab, effect) for _ in range(self.trials)]
        covered = sum(result.covered for result in done)
        stated = min(result.estimate.confidence for result in done)
        enough = len(done) - covered <= most_misses(len(done), 1 - stated)
        return expect(enough, self._text(covered, done))

    def finds(self) -> str:
        """In all of the same trials; of a single one, in that or in one more."""
        done = self._of(EFFECTS[-1])
        if self.trials == 1 and not any(result.detected for result in done):
            done.append(trial(self.lab, EFFECTS[-1]))
        detected = sum(result.detected for result in done)
        return expect(
            detected >= (1 if self.trials == 1 else len(done)), self._text(detected, done)
        )

    def explains(self) -> str:
        """In all of the same trials in which it is found."""
        done = [result for result in self._of(EFFECTS[-1]) if result.detected]
        named = sum(result.explained for result in done)
        if not done:
            raise NotMetError("the effect is not found")
        return expect(named == len(done), self._text(named, done))

    def _of(self, effect: float) -> list[PlantedTrial]:
        trials = self._done.setdefault(effect, [])
        while len(trials) < self.trials:
            trials.append(trial(self.lab, effect))
        return trials

    def _text(self, number: int, done: Sequence[PlantedTrial]) -> str:
        more = len(done) - self.trials
        repeated = f" ({more} more, since {self.trials} did not do)" if more > 0 else ""
        return f"{number} of {counted(len(done), 'trial')}{repeated}, such as {done[-1]}"


def trial(lab: Lab, effect: float, updates: int = _UPDATES) -> PlantedTrial:
    """Arms with the base delay and with the effect on top of it, in interleaved blocks.

    ``effect``: a share of the base delay; ``updates``: of a run.
    """
    delays_us = [round(_BASE_NS / 1000 * (1 + more)) for more in (0, effect)]
    arms = [{"plant": [f"{_PART}.{_OPERATION}=+{delay}us"]} for delay in delays_us]
    runs = lab.run(YCSB.with_params(operations=updates), arms, REPEATS)
    by_arm: dict[tuple[str, ...], dict[int, StoredRun]] = {}
    for run in runs:
        if run.result.status == "complete":
            by_arm.setdefault(run.spec.plant, {})[run.spec.block] = run
    base, planted = (by_arm.get(tuple(arm["plant"]), {}) for arm in arms)
    group = _compared(base, planted)
    if group.deciding is None or group.deciding.estimate is None:
        raise NotMetError("the comparison has no headline")
    _expect_delays([*base.values(), *planted.values()])
    time_ns = median(map(_time_per_operation_ns, base.values()))
    truth = time_ns / (time_ns + effect * _BASE_NS)
    return PlantedTrial(truth, group.deciding, explanation(group).causes)


def _compared(base: Mapping[int, StoredRun], planted: Mapping[int, StoredRun]) -> Group:
    """By complete pairs: where a busy host stops a client for a second, its run fails."""
    blocks = base.keys() & planted.keys()
    if len(blocks) < LEAST_PAIRS:
        raise NotMetError(f"only {len(blocks)} of {REPEATS} pairs are complete")
    a, b = ([side[block] for block in sorted(blocks)] for side in (base, planted))
    (group,) = compare(a, b, ["placement"]).groups
    return group


def _expect_delays(runs: Sequence[StoredRun]) -> None:
    """NotMetError if the operations were not delayed once each.

    Of all runs: a busy host begins to count late in some of them.
    """
    done = sum(map(_operations, runs))
    delayed = sum(
        cell["delayed"]
        for run in runs
        for cell in run.artifact("io-operations") or ()
        if (cell["part"], cell["operation"]) == (_PART, _OPERATION)
    )
    if round(delayed / done) != 1:
        raise NotMetError(f"{delayed:,} delays in {done:,.0f} updates: not one each")


def _operations(run: StoredRun) -> float:
    return _value(run, "operations_per_second") * _value(run, "window_duration_ns") / 1e9


def _time_per_operation_ns(run: StoredRun) -> float:
    return _value(run, "window_duration_ns") / _operations(run)


def _value(run: StoredRun, name: str) -> float:
    for metric in run.result.metrics:
        if metric.name == name and metric.value:
            return float(metric.value)
    raise NotMetError(f"{run.run_id} has no {name}")
