"""Models of devices, their scores, and response curves."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from harness import hdr, paths
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import parse_placement
from harness.models import durations
from harness.models.curve import ModelledPoint, Score, ScoredMetric, ScoreStore, shape_of, summary
from harness.models.device import (
    DeviceModel,
    Point,
    find_model,
    known_models,
    load_model,
)
from harness.store.result import Metric
from reports.response import PointOfCurve, Throughput, at_latencies, curve_of, falling, first_parts
from reports.statistics import Value

WHOLE = """
schema: 1
name: disk
description: a disk
basis: measured
source: a test
page_cache: true
parallel: 4
bandwidth: {read: 1GB/s, write: 500MB/s}
read: {4KiB: {mean: 95us, p50: 90us, p99: 200us}}
write: {4KiB: {mean: 20us}}
sync: {8KiB: {mean: 700us}, 16KiB: {mean: 760us}}
burst: {read: 20MB}
"""


BUFFER = "{size: 1MiB, program_size: 32KiB, program: 185us}"


def written(folder: Path, text: str) -> Path:
    path = folder / "disk.yml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("parallel: 4", "parallel: 65", 8),
        ("p99: 200us", "p99: 20us", 10),
        ("p99: 200us", "p101: 200us", 10),
        ("{mean: 95us, p50: 90us, p99: 200us}", "{source: nowhere}", 10),
        ("mean: 95us, ", "", 10),  # which leaves the tail open
        ("mean: 95us", "mean: 40us", 10),
        ("parallel: 4\n", "", 2),
        ("{mean: 20us}", "{mean: 20}", 11),
        ("basis: measured", "basis: guessed", 5),
        ("1GB/s", "1G/s", 9),
        ("burst: {read: 20MB}", "burst: {write: 20MB}\nwrite_buffer: " + BUFFER, 14),
        ("\nread:", "\nreads:", 10),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(tmp_path, before, after, line):
    with pytest.raises(UsageError, match=f"disk.yml:{line}"):
        load_model(written(tmp_path, WHOLE.replace(before, after, 1)))


def test_what_a_model_does_not_state_is_missing_and_not_estimated() -> None:
    one_size = {"sync": (Point(8192, durations.constant(700_000)),)}
    log = DeviceModel("log", "", "published", points=one_size)
    assert len(log.missing("wal")) == 1  # of other sizes
    assert replace(log, bandwidth={"write": 1}).missing("wal") == []
    assert log.missing("data")[0] == "reads"


@pytest.mark.parametrize("name", ["zero", "latency:0us", "latency:20us"])
def test_a_constant_latency_is_a_model_of_every_size(name: str) -> None:
    model = find_model(name)
    assert not model.gaps() and model.instant == (name != "latency:20us")
    if not model.instant:
        found = {p.durations for points in model.points.values() for p in points}
        assert found == {durations.constant(20_000)}


def test_models_that_ship_are_valid_and_name_their_sources() -> None:
    shipped = {
        name: load_model(path)
        for name, path in known_models().items()
        if path.parent == paths.data_folder("profiles") / "devices"
    }
    assert len(shipped) >= 10
    for model in shipped.values():
        assert model.source
        assert all(p.source for points in model.points.values() for p in points)


# Scores of models --------------------------------------------------------------


def score(ratio: float, case: str = "tpcc postgres", host: str = "here") -> Score:
    metric = ScoredMetric("throughput", ratio, ratio * 0.95, ratio * 1.05)
    return Score(host, "disk", "d", "ssd", "postgres", "tpcc", case, 3, 1, (metric,), ("a", "b"))


def test_a_score_replaces_the_earlier_one_of_its_case(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    for one in (score(0.5), score(0.9), score(1.1, "tpcc postgres users=4")):
        scores.write(one)
    assert [one.metrics[0].ratio for one in scores.all()] == [1.1, 0.9]


def test_an_unreadable_score_is_left_out(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    scores.write(score(0.9))
    (scores.folder / "x.json").write_text("{")
    assert len(scores.all()) == 1


@pytest.mark.parametrize(
    ("ratio", "contradicted"), [(1.0, False), (1.28, False), (1.4, True), (0.7, True)]
)
def test_an_error_that_the_interval_shows_contradicts_a_model(ratio, contradicted):
    assert score(ratio).metrics[0].contradicted is contradicted


def test_one_pair_contradicts_no_model():
    assert not ScoredMetric("throughput", 2.0, None, None).contradicted


def test_the_error_in_the_middle_is_a_median():
    assert "median error 20%" in summary([score(1.1), score(1.3)], "here")


def test_scores_of_other_hosts_do_not_count() -> None:
    assert summary([score(0.9, host="there")], "here") == "not scored on this host"
    assert "1 of 2" in summary([score(1.05), score(1.3)], "here")


# Response curves ------------------------------------------------------------------


def point(latency_us: float, throughput: float) -> PointOfCurve:
    value = Value(throughput, None, None)
    return PointOfCurve(latency_us * 1000, value, Value(throughput / 500, None, None))


EXACT = Value(1.0, None, None)
POINTS = [point(0, 1050), point(10, 1010), point(20, 990), point(100, 500)]


@pytest.mark.parametrize(
    ("points", "at_us"),
    [
        (POINTS, 15),  # 1000 is 5 % below the best
        ([point(0, 100), point(10, 100)], 10),  # no faster device gains
        ([point(0, 1000), point(10, 100)], 0.53),
        ([point(0, 1000), point(10, 900), point(20, 1100), point(30, 100)], 20.53),
    ],
)
def test_the_point_of_diminishing_returns(points: list[PointOfCurve], at_us: float) -> None:
    curve = curve_of("wal", "sync", "1/s", points, point(100, 500), EXACT, {})
    assert curve.diminishing_at_ns is not None
    assert curve.diminishing_at_ns / 1000 == pytest.approx(at_us, abs=0.01)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=8))
def test_a_curve_falls_as_scipys(values: list[float]) -> None:
    assert falling(values) == pytest.approx(isotonic_regression(values, increasing=False).x)


def test_known_models_are_marked_within_the_curve_only() -> None:
    curve = curve_of(
        "wal", "sync", "1/s", POINTS, point(100, 500), EXACT, {"a": 60_000, "b": 200_000}
    )
    assert curve.models == {"a": (60_000, 745.0)}
    assert (curve.ceiling.value, curve.at_today.value) == (2.1, 1.0)
    found = curve.to_json()
    assert found["points"][0] == {
        "latency_ns": 0,
        "throughput": {"value": 1050, "low": None, "high": None, "confidence": 0.95},
        "gain": {"value": 2.1, "low": None, "high": None, "confidence": 0.95},
        "runs": [],
    }
    assert found["models"] == [{"name": "a", "latency_ns": 60_000, "throughput": 745.0}]


def test_gains_are_of_the_blocks_that_both_have() -> None:
    today = Throughput("1/s", {0: 100.0, 1: 200.0}, ())
    found = Throughput("1/s", {1: 300.0, 2: 999.0}, ("run",)).point(5, today)
    assert found is not None and found.gain.value == pytest.approx(1.5)
    assert Throughput("1/s", {2: 1.0}, ()).point(5, today) is None


def test_a_device_that_varies_is_compared_at_the_latency_of_each_block() -> None:
    """An operation takes 300 us with syncs of up to 300 us beside it, and longer syncs add up."""

    def microseconds(*times: int) -> Throughput:
        return Throughput("1/s", {block: 1e6 / time for block, time in enumerate(times)}, ())

    models = [(0.0, microseconds(300, 300, 300)), (300_000.0, microseconds(300, 300, 300)),
              (500_000.0, microseconds(500, 500, 500))]  # fmt: skip
    device, latencies = microseconds(300, 400, 600), {0: 200_000.0, 1: 400_000.0, 2: 600_000.0}
    assert at_latencies(models, device, latencies).value == pytest.approx(1.0)
    noisy = [(0.0, microseconds(300)), (100_000.0, microseconds(200))]
    assert at_latencies(noisy, microseconds(200), {0: 900_000.0}).value == pytest.approx(1.0)


def test_the_part_to_move_first_gains_most_beyond_the_intervals() -> None:
    def curve(part: str, value: float, low: float, high: float) -> Any:
        gain = PointOfCurve(0, Value(value, low, high), Value(value, low, high))
        return curve_of(part, "sync", "1/s", [gain, point(9, 0.5)], point(9, 1), EXACT, {})

    wal, data = curve("wal", 3.0, 2.8, 3.2), curve("data", 1.5, 1.4, 2.0)
    assert [one.part for one in first_parts([data, wal])] == ["wal"]
    close = curve("data", 2.9, 2.5, 3.0)
    assert [one.part for one in first_parts([close, wal])] == ["wal", "data"]


def run_with(**durations_ns: int) -> Any:
    """A run whose calls of the data took these times, by operation."""
    layout = hdr.Layout(1, 10**9, 2)

    def metric(operation: str, duration_ns: int) -> Metric:
        counts = np.zeros(layout.counters, dtype=np.int64)
        counts[np.searchsorted(layout.bounds()[0], duration_ns, "right") - 1] = 9
        labels = {"part": "data", "operation": operation}
        encoded = hdr.Histogram(layout, counts).encode()
        return Metric("io_duration_ns", "ns", "lower", labels, hdr=encoded)

    return SimpleNamespace(
        run_id="r",
        result=SimpleNamespace(metrics=[metric(*one) for one in durations_ns.items()]),
        spec=SimpleNamespace(placement=parse_placement("ssd-both")),
        manifest=SimpleNamespace(
            tiers=[SimpleNamespace(name="ssd", facts=SimpleNamespace(readahead_bytes=None))]
        ),
        artifact=lambda _: [],
    )


def test_the_latency_of_data_is_that_of_reads_or_else_of_syncs() -> None:
    assert shape_of(run_with(read=90_000, sync=500_000), "data").operation == "read"
    of_syncs = shape_of(run_with(read=2_000, sync=500_000), "data")  # reads from the page cache
    assert of_syncs.operation == "sync" and of_syncs.points.keys() == {"sync"}
    with pytest.raises(RunFailed):
        shape_of(run_with(read=2_000), "data")


def test_parts_with_a_curve_of_their_own_stay_on_today_s_tier() -> None:
    one = ModelledPoint("data", "data_0", Path("data-0.yml"), 0.0, 0.0)
    assert parse_placement(one.placement("ssd", ("data", "wal"))).index == "data_0"
    assert parse_placement(one.placement("ssd", ("data", "index"))).index == "ssd"
