"""What pairs of identical runs say of the noise, and what repeats resolve."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from narrowed import present
from report_runs import Case, metric, write
from typer.testing import CliRunner

from harness.cli import calibrate as command
from harness.cli import run_list
from harness.cli.app import app
from harness.execution.run import ResolvedRun
from harness.experiment.placement import parse_placement
from harness.experiment.profile import Plan, find_profile, load_profile
from harness.experiment.selection import pairs_of, twice
from harness.progress import SilentProgress
from harness.store.calibrations import Calibration, CalibrationStore, latest_of
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from reports.noise import arms_differ, calibration_of, expected, to_json
from reports.series import planned_repeats
from reports.statistics import (
    noise_of,
    ratio_of,
    repeats_to_resolve,
    smallest_difference,
)

NOISE = 0.03


def log_ratios(seed: int, pairs: int) -> list[float]:
    return [float(one) for one in np.random.default_rng(seed).normal(0, NOISE, pairs)]


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
    found = smallest_difference(log_ratios(1, 2000), repeats)
    assert found is not None
    assert 0.75 <= power(found, repeats) <= 0.85
    assert power(found / 2, repeats) < 0.5


def test_too_few_repeats_show_nothing_and_more_show_less() -> None:
    noise = log_ratios(3, 10)
    found = [smallest_difference(noise, n) for n in (3, 5, 6, 10, 20)]
    assert found[:2] == [None, None]
    known = [one for one in found if one is not None]
    assert len(known) == 3 and known == sorted(known, reverse=True)
    # Of a family of four, six repeats reach no level.
    assert smallest_difference(noise, 6, 0.05 / 4) is None


def test_the_repeats_for_a_difference_are_the_fewest_that_resolve_it() -> None:
    noise = log_ratios(3, 10)
    needed = present(repeats_to_resolve(noise, 0.03))
    at, below = (smallest_difference(noise, n) for n in (needed, needed - 1))
    assert at is not None and below is not None and at <= 0.03 < below
    assert repeats_to_resolve(noise, 0.5) == 6
    assert repeats_to_resolve(noise, 0.001) is None


def test_without_noise_every_difference_is_resolved() -> None:
    assert noise_of([0.0, 0.0]) == 0
    assert smallest_difference([0.0, 0.0], 6) == 0


UNCONTROLLED = [
    {"code": "turbo", "what": "the clock follows the load", "found": "on", "do": "turn it off"},
    {"code": "other-load", "what": "other users", "found": "load 1.9", "do": "wait"},
]


def runs(root: Path, values: Sequence[float], failed: Sequence[int] = ()) -> list[StoredRun]:
    """Runs in the order of a plan that has each one twice."""
    calls = metric("io_calls_count", 5)
    return [
        write(root, Case(
            block=number // 2, status="failed" if number in failed else "complete",
            metrics=[metric("queries_geomean_ns", value, "lower"), calls],
            run_changes={"uncontrolled": UNCONTROLLED},
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


@pytest.mark.parametrize(("blocks", "kept"), [(6, 6), (3, None)])
def test_an_interrupted_calibration_has_its_whole_blocks(tmp_path, monkeypatch, blocks, kept):
    def run_plan(plan: Plan, steps: Sequence[ResolvedRun], *more: Any, **_: Any) -> None:
        after_block = more[-1]
        results = [metric("queries_geomean_ns", value, "lower") for value in (100, 104)]
        changes: dict[str, Any] = {"run_changes": {"uncontrolled": UNCONTROLLED}}
        for step in steps[: 2 * blocks : 2]:
            changes["spec_changes"] = {o.name: getattr(step.spec, o.name) for o in fields(RunSpec)}
            after_block(2, [write(tmp_path, Case(metrics=[one], **changes)) for one in results])
        raise KeyboardInterrupt

    nowhere = SimpleNamespace(progress=SilentProgress(), argv=["harness", "calibrate"])
    monkeypatch.setattr(command, "command_environment", lambda *_: nullcontext(nowhere))
    resolved = lambda plan, *_, **__: [ResolvedRun(one) for one in plan.runs]  # noqa: E731
    monkeypatch.setattr(run_list, "plan_steps", resolved)
    monkeypatch.setattr(run_list, "run_plan", run_plan)
    argv = ["tpch", "--engine", "duckdb", "--placement", "ssd-both", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, ["calibrate", *argv, "--repeats", "8", "--json"])
    assert done.exit_code == 130
    found = CalibrationStore(tmp_path).all()
    assert [len(one.run_ids) for one in found] == ([kept] if kept else [])
    assert bool(done.stdout) == bool(kept)


def calibrated(root: Path, values: Sequence[float]) -> Calibration:
    (pairs,) = pairs_of(runs(root, values))
    return calibration_of(pairs)


def test_a_calibration_keeps_the_noise_of_results_and_what_was_not_controlled(tmp_path):
    found = calibrated(tmp_path, [100, 110, 100, 110])
    assert [one.name for one in found.metrics] == ["queries_geomean_ns"]
    assert found.deciding == found.metrics[0]
    assert found.metrics[0].log_ratios == pytest.approx([-np.log(1.1), np.log(1.1)])
    assert len(found.warnings) == 2 and found.run_duration_ns == 90 * 10**9
    document = to_json(found, resolve=0.2)
    assert document["metrics"][0]["noise"] == pytest.approx(0.1)
    assert document["resolve"]["duration_ns"] == 2 * document["resolve"]["repeats"] * 90 * 10**9
    assert document["arms_differ"] is None  # two pairs cannot show any difference


def test_identical_runs_that_differ_are_reported(tmp_path: Path) -> None:
    """B is slower in every pair, whichever ran first."""
    found = calibrated(tmp_path, [100, 110, 111, 100] * 3)
    assert found.deciding is not None and arms_differ(found.deciding)


def test_the_latest_with_the_same_parameters_counts(tmp_path: Path) -> None:
    first = calibrated(tmp_path, [100, 104, 103, 101])
    ten = replace(first.spec, params={"scale": 10})
    other = replace(first, spec=ten, unix_ns=first.unix_ns + 1)
    elsewhere = replace(first, host_id="another", unix_ns=first.unix_ns + 2)
    known = [first, other, elsewhere]
    assert latest_of(known, first.host_id, first.spec) is first
    larger = replace(first.spec, params={"scale": 3}, threads=2)
    assert latest_of(known, first.host_id, larger) is other
    assert latest_of(known, first.host_id, replace(larger, engine="duckdb")) is None
    found = expected(other, larger, 8)
    assert found is not None and set(found.other_conditions) == {"scale", "threads"}
    assert found.pairs == len(first.run_ids)
    assert found.difference == smallest_difference(first.metrics[0].log_ratios, 8)


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
    found = planned_repeats(specs, "Default")
    assert (found.over, found.repeats) == ("placement", repeats)
    assert (found.comparisons, found.needed) == (comparisons, needed)
    assert bool(found.text) == bool(comparisons)
    planted = planned_repeats(
        [replace(spec, plant=("wal.sync=+200us",)) for spec in specs], "Default"
    )
    assert (planted.comparisons, planted.needed, planted.text) == (0, None, "")
