"""Comparisons that are explained: measured, predicted, modelled, and how these agree."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from explained_runs import device_suite, explained_rows, tpcc
from narrowed import of_kind, present

from harness.models.device import DeviceModel
from harness.models.make import model_of
from harness.models.model_file import find_model
from harness.models.score import Score, ScoredMetric, ScoreStore
from reports.explain.comparisons import ExplainedComparison, explained
from reports.explain.devices import TierSources
from reports.explain.output import ExplainedView, to_json
from reports.explain.prediction import NotPredicted, Predicted, Unpredictable
from reports.series import panels
from reports.statistics import Missing, Value


def moved(root: Path, to: str = "pmem-both", gain: float = 1.5, blocks: int = 6) -> None:
    """Paired runs of which those on ``to`` are ``gain`` times as fast."""
    for block in range(blocks):
        for placement, rate in (("ssd-both", 60_000), (to, 60_000 * gain)):
            tpcc(root, placement, block, rate * (1 + 0.01 * block))


value_of = partial(of_kind, Value)


@pytest.mark.parametrize(("baseline", "speed_up"), [("ssd-both", 1.5), ("pmem-both", 1 / 1.5)])
def test_the_measured_speed_up_is_of_b_over_a(tmp_path, baseline, speed_up):
    moved(tmp_path)
    (row,) = explained_rows(tmp_path, baseline)
    assert value_of(row.measured).value == pytest.approx(speed_up)
    assert row.moved == ("data", "wal", "temp", "index")


@pytest.mark.parametrize(
    ("gain", "blocks", "marked"), [(1.5, 6, False), (5.0, 6, True), (5.0, 2, False)]
)
def test_what_was_measured_above_its_ceiling_is_marked(tmp_path, gain, blocks, marked):
    """The ceiling is of what moved; two repeats, whose interval covers 50 %, show nothing."""
    moved(tmp_path, "ssd-data-pmem-wal", gain, blocks)
    (row,) = explained_rows(tmp_path)
    assert row.moved == ("wal",)
    assert value_of(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert row.above_ceiling == marked


def test_the_ceiling_of_planted_delays_is_that_of_their_part(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path), tpcc(tmp_path, rate=30_000, plant=("wal.sync=+400us",))]
    (row,) = explained(panels(runs, "placement", "ssd-both PLANTED wal.sync=+400us"), TierSources())
    assert row.moved == ("wal",)
    assert value_of(row.measured).value == pytest.approx(2.0)
    assert value_of(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)


def test_a_row_without_a_prediction_says_why_and_how_to_measure_what_is_missing(tmp_path):
    for placement in ("ssd-both", "pmem-both"):
        tpcc(tmp_path, placement)
    (row,) = explained_rows(tmp_path)
    missing = of_kind(NotPredicted, row.predicted)
    assert missing.why == "no-baseline" and row.residual is None
    row = replace(row, predicted=NotPredicted(missing.why, ("ssd", "pmem by tmpfs")))
    view = ExplainedView((row,))
    assert view.to_measure.endswith("--suite baseline --tier ssd --tier pmem --emulate pmem")
    document = to_json(view)
    assert document["comparisons"][0]["predicted"] == {
        "value": None, "why": "no-baseline", "tiers": ["ssd", "pmem by tmpfs"]
    }  # fmt: skip
    assert document["correlation"]["rows"] == 0
    assert document["correlation"]["median_error"] is None


def test_each_arm_is_compared_with_the_baseline_alone(tmp_path: Path) -> None:
    """Rows of every two of three arms would have runs of both sides in common with others."""
    for block in range(2):
        for placement in ("ssd-both", "pmem-both", "ssd-data-pmem-wal"):
            tpcc(tmp_path, placement, block)
    assert {(row.a, row.b) for row in explained_rows(tmp_path)} == {
        ("ssd-both", "pmem-both"), ("ssd-both", "ssd-data-pmem-wal")
    }  # fmt: skip


def on_model(root: Path, model: DeviceModel, rate: float, blocks: int = 6) -> None:
    for block in range(blocks):
        tpcc(root, "fast-both", block, rate * (1 + 0.01 * block), model=model)


def test_a_modelled_speed_up_is_of_runs_on_both_models_or_over_the_baseline(tmp_path):
    moved(tmp_path)
    assert of_kind(Missing, explained_rows(tmp_path)[0].modelled).code == "no modelled runs"
    on_model(tmp_path, model_of(device_suite(tmp_path, "pmem", 10), "of-pmem"), 96_000)
    (row,) = explained_rows(tmp_path)
    assert value_of(row.modelled).value == pytest.approx(1.6)
    assert "of-pmem" in str(row.models)
    assert row.modelled_residual == pytest.approx(1.5 / 1.6 - 1)
    on_model(tmp_path, model_of(device_suite(tmp_path, "ssd", 500), "of-ssd"), 80_000)
    (row,) = explained_rows(tmp_path)
    assert value_of(row.measured).value == pytest.approx(1.5)
    modelled = value_of(row.modelled)
    assert modelled.value == pytest.approx(1.2)
    # Not scored on this host: the devices' share of the time may be wrong by half on both sides.
    assert 0.8 < present(modelled.low) < 1
    assert 1.5 < present(modelled.high) < 1.8
    assert "of-ssd" in str(row.models) and "of-pmem" in str(row.models)


def test_a_score_says_what_a_model_is_of_and_a_device_that_is_not_here_has_no_measurement(tmp_path):
    moved(tmp_path)
    model = find_model("latency:20us")
    on_model(tmp_path, model, 75_000)
    _, alone = explained_rows(tmp_path)
    assert value_of(alone.modelled).value == pytest.approx(1.25)
    assert of_kind(Missing, alone.measured).code == "modelled"
    assert alone.modelled_residual is None and alone.checked == ()
    score = Score("a1b2c3d4", model.name, model.digest, "pmem", "postgres", "tpcc", "tpcc postgres",
                  1, (), (ScoredMetric("throughput", 1.0, None, None),))  # fmt: skip
    ScoreStore(tmp_path).write(score)
    (row,) = explained_rows(tmp_path)
    assert row.modelled_residual == pytest.approx(1.5 / 1.25 - 1)


# How well speed-ups are predicted -------------------------------------------------


def row(
    predicted: float | None, modelled: float | None, measured: float | None, workload: str = "tpcc"
) -> ExplainedComparison:
    """A comparison with intervals of a tenth; None of what there is not."""
    by_models, real = (
        Value(value, value * 0.9, value * 1.1) if value else Missing("no modelled runs")
        for value in (modelled, measured)
    )
    by_laws = (
        Predicted(predicted, predicted * 0.9, predicted * 1.1, 1.0, 9.0, 1.0)
        if predicted
        else NotPredicted(Unpredictable.NO_TRACE)
    )
    where = f"postgres 18.4, {workload}"
    return ExplainedComparison(
        "postgres", workload, where, "ssd-both", "pmem-both", (), ("wal",), Missing("no waits"),
        by_laws, (), by_models, real,
    )  # fmt: skip


FIELDS = ["rows", "rho", "rho_low", "rho_high", "p", "slope", "r2", "median_error", "largest_error"]


def test_over_all_rows_both_methods_are_correlated_with_what_was_measured():
    """The predictions are 10 % too low, the models in the wrong order; rows that lack a side, or
    are of another device than is here, do not count."""
    measured = [1.1, 1.5, 2.0, 4.0, 9.0]
    workloads = ["tpcc", "ycsb", "tpcc", "ycsb", "tpcc"]
    given = [
        row(real / 1.1, model, real, workload)
        for real, model, workload in zip(measured, measured[::-1], workloads, strict=True)
    ]
    others = [row(None, None, 3.0), row(5.0, 5.0, None)]
    document = to_json(ExplainedView((*given, *others)))
    whole, modelled = document["correlation"], document["modelled_correlation"]
    assert list(whole) == FIELDS
    assert (whole["rows"], whole["rho"], whole["rho_high"]) == (5, 1.0, 1.0)
    assert whole["p"] == pytest.approx(2 / 120)
    assert whole["median_error"] == pytest.approx(0.1)
    assert whole["largest_error"] == pytest.approx(0.1)
    assert (modelled["rows"], modelled["rho"]) == (5, -1.0)
    assert modelled["largest_error"] == pytest.approx(9 / 1.1 - 1)
    parts = [
        (part["engine"], part["workload"], part["correlation"]["rows"], part["correlation"]["rho"])
        for part in document["by_engine_and_workload"]
    ]
    assert parts == [("postgres", "tpcc", 3, None), ("postgres", "ycsb", 2, None)]
    comparisons = document["comparisons"]
    assert len(comparisons) == 7
    assert comparisons[0]["residual"] == pytest.approx(0.1)
    assert comparisons[0]["predicted"]["low"] == pytest.approx(0.9)
    assert [comparison["predicted"]["value"] for comparison in comparisons[5:]] == [None, 5.0]
    assert comparisons[5]["predicted"]["why"] == "no-trace"


def test_identical_arms_are_no_evidence_of_a_correlation():
    """A prediction of no change that holds has no error, and no order."""
    document = to_json(ExplainedView((row(1.0, None, 1.0),) * 6))
    assert document["correlation"] == dict.fromkeys(FIELDS) | {
        "rows": 6, "median_error": 0.0, "largest_error": 0.0
    }  # fmt: skip


# What devices of zero latency could gain at most ----------------------------------
