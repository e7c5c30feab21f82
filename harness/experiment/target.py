"""The most load within a latency target: each window is a run, whose load earlier ones decide.

All runs begin with the same loaded data, restored. A rate is searched from half of what a closed
loop does, which is the first window; a number of users from the given one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from harness.errors import UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.profile import Plan
from harness.experiment.selection import peak_rates
from harness.experiment.study import Batch, Batches, Cost, StopRule
from harness.load_search import MOST_WINDOWS, LoadWindow, Search
from harness.store.result import LatencyTarget, Statistic
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.units import parse_duration_ns

#: The statistics of a target, by the words of the option.
_STATISTICS: Mapping[str, Statistic] = {
    "p50": "50",
    "p95": "95",
    "p99": "99",
    "p999": "99.9",
    "mean": "mean",
}
#: A rate is searched from this share of what a closed loop does, and not below the second share.
_START, _LEAST = 0.5, 1 / 64


def parse_target(text: str, parameter: str) -> LatencyTarget:
    """Parse ``p99=10ms``; UsageError for any other form, and for a target of zero."""
    name, _, limit = text.partition("=")
    problem = f"--target {text}"
    hint = f"write {', '.join(_STATISTICS)}, and a duration: --target p99=10ms"
    if name not in _STATISTICS:
        raise UsageError(problem, f"{name!r} is no latency that can be a target", hint)
    try:
        limit_ns = parse_duration_ns(limit)
    except UsageError as error:
        raise UsageError(problem, error.context, hint) from error
    if limit_ns < 1:
        raise UsageError(problem, "every latency is longer", hint)
    return LatencyTarget(_STATISTICS[name], limit_ns, parameter)


@dataclass
class _ArmSearch:
    """The search on an arm. ``position``: of its run among those of the plan."""

    position: int
    start: float | None = None
    windows: list[LoadWindow] = field(default_factory=list)
    runs: int = 0
    ended: bool = False


@dataclass(frozen=True, kw_only=True)
class TargetSearch(StopRule):
    """Windows of all arms in turn, until each has an answer or its most windows.

    ``at``: the plan at a load, its arms in the same order. ``resolve``: a run of it, checked.
    ``users``: the first number of users and the largest; None: the rate is searched.
    """

    target: LatencyTarget
    at: Callable[[float], Plan]
    resolve: Callable[[RunSpec], ResolvedRun]
    users: tuple[int, int] | None = None

    def counted(self, plan: Plan, steps: Sequence[ResolvedRun]) -> tuple[Plan, list[ResolvedRun]]:
        """Return both unchanged: an interval is that of a window, and no repeats are added."""
        return plan, list(steps)

    def batches(
        self,
        plan: Plan,
        steps: Sequence[ResolvedRun],
        cost_ns: Cost,
        say: Callable[[str], None],
    ) -> Batches:
        """Yield the first windows, then a window of each arm that has no answer yet."""
        arms = [_ArmSearch(position) for position in range(len(steps))]
        yield from self._measure(plan, dict(zip(range(len(arms)), steps, strict=True)), arms)
        while True:
            loads = {
                arm.position: load
                for arm in arms
                if not arm.ended and (load := self._next(arm)) is not None
            }
            if not loads:
                return ""
            chosen = {at: self.resolve(self._spec(arms[at], load)) for at, load in loads.items()}
            new = [
                f"{step.spec.where} at {self.target.parameter} {loads[at]:,g}"
                for at, step in chosen.items()
                if step.done is None
            ]
            if new:
                say(f"next: {', '.join(new)}")
            yield from self._measure(plan, chosen, arms)

    def _next(self, arm: _ArmSearch) -> float | None:
        if arm.runs >= MOST_WINDOWS or arm.start is None:
            return None
        limit_ns = float(self.target.limit_ns)
        if self.users is not None:
            search = Search(arm.windows, limit_ns, arm.start, 1, self.users[1], whole=True)
        else:
            search = Search(arm.windows, limit_ns, arm.start, arm.start / _START * _LEAST)
        return search.next_load()

    def _spec(self, arm: _ArmSearch, load: float) -> RunSpec:
        """Return the arm's run at a load; a repeated window is another block."""
        spec = self.at(load).runs[arm.position]
        block = sum(window.load == load for window in arm.windows)
        return msgspec.structs.replace(spec, block=block)

    def _measure(
        self, plan: Plan, chosen: Mapping[int, ResolvedRun], arms: Sequence[_ArmSearch]
    ) -> Generator[Batch, Sequence[StoredRun], None]:
        """Measure a window on each of these arms, and note the results."""
        runs = yield Batch(plan, list(chosen.values()))
        last = {run.head.spec_hash: run for run in runs}
        for at, step in chosen.items():
            self._note(arms[at], last.get(step.spec.hash()))

    def _note(self, arm: _ArmSearch, run: StoredRun | None) -> None:
        from reports.load_target import window_of

        arm.runs += 1
        if run is None or run.result.status == "failed":
            arm.ended = True
        elif arm.start is None and self.users is None:
            arm.start = float(f"{_START * peak_rates([run]).lowest_per_s:.3g}")
        elif (window := window_of(run, self.target)) is None:
            arm.ended = True
        else:
            arm.windows.append(window)
            arm.start = arm.start or window.load
