"""Noise by identical runs, the resolution of repeats, and warnings of a canary."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict, replace
from narrowed import present
from report_runs import Case, interleaved, metric, write
from typer.testing import CliRunner

from harness.cli import study
from harness.cli.app import app
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.experiment.profile import find_profile, load_profile
from harness.experiment.selection import pairs_of, twice
from harness.experiment.study import Made, StopRule
from harness.micro import canary as canaries
from harness.micro.canary import canary
from harness.store.calibrations import (
    Calibration,
    CalibrationStore,
    Canary,
    CanaryBandwidth,
    CanaryStore,
    latest_of,
)
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from reports.basis import moved_figures
from reports.compare import compare
from reports.noise import arms_differ, calibration_of, expected, to_json
from reports.planned_repeats import planned_repeats
from reports.resolution import noise_bounds, noise_of, repeats_to_resolve, smallest_difference
from reports.statistics import ratio_of

NOISE = 0.03


def log_ratios(seed: int, pairs: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).normal(0, NOISE, pairs)]


def power(difference: float, repeats: int, trials: int = 400) -> float:
    """How often a difference is shown in noise of that size."""
    draw = np.random.default_rng(7)
    shown = 0
    for _ in range(trials):
        a = np.exp(draw.normal(0, NOISE, repeats)) * (1 + difference)
        shown += ratio_of(a, np.ones(repeats)).p <= 0.05
    return shown / trials


@pytest.mark.parametrize("repeats", [6, 7, 12])
def test_the_smallest_difference_is_shown_in_four_of_five_experiments(repeats: int) -> None:
    difference = present(smallest_difference(log_ratios(1, 2000), repeats))
    assert 0.75 <= power(difference, repeats) <= 0.85
    assert power(difference / 2, repeats) < 0.5


def test_too_few_repeats_show_nothing_and_more_show_less() -> None:
    noise = log_ratios(3, 10)
    differences = [smallest_difference(noise, n) for n in (3, 5, 6, 10, 20)]
    assert differences[:2] == [None, None]
    shown = [difference for difference in differences if difference is not None]
    assert len(shown) == 3 and shown == sorted(shown, reverse=True)
    # Of a family of four, six repeats reach no level.
    assert smallest_difference(noise, 6, 0.05 / 4) is None


def test_the_repeats_for_a_difference_are_the_fewest_that_resolve_it() -> None:
    noise = log_ratios(3, 10)
    needed = present(repeats_to_resolve(noise, 0.03))
    at, below = (present(smallest_difference(noise, n)) for n in (needed, needed - 1))
    assert at <= 0.03 < below
    assert repeats_to_resolve(noise, 0.5) == 6
    assert repeats_to_resolve(noise, 0.001) is None


def test_without_noise_every_difference_is_resolved() -> None:
    assert noise_of([0.0, 0.0]) == 0
    assert smallest_difference([0.0, 0.0], 6) == 0


def runs(root: Path, values: Sequence[float], failed: Sequence[int] = ()) -> list[StoredRun]:
    """Runs in the order of a plan that has each one twice."""
    calls = metric("io_calls_count", 5)
    return [
        write(root, Case(
            block=number // 2, status="failed" if number in failed else "complete",
            metrics=[metric("queries_geomean_ns", value, "lower"), calls],
        ))
        for number, value in enumerate(values)
    ]  # fmt: skip


def test_each_block_of_a_calibration_has_every_run_twice_in_a_row() -> None:
    plan = load_profile(find_profile("demo"), repeats=2)
    doubled = twice(plan)
    assert doubled.runs[::2] == doubled.runs[1::2] == plan.runs
    assert doubled.hash != plan.hash


def test_in_every_second_block_the_first_run_is_b(tmp_path: Path) -> None:
    """A pair with a failed run is left out."""
    made = runs(tmp_path, [1, 2, 3, 4, 5, 6])
    (pairs,) = pairs_of(made)
    assert pairs == [(made[0], made[1]), (made[3], made[2]), (made[4], made[5])]
    made = runs(tmp_path, [1, 2, 3, 4], failed=[1])
    assert list(pairs_of(made)) == [[(made[3], made[2])]]


@pytest.mark.parametrize(("blocks", "pairs"), [(6, 6), (3, None)])
def test_an_interrupted_calibration_has_its_whole_blocks(tmp_path, monkeypatch, blocks, pairs):
    def make_runs(made: Made, rule: StopRule, steps: Sequence[ResolvedRun], *_: Any, **__: Any):
        results = [metric("queries_geomean_ns", value, "lower") for value in (100, 104)]
        for step in steps[: 2 * blocks : 2]:
            spec = asdict(step.spec)
            cases = [Case(metrics=[result], spec_changes=spec) for result in results]
            made.batches.append([write(tmp_path, case) for case in cases])
        raise KeyboardInterrupt

    nowhere = SimpleNamespace()
    monkeypatch.setattr(study, "command_environment", lambda *_: nullcontext(nowhere))
    resolved = lambda plan, *_, **__: [ResolvedRun(spec) for spec in plan.runs]  # noqa: E731
    monkeypatch.setattr(study, "plan_steps", resolved)
    monkeypatch.setattr(study, "make_runs", make_runs)
    argv = ["tpch", "--engine", "duckdb", "--placement", "ssd-both", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, ["calibrate", *argv, "--repeats", "8", "--json"])
    assert done.exit_code == 130
    calibrations = CalibrationStore(tmp_path).all()
    assert [len(calibration.run_ids) for calibration in calibrations] == ([pairs] if pairs else [])
    assert bool(done.stdout) == bool(pairs)


def calibrated(root: Path, values: Sequence[float]) -> Calibration:
    (pairs,) = pairs_of(runs(root, values))
    return calibration_of(pairs)


def test_a_calibration_keeps_the_noise_of_results_and_what_was_not_controlled(tmp_path):
    calibration = calibrated(tmp_path, [100, 110, 100, 110])
    assert [noise.name for noise in calibration.metrics] == ["queries_geomean_ns"]
    assert calibration.deciding == calibration.metrics[0]
    assert calibration.metrics[0].log_ratios == pytest.approx([-np.log(1.1), np.log(1.1)])
    assert len(calibration.warnings) == 2 and calibration.run_duration_ns == 90 * 10**9
    document = to_json(calibration, resolve=0.2)
    assert document["metrics"][0]["noise"] == pytest.approx(0.1)
    assert document["resolve"]["duration_ns"] == 2 * document["resolve"]["repeats"] * 90 * 10**9
    assert document["arms_differ"] is None  # two pairs cannot show any difference


def test_identical_runs_that_differ_are_reported(tmp_path: Path) -> None:
    """B is slower in every pair, whichever ran first."""
    calibration = calibrated(tmp_path, [100, 110, 111, 100] * 3)
    assert arms_differ(present(calibration.deciding))


def test_the_latest_with_the_same_parameters_counts(tmp_path: Path) -> None:
    first = calibrated(tmp_path, [100, 104, 103, 101])
    ten = replace(first.spec, params={"scale": 10})
    other = replace(first, spec=ten, unix_ns=first.unix_ns + 1)
    elsewhere = replace(first, host_id="another", unix_ns=first.unix_ns + 2)
    calibrations = [first, other, elsewhere]
    assert latest_of(calibrations, first.host_id, first.spec) is first
    larger = replace(first.spec, params={"scale": 3}, threads=2)
    assert latest_of(calibrations, first.host_id, larger) is other
    assert latest_of(calibrations, first.host_id, replace(larger, engine="duckdb")) is None
    expectation = present(expected(other, larger, 8))
    assert set(expectation.other_conditions) == {"scale", "threads"}
    assert expectation.pairs == len(first.run_ids)
    difference, log_ratios = present(expectation.difference), first.metrics[0].log_ratios
    assert difference.value == smallest_difference(log_ratios, 8)
    assert present(difference.low) < difference.value < present(difference.high)


@pytest.mark.parametrize(("outliers", "least"), [(0.0, 0.93), (0.05, 0.7)])
def test_the_interval_of_the_noise_has_the_noise(outliers: float, least: float) -> None:
    """Ten pairs each; if one value in twenty varies five times as much, it does so less often."""
    draw = np.random.default_rng(1)
    true = math.sqrt(1 - outliers + outliers * 25)
    covered = 0
    for _ in range(500):
        values = draw.normal(size=10) * np.where(draw.random(10) < outliers, 5, 1)
        low, high = (times * math.sqrt(np.mean(values**2)) for times in noise_bounds(values))
        covered += low < true < high
    assert covered / 500 >= least


# What an experiment can show, before it is run ---------------------------------


@pytest.mark.parametrize(
    ("engines", "placements", "repeats", "mode", "comparisons", "needed"),
    [
        ("postgres", "ssd-both pmem-both", 1, None, 1, 6),
        # Every engine and placement more is a comparison more.
        ("postgres duckdb", "ssd-both pmem-both ssd-data-pmem-wal", 7, None, 4, 8),
        ("postgres duckdb", "ssd-both", 1, None, 0, None),
        # A required mode is no dimension of its own.
        ("postgres", "ssd-both pmem-both", 1, "Default|AppDirect", 1, 6),
    ],
)
def test_comparisons_and_their_repeats(engines, placements, repeats, mode, comparisons, needed):
    specs = [
        RunSpec("tpch", engine, parse_placement(place), {"scale": 1}, block=block,
                required_host_mode=mode, emulate=("pmem",))
        for block in range(repeats)
        for engine in engines.split()
        for place in placements.split()
    ]  # fmt: skip
    result = planned_repeats(specs, "Default")
    assert (result.over, result.repeats) == ("placement", repeats)
    assert (result.comparisons, result.needed) == (comparisons, needed)
    assert bool(result.text) == bool(comparisons)
    of_planted = [replace(spec, plant=("wal.sync=+200us",)) for spec in specs]
    planted = planned_repeats(of_planted, "Default")
    assert (planted.comparisons, planted.needed, planted.text) == (0, None, "")


# The canary -----------------------------------------------------------------------


MINUTE_NS = 60 * 10**9
BEFORE = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0)
METRICS = [metric("queries_geomean_ns", 1e9, "lower")]
#: What follows an experiment, as a share of what preceded it.
SHARES = {"read": 0.5, "write": 0.97}


def made_up(shares: dict[str, float], began: int = 0, ended: int = 2**62) -> Canary:
    figures = [
        CanaryBandwidth("dram", name, BEFORE, tuple(share * value for value in BEFORE))
        for name, share in shares.items()
    ]
    return Canary("plan", "host", began, ended, tuple(figures))


def test_a_figure_has_moved_by_more_than_its_noise() -> None:
    moved = moved_figures(made_up(SHARES), [])
    assert [(change.figure.configuration, round(change.ratio, 2)) for change in moved] == [
        ("read", 0.5)
    ]
    assert not moved[0].limit.measured


def test_the_noise_is_that_of_other_experiments() -> None:
    others = [made_up({"read": share}) for share in (0.6, 1.5, 0.7)]
    (moved,) = moved_figures(made_up(SHARES), others[:2])
    assert not moved.limit.measured
    assert not moved_figures(made_up(SHARES), others)
    quiet = [made_up({"read": share}) for share in (0.97, 1.03, 0.99)]
    (moved,) = moved_figures(made_up(SHARES), quiet)
    assert moved.limit.measured and 0.05 < moved.limit.share < 0.3


def noisy(draw: np.random.Generator, factor: float = 1.0) -> Canary:
    """Eight figures, whose changes differ by 4 % from one experiment to the next."""
    changes = factor * np.exp(draw.normal(0, 0.04, 8))
    samples = np.exp(draw.normal(0, 0.01, (8, 2, 7)))
    figures = (
        CanaryBandwidth("dram", str(i), tuple(samples[i, 0]), tuple(change * samples[i, 1]))
        for i, change in enumerate(changes)
    )
    return Canary("plan", "host", 0, 1, tuple(figures))


@pytest.mark.parametrize("others", [3, 8])
def test_noise_alone_is_a_warning_in_one_experiment_of_twenty(others: int) -> None:
    draw, experiments = np.random.default_rng(others), 100
    alarms = sum(
        bool(moved_figures(noisy(draw), [noisy(draw) for _ in range(others)]))
        for _ in range(experiments)
    )
    assert alarms / experiments <= 0.1, "5 %, of 100"


def test_earlier_changes_do_not_hide_a_later_one() -> None:
    draw = np.random.default_rng(2)
    others = [noisy(draw) for _ in range(12)] + [noisy(draw, 0.5) for _ in range(4)]
    assert moved_figures(noisy(draw, 0.5), others)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``run(duration_ns)``: the canary of an experiment, measured by made-up figures."""
    measured = [
        {("dram", "read"): BEFORE},
        {("dram", "read"): tuple(value / 2 for value in BEFORE)},
    ]
    monkeypatch.setattr(canaries, "_measured", lambda *_: measured.pop(0))
    monkeypatch.setattr(canaries, "_suites", lambda *_: [])
    monkeypatch.setattr(canaries, "_tiers", lambda *_: ["dram"])
    environment: Any = SimpleNamespace(host=SimpleNamespace(host_id="host"))

    def run(duration_ns: int, most_ns: int | None = None) -> Any:
        step: Any = SimpleNamespace(done=None, runnable=True, planned_ns=duration_ns)
        plan: Any = SimpleNamespace(hash="plan")
        return canary(plan, [step], environment, Store(tmp_path), most_ns)

    return run


