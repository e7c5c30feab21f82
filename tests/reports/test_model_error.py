"""Verdicts of modelled runs contain the models' error, and need runs that kept their model."""

from pathlib import Path
from typing import Any

import pytest
from explained_runs import PARTS_US, tpcc, tpcc_metrics
from report_runs import Case, write

from harness.models.model_file import find_model
from harness.models.score import Pair, Score, ScoredMetric, ScoreStore
from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.compare_output import to_json
from reports.model_error import score_metrics
from reports.response import measurements
from reports.statistics import Ratio

MODEL = "nvme-970-pro"
Sides = tuple[list[StoredRun], list[StoredRun]]
HOST = "a1b2c3d4"
DISTURBED = {
    "code": "other-load",
    "what": "other programs used the processors",
    "found": "1.20 of 2 processors",
    "do": "stop other programs",
}


def sides(
    root: Path, gain: float, model: str = MODEL, modelled: str = "fast-both", **changes: Any
) -> Sides:
    """Six pairs on the disk and on a modelled tier; ``changes``: of one modelled run."""
    disk = [tpcc(root, "ssd-both", block, 60_000 * (1 + block / 100)) for block in range(6)]
    fast = [
        tpcc(root, modelled, block, gain * 60_000 * (1 + block / 100), model=find_model(model),
             run_changes=changes if block == 3 else {})
        for block in range(6)
    ]  # fmt: skip
    return disk, fast


def scored(root: Path, *ratios: float, workload: str = "tpcc", **kinds: float) -> None:
    for number, ratio in enumerate(ratios):
        metrics = (ScoredMetric("throughput", 1.0, None, None),
                   ScoredMetric("device_time", ratio, None, None),
                   *(ScoredMetric(name, of, None, None) for name, of in kinds.items()))  # fmt: skip
        ScoreStore(root).write(
            Score(
                HOST,
                "disk",
                "d" * 16,
                "ssd",
                "postgres",
                workload,
                f"case {number}",
                1,
                (),
                metrics,
            )
        )


def group(runs: Sides) -> tuple[Group, dict[str, Any]]:
    comparison = compare(runs[0], runs[1], ["placement"])
    return comparison.groups[0], to_json(comparison)["groups"][0]


@pytest.mark.parametrize(
    ("gain", "ratios", "verdict"),
    [
        (3.0, (), "faster"),  # not scored: the device's time may be half as long again
        (1.2, (), "within the models' error"),
        (1.2, (1.0, 1.05, 0.95), "faster"),
        (1.2, (1.0, 0.5, 1.0), "within the models' error"),  # it may take twice as long
        (1.2, (1.0, 2.0, 1.0), "faster"),  # or half as long, which is faster still
    ],
)
def test_a_difference_that_the_models_error_may_hide_is_within_it(tmp_path, gain, ratios, verdict):
    scored(tmp_path, *ratios)
    compared, document = group(sides(tmp_path, gain))
    assert compared.verdict == document["verdict"] == verdict
    error = document["model_error"]
    assert error["low"] <= 1 <= error["high"]
    row = compared.deciding
    assert row is not None and row.estimate is not None and row.estimate.low is not None
    assert row.estimate.low <= gain * error["low"] * 1.01
    if verdict != "faster":
        assert document["why"] == []


def test_few_scores_of_a_workload_give_way_to_those_of_the_engine(tmp_path) -> None:
    scored(tmp_path, 1.0, 0.5, 1.0, workload="ycsb")
    _, document = group(sides(tmp_path, 1.2))
    assert document["model_error"]["low"] < 1
    assert document["model_error"]["high"] == 1  # none of them was too slow: nothing is assumed


@pytest.mark.parametrize(
    ("modelled", "verdict"),
    [("fast-both", "faster"), ("data=ssd,wal=fast", "within the models' error")],
)
def test_errors_of_kinds_of_call_count_where_the_sum_hides_them(tmp_path, modelled, verdict):
    """Syncs of the WAL take twice as long as on the models, and of all calls none is longer."""
    scored(tmp_path, 1.0, 1.0, 1.0, device_time_wal_sync=0.5)
    compared, _ = group(sides(tmp_path, 1.2, modelled=modelled))
    assert compared.verdict == verdict
    widened = {
        row.quantity.name: row.estimate.model_error
        for row in compared.rows
        if isinstance(row.estimate, Ratio)
    }
    assert widened["transaction_duration_ns"] == (0.5, 1)


def test_a_ceiling_has_no_error_of_a_device(tmp_path) -> None:
    compared, document = group(sides(tmp_path, 1.2, model="zero"))
    assert (compared.verdict, document["model_error"]) == ("faster", None)


def test_no_verdict_rests_on_a_run_that_did_not_keep_its_model(tmp_path) -> None:
    compared, document = group(sides(tmp_path, 3.0, uncontrolled=[DISTURBED]))
    assert compared.verdict == document["verdict"] == "model not kept"
    assert {row["ratio"] for row in document["rows"]} == {None}
    assert any(warning["code"] == "model-not-kept" for warning in document["warnings"])
    assert document["why"] == []


def test_calls_of_a_model_are_timed_as_often_as_the_device_had_them(tmp_path):
    """Syncs take twice as long, and are half as many; reads are as fast, and twice as many."""

    def run(syncs: tuple[int, float], reads: tuple[int, float], block: int) -> StoredRun:
        timed = {("wal", "sync"): syncs, ("data", "read"): reads}
        return write(tmp_path, Case(block=block, metrics=tpcc_metrics(60_000, PARTS_US, timed)))

    device, model = run((100, 400.0), (300, 100.0), 0), run((50, 800.0), (600, 100.0), 1)
    times = {m.name: m for m in measurements(device, model)}
    of_all, syncs = times["device_time"], times["device_time_wal_sync"]
    assert (of_all.tier, of_all.model) == (approx(70e6), approx(110e6))
    assert (syncs.tier, syncs.model) == (approx(40e6), approx(80e6))


def approx(value: float) -> Any:
    return pytest.approx(value, rel=0.01)


def test_a_kind_of_call_that_takes_twice_as_long_contradicts_a_model_by_its_name(tmp_path):
    """Syncs are 20 % of the device's time; writes of the WAL are too little to have a metric."""

    def run(name: str, block: int, syncs: float) -> StoredRun:
        timed = {("wal", "sync"): (100 + block, 400.0 * syncs), ("wal", "write"): (100, 10.0),
                 ("data", "read"): (1600, 100.0)}  # fmt: skip
        metrics = tpcc_metrics(60_000 + block, PARTS_US, timed)
        return write(tmp_path / name, Case(block=block, metrics=metrics))

    blocks = tuple(
        Pair((str(n),), 1, measurements(run("tier", n, 1), run("model", n, 2))) for n in range(6)
    )
    metrics = {metric.name: metric for metric in score_metrics(blocks)}
    errors = {name: m.error for name, m in metrics.items() if name.startswith("device_time")}
    assert errors == {
        "device_time": pytest.approx(0.2, abs=0.01),
        "device_time_wal_sync": approx(1),
        "device_time_data_read": 0,
    }
    scored = Score(HOST, "disk", "d" * 16, "ssd", "postgres", "tpcc", "case", 1, blocks,
                   tuple(metrics.values()))  # fmt: skip
    assert scored.contradicted == ("device_time_wal_sync",)
