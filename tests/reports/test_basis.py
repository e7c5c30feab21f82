"""What a comparison rests on, and what a script decides by."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from narrowed import present
from report_runs import EMULATED, STARTED_UNIX_NS, Case, metric, printed, write
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import RunFailed
from harness.store.calibrations import CalibrationStore
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.compare_output import to_json
from reports.history import histories
from reports.noise import calibration_of


def arms(root: Path, slower: float, blocks: int = 6, **changes: Any) -> list[StoredRun]:
    """A and B, which takes longer by a factor, as one experiment leaves them."""
    return [
        write(
            root,
            Case(
                placement=placement,
                block=block,
                metrics=[metric("queries_geomean_ns", 1e9 * factor + block, "lower")],
                **changes,
            ),
        )
        for block in range(blocks)
        for placement, factor in (("ssd-both", 1.0), ("pmem-both", slower))
    ]


def test_a_comparison_says_what_it_rests_on(tmp_path: Path) -> None:
    found = compare(*split(arms(tmp_path, 1.5, emulated=EMULATED)))
    (group,) = found.groups
    facts = {fact.code: fact.values for fact in group.rests_on}
    assert facts["pairs"] == (6,)
    assert facts["emulated"] == ("pmem by tmpfs",)
    assert "(6 pairs, EMULATED)" in printed(found) and "EMULATED pmem by tmpfs" in printed(found)
    assert [one["code"] for one in to_json(found)["groups"][0]["rests_on"]] == [*facts]


def test_the_noise_is_that_of_the_latest_calibration(tmp_path: Path) -> None:
    runs = arms(tmp_path, 1.5)
    (group,) = compare(*split(runs)).groups
    assert "not-calibrated" in {fact.code for fact in group.rests_on}
    pairs = list(zip(runs[0:4:2], runs[4:8:2], strict=True))
    calibration = calibration_of(pairs)
    (noise,) = calibration.metrics
    ratios = (math.log(1.1), -math.log(1.1))
    known = replace(calibration, warnings=(), metrics=(replace(noise, log_ratios=ratios),))
    CalibrationStore(tmp_path).write(known)
    (group,) = compare(*split(runs)).groups
    facts = {fact.code: fact for fact in group.rests_on}
    assert facts["noise"].values == pytest.approx((0.1,))
    differing = replace(noise, log_ratios=(math.log(1.1),) * 8)
    changes: dict[str, Any] = {"unix_ns": known.unix_ns + 1, "metrics": (differing,)}
    later = replace(known, calibration_id=f"{known.calibration_id}-2", **changes)
    CalibrationStore(tmp_path).write(later)
    (group,) = compare(*split(runs)).groups
    facts = {fact.code: fact for fact in group.rests_on}
    assert facts["noise"].values[1:] == ("arms-differ",)


def split(runs: list[StoredRun]) -> tuple[list[StoredRun], list[StoredRun]]:
    return runs[::2], runs[1::2]


@pytest.mark.parametrize(
    ("slower", "blocks", "status"), [(1.2, 6, 1), (1.03, 6, 0), (1.2, 3, 0), (0.5, 6, 0)]
)
def test_a_regression_that_is_shown_fails_the_command(
    tmp_path: Path, slower: float, blocks: int, status: int
) -> None:
    arms(tmp_path, slower, blocks)
    argv = ["compare", "placement=ssd-both", "placement=pmem-both", "--results", str(tmp_path)]
    assert CliRunner().invoke(app, [*argv, "--fail-above", "5%"]).exit_code == status
    assert CliRunner().invoke(app, argv).exit_code == 0


@pytest.mark.parametrize(
    ("slower", "blocks", "status"), [(1.2, 6, 1), (1.0, 6, 0), (1.0, 2, 1), (0.5, 6, 0)]
)
def test_what_is_not_decided_fails_on_request(
    tmp_path: Path, slower: float, blocks: int, status: int
) -> None:
    arms(tmp_path, slower, blocks)
    file = tmp_path / "junit.xml"
    argv = ["compare", "placement=ssd-both", "placement=pmem-both", "--results", str(tmp_path)]
    argv += ["--fail-above", "5%", "--inconclusive", "fail", "--junit", str(file)]
    assert CliRunner().invoke(app, argv).exit_code == status
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", str(status))
    assert len(suite.findall(".//failure")) == status


def test_failed_runs_of_b_fail_the_command(tmp_path: Path) -> None:
    for placement, status in (("ssd-both", "complete"), ("pmem-both", "failed")):
        write(tmp_path, Case(placement=placement, status=status))
    argv = ["compare", "placement=ssd-both", "placement=pmem-both", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, [*argv, "--fail-above", "5%"])
    assert isinstance(done.exception, RunFailed) and done.exception.exit_code == 1


def test_executions_of_an_experiment_are_compared_over_time(tmp_path: Path) -> None:
    runs = arms(tmp_path, 1.2)
    assert histories(runs) == []
    later = {"started_unix_ns": runs[-1].document["started_unix_ns"] + 86_400 * 10**9}
    runs += [
        write(
            tmp_path,
            Case(
                block=block,
                metrics=[metric("queries_geomean_ns", 2e9 + block, "lower")],
                run_changes=later,
                manifest_changes={"engine.version": "19.0"},
            ),
        )
        for block in range(6)
    ]
    (history,) = histories(runs)
    first, second = history.executions
    assert first.row is None
    assert second.row is not None and second.row.verdict == "slower"
    assert "engine.version: 18.4 → 19.0" in second.changed


@pytest.mark.parametrize(
    ("of_a", "of_b", "regressed"),
    [(0, 8, True), (8, 0, False), (8, 8, False), (0, 1, False), (0, 4, True), (1, 8, True)],
)
def test_a_time_limit_that_b_alone_reaches_as_a_rule_is_a_regression(
    tmp_path: Path, of_a: int, of_b: int, regressed: bool
) -> None:
    a, b = (
        [
            write(
                tmp_path,
                Case(placement=one, limited=(9,) if k < limited else (), block=k, plans=False),
            )
            for k in range(8)
        ]
        for one, limited in (("ssd-both", of_a), ("pmem-both", of_b))
    )
    (group,) = compare(a, b).groups
    assert group.regressed(0.05) == regressed


def execution(
    root: Path, day: int, seconds: float = 2, limited: int = 0, **changes: Any
) -> list[StoredRun]:
    """Eight repeats on one placement; ``limited``: those in which a query reached its limit."""
    began = STARTED_UNIX_NS + day * 86_400 * 10**9
    times = [metric("queries_geomean_ns", seconds * 1e9, "lower")]
    limit = [metric("query_timeout_ns", 60e9, query="9")]
    return [
        write(
            root,
            Case(
                block=block,
                metrics=limit if block < limited else times,
                run_changes={"started_unix_ns": began + block, **changes},
            ),
        )
        for block in range(8)
    ]


def test_changes_over_time_have_the_interval_of_a_comparison(tmp_path: Path) -> None:
    """Also where results decided whether there were more repeats."""
    before = execution(tmp_path, 0)
    after = execution(tmp_path, 1, 1, **{"experiment.looks": 4})
    ((_, change),) = (one.executions for one in histories([*before, *after]))
    (group,) = compare(before, after, force=True).groups
    estimate = present(change.row).estimate
    assert estimate == present(group.deciding).estimate
    assert estimate is not None and estimate.interim_analyses == 4


@pytest.mark.parametrize("limited", [1, 8])
def test_an_execution_at_a_time_limit_is_no_gain(tmp_path: Path, limited: int) -> None:
    """The times of its other runs are those that happened to be short."""
    runs = [*execution(tmp_path, 0), *execution(tmp_path, 1, 1, limited)]
    ((_, last),) = (one.executions for one in histories(runs))
    assert last.row is not None and last.row.estimate is None
    assert (last.summary is None) == (limited == 8)


def test_two_executions_at_a_time_limit_are_not_compared(tmp_path: Path) -> None:
    runs = [*execution(tmp_path, 0, limited=8), *execution(tmp_path, 1, limited=8)]
    ((_, second, third),) = (one.executions for one in histories([*runs, *execution(tmp_path, 2)]))
    assert second.row is None
    assert third.row is not None and third.row.estimate is None