@pytest.mark.parametrize(("minutes", "most", "count"), [(1, None, 0), (10, None, 1), (60, 1, 0)])
def test_short_experiments_have_none(experiment, tmp_path, minutes, most, count):
    with experiment(minutes * MINUTE_NS, most_ns=most and most * MINUTE_NS):
        pass
    assert len(CanaryStore(tmp_path).all()) == count


def codes(a: StoredRun, b: StoredRun) -> set[str]:
    """Return codes of what the comparison of two runs rests on, and warns of."""
    (group,) = compare([a], [b]).groups
    return {*(fact.code for fact in group.rests_on), *(warning.code for warning in group.warnings)}


@pytest.mark.parametrize(("share", "warned"), [(0.5, True), (1.0, False)])
def test_comparisons_of_that_execution_are_warned_of(tmp_path, share, warned):
    ((a,), (b,)) = interleaved(tmp_path, lambda *_: METRICS, 1)
    assert "no-canary" in codes(a, b)
    began = [run.document["started_unix_ns"] for run in (a, b)]
    figures = made_up({"read": share}).figures
    plan = a.document["experiment"]["hash"]
    between = Canary(plan, "host", min(began) + 1, min(began) + 2, figures)
    CanaryStore(tmp_path).write(between)
    assert "no-canary" in codes(a, b)
    CanaryStore(tmp_path).write(Canary(plan, "host", min(began), max(began), figures))
    assert ("machine-changed" in codes(a, b)) == warned
    assert "canary-not-calibrated" in codes(a, b)
    for earlier in range(3):
        CanaryStore(tmp_path).write(Canary("other", "host", earlier, earlier, figures[:1]))
    assert "canary" in codes(a, b)
