"""Repeats until a difference is resolved, and rates as shares of a closed loop."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_run import Runnable
from msgspec.structs import asdict
from narrowed import present
from report_runs import Case, metric, write

from harness.cli.run import run as run_command
from harness.cli.run_plan import RunOptions, plan_of
from harness.errors import RunFailed, UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Budget
from harness.experiment.profile import Plan, expand
from harness.experiment.selection import SHARES, PeakRates, peak_rates
from harness.experiment.sequential import (
    LOOKS,
    Goal,
    Sequential,
    numbers_of_blocks,
    results,
    sequence_of,
)
from harness.experiment.study import Batch, continued, drive
from harness.store.result import ClosedLoop
from harness.store.runs import StoredRun
from harness.workloads.tpcc.params import TpccParams
from harness.yamlfile import YamlDocument
from reports.compare import Group, compare
from reports.series import panels
from reports.statistics import Ratio, ratio_of


def plan(engines: Sequence[str] = ("duckdb",), **changes: Any) -> Plan:
    profile: dict[str, Any] = {
        "schema": 1, "name": "made-up", "description": "made up", "workload": "tpch",
        "axes": {"engine": list(engines), "placement": ["ssd-both", "pmem-both"]},
        "fixed": {"params": {"scale": 1}},
    }  # fmt: skip
    return expand(YamlDocument("made up", profile | changes, {}))


@dataclass
class Host:
    """Writes made-up runs: ``gain`` of pmem by engine, and its noise; ``fails``: a placement."""

    root: Path
    plan: Plan
    gains: dict[str, float]
    noise: dict[str, float]
    fails: str = ""

    def run(self, steps: Sequence[ResolvedRun]) -> list[StoredRun]:
        return [self._made(step) for step in steps]

    def _made(self, step: ResolvedRun) -> StoredRun:
        spec = step.spec
        placement = present(spec.placement).name
        seed = [spec.block, len(spec.engine), len(placement)]
        noise = np.random.default_rng(seed).normal(0, self.noise[spec.engine])
        value = 1e9 * math.exp(noise)
        if placement == "pmem-both":
            value /= self.gains[spec.engine]
        case = Case(
            engine=spec.engine,
            block=spec.block,
            status="failed" if placement == self.fails else "complete",
            metrics=[metric("queries_geomean_ns", value, "lower")],
            spec_changes=asdict(spec),
            run_changes={"experiment": self.plan.experiment.to_json()},
        )
        return write(self.root, case)


def steps_of(plan: Plan) -> list[ResolvedRun]:
    """All of them could be run here."""
    return [Runnable(spec) for spec in plan.runs]


def ran(
    root: Path,
    goal: Goal,
    gains: dict[str, float],
    noise: float | dict[str, float] = 0.01,
    clock: Callable[[], int] = lambda: 0,
    fails: str = "",
    **changes: Any,
) -> tuple[Sequential, list[StoredRun], str]:
    budget = Budget(goal.budget_ns, clock)
    whole, rule = sequence_of(plan(list(gains), **changes), goal, "Default", budget)
    of = noise if isinstance(noise, dict) else dict.fromkeys(gains, noise)
    host = Host(root, whole, gains, of, fails)
    nothing: Any = lambda _: None  # noqa: E731
    made: list[StoredRun] = []

    def make(batch: Batch) -> list[StoredRun]:
        runs = host.run(batch.steps)
        made.extend(runs)
        return runs

    ended = drive(rule.batches(whole, steps_of(whole), nothing, nothing), make)
    return rule, made, ended


def sides(made: Sequence[StoredRun]) -> tuple[list[StoredRun], list[StoredRun]]:
    """The runs on ssd-both, and those on pmem-both."""
    arms: dict[str, list[StoredRun]] = {"ssd-both": [], "pmem-both": []}
    for run in made:
        if (placement := present(run.spec.placement).name) in arms:
            arms[placement].append(run)
    return arms["ssd-both"], arms["pmem-both"]


def estimate_of(group: Group) -> Ratio:
    return present(present(group.deciding).estimate)


def repeats(made: Sequence[StoredRun], engine: str) -> int:
    """Blocks of an engine; each of them is whole."""
    of_engine = [run for run in made if run.spec.engine == engine]
    for block in {run.spec.block for run in of_engine}:
        assert sum(run.spec.block == block for run in of_engine) == 2
    return len(of_engine) // 2


def test_a_clear_difference_ends_at_the_first_look(tmp_path: Path) -> None:
    sequence, made, ended = ran(tmp_path, Goal(resolve=0.05), {"duckdb": 1.3})
    assert (ended, repeats(made, "duckdb")) == ("all resolved", sequence.counts[0])
    (result,) = results(sequence, made)
    assert (result.verdict, result.resolved) == ("faster", True)
    # Every report on these runs is corrected for the looks.
    a, b = sides(made)
    (group,) = compare(a, b).groups
    estimate = estimate_of(group)
    assert (estimate.low, estimate.interim_analyses) == (result.low, LOOKS)


def test_equal_arms_end_when_the_difference_is_excluded(tmp_path: Path) -> None:
    sequence, made, ended = ran(tmp_path, Goal(resolve=0.1), {"duckdb": 1.0}, 0.02)
    (result,) = results(sequence, made)
    assert ended == "all resolved" and result.verdict == "no difference"
    assert 1 / 1.1 <= present(result.low) <= present(result.high) <= 1.1


def test_the_widest_interval_gets_the_repeats(tmp_path: Path) -> None:
    gains, noise = {"duckdb": 1.3, "postgres": 1.0}, {"duckdb": 0.01, "postgres": 0.3}
    sequence, made, ended = ran(tmp_path, Goal(resolve=0.02), gains, noise)
    assert repeats(made, "duckdb") == sequence.counts[0]
    assert repeats(made, "postgres") == sequence.counts[-1]
    assert ended == "largest number of repeats"
    assert [result.resolved for result in results(sequence, made)] == [True, False]


def test_a_budget_ends_after_a_whole_block(tmp_path: Path) -> None:
    ticks = count(step=10)
    goal = Goal(budget_ns=45, resolve=0.5)
    sequence, made, ended = ran(tmp_path, goal, {"duckdb": 1.3}, clock=lambda: next(ticks))
    assert ended == "the budget is spent"
    assert repeats(made, "duckdb") == 4
    (result,) = results(sequence, made)
    assert not result.resolved, "four pairs exclude nothing at this level"


def test_one_comparison_within_a_budget_is_not_looked_at() -> None:
    whole, rule = sequence_of(plan(), Goal(budget_ns=1), "Default")
    assert whole.looks == 1 and len(rule.counts) == 1
    assert whole.experiment.looks == 1


def ran_placements(root: Path, placements: Sequence[str], fails: str = "") -> Any:
    axes = {"engine": ["duckdb"], "placement": placements}
    return ran(root, Goal(resolve=0.05), {"duckdb": 1.3}, fails=fails, axes=axes)


def test_the_baseline_is_the_reports_whatever_the_profile_has_first(tmp_path: Path) -> None:
    sequence, made, _ = ran_placements(tmp_path, ["pmem-both", "ssd-both"])
    (panel,) = panels(made, "placement", None)
    (result,) = results(sequence, made)
    assert result.a == panel.groups[0].a.name == "ssd-both"
    assert present(panel.groups[0].deciding).ratio == result.speed_up > 1


def test_a_comparison_without_a_result_is_not_resolved(tmp_path: Path) -> None:
    placements = ["ssd-both", "pmem-both", "ssd-data-pmem-wal"]
    sequence, made, ended = ran_placements(tmp_path, placements, fails="ssd-data-pmem-wal")
    assert ended == "a comparison has no result"
    assert [result.b for result in results(sequence, made)] == ["pmem-both"]


def test_an_earlier_run_that_was_not_corrected_for_looks_is_run_again(tmp_path: Path) -> None:
    whole, rule = sequence_of(plan(), Goal(resolve=0.05), "Default")
    first, second = steps_of(whole)[:2]
    done = [
        Host(tmp_path, of, {"duckdb": 1.0}, {"duckdb": 0.01}).run([step])[0]
        for of, step in ((whole, first), (replace(whole, looks=1), second))
    ]
    steps = [replace(first, done=done[0]), replace(second, done=done[1])]
    _, counted = rule.counted(whole, steps)
    assert [step.done for step in counted] == [done[0], None]


def test_repeats_raised_after_looking_are_a_look_more(tmp_path, capsys):
    """Six repeats, then eight, then nine; a command that was cut, and one with another arm, are
    none."""

    def run(of: Plan, done: Sequence[StoredRun], most: int | None = None) -> list[StoredRun]:
        complete = {finished.spec.hash(): finished for finished in done}
        steps = [Runnable(s, complete.get(s.hash())) for s in of.runs]
        host = Host(tmp_path, continued(of, steps), {"duckdb": 1.3}, {"duckdb": 0.01})
        todo = [step for step in steps if step.done is None][:most]
        return [*(step.done for step in steps if step.done), *host.run(todo)]

    def looks(runs: Sequence[StoredRun]) -> int:
        (group,) = compare(*sides(runs)).groups
        return estimate_of(group).interim_analyses

    six = run(plan(repeats=6), run(plan(repeats=6), [], 5))
    assert (len(six), looks(six)) == (12, 1)
    arms = ["ssd-both", "pmem-both", "ssd-data-pmem-wal"]
    assert looks(run(plan(axes={"engine": ["duckdb"], "placement": arms}, repeats=6), six)) == 1
    assert "repeats-continued" not in capsys.readouterr().err
    eight = run(plan(repeats=8), run(plan(repeats=8), six, 1))
    assert (len(eight), looks(eight)) == (16, 2)
    assert looks(run(plan(repeats=9), eight)) == 3
    assert capsys.readouterr().err.count("repeats-continued") >= 2


def test_blocks_that_were_executed_again_are_a_look_more(tmp_path: Path) -> None:
    """Three repeats, then six from scratch (harness run): nine of each side, seen once."""

    def compared(*repeats: int) -> Any:
        made = []
        for number in repeats:
            of = plan(repeats=number)
            made += Host(tmp_path, of, {"duckdb": 1.3}, {"duckdb": 0.01}).run(steps_of(of))
        return compare(*sides(made)).groups[0]

    once, twice = compared(6), compared(3, 6)
    codes = [[warning.code for warning in group.warnings] for group in (once, twice)]
    assert ["repeats-continued" in group_codes for group_codes in codes] == [False, True]
    assert [group.deciding.estimate.interim_analyses for group in (once, twice)] == [1, 2]


def test_looks_are_taken_after_numbers_fixed_beforehand() -> None:
    assert numbers_of_blocks(8, 24, 4) == (8, 12, 17, 24)
    assert numbers_of_blocks(8, 8, 4) == (8,)
    assert numbers_of_blocks(8, 24, 1) == (24,)


@pytest.mark.parametrize("noise", ["normal", "log-normal", "outliers"])
def test_stopping_at_the_best_look_keeps_the_error_rate(noise: str) -> None:
    """At most 5 %; without the correction more identical arms would differ."""
    counts, trials = numbers_of_blocks(8, 24, LOOKS), 400
    draw = np.random.default_rng(11)
    corrected = uncorrected = 0
    for _ in range(trials):
        a, b = draw.normal(0, 1, (2, counts[-1]))
        if noise == "log-normal":
            a, b = np.exp(a), np.exp(b)
        if noise == "outliers":
            a = np.where(draw.random(counts[-1]) < 0.1, 20 * a, a)
        p_values = [ratio_of(np.exp(a[:n] / 9), np.exp(b[:n] / 9)).p for n in counts]
        uncorrected += min(p_values) <= 0.05
        corrected += min(p_values) * LOOKS <= 0.05
    assert corrected / trials <= 0.05 < uncorrected / trials


# Rates that are shares of a closed loop -------------------------------------------


OPTIONS = RunOptions(engine=["postgres"], placement=["ssd-both", "pmem-both"], name="made-up")


def plan_at(rates: Sequence[float] = ()) -> Plan:
    return plan_of(TpccParams, OPTIONS, {"rate": rates} if rates else None)


def probes(
    root: Path, per_minute: Mapping[str, float], status: str = "complete"
) -> list[StoredRun]:
    made = []
    for spec in plan_at().runs:
        changes: dict[str, Any] = asdict(spec)
        rate = per_minute[present(spec.placement).name]
        values = [metric("transactions_per_minute", rate, "higher")]
        made.append(write(root, Case(status=status, metrics=values, spec_changes=changes)))
    return made


@pytest.fixture
def peaks(tmp_path: Path) -> PeakRates:
    return peak_rates(probes(tmp_path, {"ssd-both": 60_000, "pmem-both": 120_000}))


def test_the_slowest_arm_decides_one_rate_for_all(peaks: PeakRates) -> None:
    assert peaks.rates([0.7]) == [700]
    rated = peaks.within(plan_at([700]), "rate", [0.7])
    assert [spec.params["rate"] for spec in rated.runs] == [700, 700]
    recorded = rated.experiment.capacity
    assert recorded == ClosedLoop(1000, peaks.run_ids)


def test_a_curve_goes_on_for_the_faster_arm(peaks: PeakRates) -> None:
    rates = peaks.rates(SHARES)
    assert rates == [200, 400, 600, 800, 900, 950, 1200, 1600, 1800, 1900]
    rated = peaks.within(plan_at(rates), "rate", SHARES)
    of_arms: dict[str, list[Any]] = {}
    for spec in rated.runs:
        of_arms.setdefault(present(spec.placement).name, []).append(spec.params["rate"])
    assert sorted(of_arms["ssd-both"]) == rates[:6]
    assert sorted(of_arms["pmem-both"]) == rates


def test_an_arm_without_a_result_decides_no_rate(tmp_path: Path) -> None:
    failed = probes(tmp_path, {"ssd-both": 60_000, "pmem-both": 1}, "failed")
    with pytest.raises(RunFailed):
        peak_rates(failed)


@pytest.mark.parametrize(("rate", "curve"), [("0%", 0), ("101%", 0), ("x%", 0), ("70%", 1)])
def test_a_share_that_is_none_or_of_a_curve_is_refused_before_any_run(rate, curve):
    pairs = {"rate": rate}
    with pytest.raises(UsageError):
        run_command(
            TpccParams, RunOptions(engine=["postgres"], pairs=pairs, load_curve=bool(curve))
        )
