"""What explains a comparison of placements, by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from explained_runs import device_suite, tpcc
from narrowed import of_kind
from report_runs import histogram, metric, with_artifacts

from harness.models.curve import Score, ScoredMetric, ScoreStore
from harness.models.device import DeviceModel, find_model
from harness.models.make import model_of
from harness.store.runs import Store
from reports.explain.ceilings import Call, TierSources
from reports.explain.comparisons import Explained, explained
from reports.explain.output import ExplainedView, to_json
from reports.micro.points import is_micro
from reports.select import unplanted
from reports.series import panels
from reports.statistics import Missing, Value


def rows(root: Path, baseline: str | None = None) -> list[Explained]:
    every = Store(root).runs()
    chosen = [run for run in unplanted(every) if not is_micro(run)]
    sources = TierSources.of(every, ScoreStore(root).all())
    return explained(panels(chosen, "placement", baseline), sources)


def moved(root: Path, to: str = "pmem-both", gain: float = 1.5, blocks: int = 6) -> None:
    """Paired runs of which those on ``to`` are ``gain`` times as fast."""
    for block in range(blocks):
        for placement, rate in (("ssd-both", 60_000), (to, 60_000 * gain)):
            tpcc(root, placement, block, rate * (1 + 0.01 * block))


known = partial(of_kind, Value)


@pytest.mark.parametrize(("baseline", "speed_up"), [("ssd-both", 1.5), ("pmem-both", 1 / 1.5)])
def test_the_measured_speed_up_is_of_b_over_a(tmp_path, baseline, speed_up):
    moved(tmp_path)
    (row,) = rows(tmp_path, baseline)
    assert known(row.measured).value == pytest.approx(speed_up)
    assert row.moved == ("data", "wal", "temp", "index")


@pytest.mark.parametrize(
    ("gain", "blocks", "marked"), [(1.5, 6, False), (5.0, 6, True), (5.0, 2, False)]
)
def test_what_was_measured_above_its_ceiling_is_marked(tmp_path, gain, blocks, marked):
    """The ceiling is of what moved; two repeats, whose interval covers 50 %, show nothing."""
    moved(tmp_path, "ssd-data-pmem-wal", gain, blocks)
    (row,) = rows(tmp_path)
    assert row.moved == ("wal",)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert row.above_ceiling == marked


def test_the_ceiling_of_planted_delays_is_that_of_their_part(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path), tpcc(tmp_path, rate=30_000, plant=("wal.sync=+400us",))]
    (row,) = explained(panels(runs, "placement", "ssd-both PLANTED wal.sync=+400us"), TierSources())
    assert row.moved == ("wal",)
    assert known(row.measured).value == pytest.approx(2.0)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)


def test_the_devices_are_compared_by_the_operation_that_sessions_wait_for_most(tmp_path):
    """1,000 syncs of 400 us, of 10 KiB: half-way between 4 KiB and 16 KiB, which take twice."""
    runs = [tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both")]
    cell = {"part": "wal", "operation": "sync", "role": "foreground", "calls": 10}
    counters = dict.fromkeys(
        ("errors", "bytes", "timed", "ns", "sequential", "direct", "durable", "submitted",
         "extending", "datasync", "queued"), 0)  # fmt: skip
    counters |= {"delayed": 0, "delay_ns": 0, "dirtied_bytes": 102_400}
    with_artifacts(runs[0], {"io-operations": [{**cell, **counters, "sizes": {}}]})
    (row,) = rows(tmp_path)
    missing = of_kind(Missing, row.device)
    assert (missing.code, missing.tiers) == ("no figures", ("ssd", "pmem"))
    assert ExplainedView((row,)).to_measure.endswith("--tier ssd --tier pmem")
    device_suite(tmp_path, "ssd", 500)
    device_suite(tmp_path, "pmem", 10)
    (row,) = rows(tmp_path)
    assert row.call == Call("wal", "sync", 10_240)
    assert known(row.device).value == pytest.approx(50, rel=1e-2)


def on_model(root: Path, model: DeviceModel, rate: float, blocks: int = 6) -> None:
    for block in range(blocks):
        tpcc(root, "fast-both", block, rate * (1 + 0.01 * block), model=model)


def test_a_modelled_speed_up_is_of_runs_on_both_models_or_over_the_baseline(tmp_path):
    moved(tmp_path)
    assert of_kind(Missing, rows(tmp_path)[0].modelled).code == "no modelled runs"
    on_model(tmp_path, model_of(device_suite(tmp_path, "pmem", 10), "of-pmem"), 96_000)
    (row,) = rows(tmp_path)
    assert known(row.modelled).value == pytest.approx(1.6)
    assert "of-pmem" in str(row.models)
    assert known(row.error).value == pytest.approx(1.6 / 1.5 - 1)
    on_model(tmp_path, model_of(device_suite(tmp_path, "ssd", 500), "of-ssd"), 80_000)
    (row,) = rows(tmp_path)
    assert known(row.measured).value == pytest.approx(1.5)
    assert known(row.modelled).value == pytest.approx(1.2)
    assert known(row.modelled).low == pytest.approx(1.2)
    assert "of-ssd" in str(row.models) and "of-pmem" in str(row.models)


def test_a_score_says_what_a_model_is_of_and_a_device_that_is_not_here_has_no_measurement(tmp_path):
    moved(tmp_path)
    model = find_model("latency:20us")
    on_model(tmp_path, model, 75_000)
    _, alone = rows(tmp_path)
    assert known(alone.modelled).value == pytest.approx(1.25)
    for one in (alone.measured, alone.device, alone.error):
        assert of_kind(Missing, one).code == "modelled"
    score = Score("a1b2c3d4", model.name, model.digest, "pmem", "postgres", "tpcc", "tpcc postgres",
                  3, 1, (ScoredMetric("throughput", 1.0, None, None),), ("a", "b"))  # fmt: skip
    ScoreStore(tmp_path).write(score)
    (row,) = rows(tmp_path)
    assert known(row.error).value == pytest.approx(1.25 / 1.5 - 1)


def test_of_a_throttled_device_the_calls_count_that_did_not_wait_for_the_throttle(tmp_path):
    """12 MB/s, of which a mebibyte takes 87 ms: nineteen of twenty requests passed at once."""
    mebibyte = {"measurement": "read", "access_size_bytes": str(1 << 20)}
    times = metric("operation_duration_ns", histogram([1e6] * 95 + [1700e6] * 5), **mebibyte)
    made = model_of(device_suite(tmp_path, "slow", 100, times), "made")
    assert made.burst_bytes == {"read": pytest.approx(21e6, rel=0.15)}
    assert made.points["read"][-1].quantiles[-1][1] == pytest.approx(1e6, rel=0.01)


Cell = Value | Missing


def row(device: Cell, modelled: Cell, measured: Cell) -> Explained:
    ceiling = Missing("no waits")
    return Explained("tpcc", "a", "b", ("wal",), ceiling, None, device, (), modelled, measured)


@pytest.mark.parametrize(
    ("cells", "errors", "device", "modelled"),
    [
        ([(10, 1.1, 1.0), (100, 2.0, 4.0), (2, 3.0, 5.0)], (3, 0.4, 0.5), (3, -0.5), (3, 1.0)),
        ([(10, 1.1, 1.0), (100, 2.0, 4.0)], (2, 0.3, 0.5), (2, None), (2, None)),
        ([(10, None, 1.0), (10, 2.0, 4.0), (10, 3.0, 5.0)], (2, 0.45, 0.5), (3, None), (2, None)),
        ([(None, None, None)], (0, None, None), (0, None), (0, None)),
    ],
)
def test_over_all_rows_errors_and_rank_correlations_are_given(cells, errors, device, modelled):
    """Spearman: of ranks 1, 2, 0 and 0, 1, 2 by hand."""
    given = [[Value(one) if one else Missing("no trace") for one in cell] for cell in cells]
    document = to_json(ExplainedView(tuple(row(*cell) for cell in given)))
    assert list(document["errors"].values()) == pytest.approx(list(errors))
    found = [(one["rows"], one["rho"]) for one in document["correlations"]]
    assert found == [pytest.approx(device), pytest.approx(modelled)]
