"""Models of devices, their scores, and response curves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from harness import hdr, paths
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import parse_placement
from harness.models import durations
from harness.models.curve import LatencyShape, ModelledPoint, marks, shape_of
from harness.models.device import DeviceModel, SizePoint
from harness.models.device_document import MeasuredTier
from harness.models.model_file import as_yaml, find_model, known_models, load_model
from harness.models.score import Pair, Score, ScoredMetric, ScoredQuantity, ScoreStore, summary
from harness.store.result import Metric
from reports.model_error import score_metrics
from reports.response import (
    ResponseCurve,
    Throughput,
    at_latencies,
    curve_of,
    family,
    first_parts,
    rising,
)

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
        ("parallel: 4", "parallel: 4\ndirections: both", 9),
        ("{mean: 20us}", "{mean: 20us, rate: 5MB}", 11),
        ("burst: {read: 20MB}", "burst: {write: 20MB}\nwrite_buffer: " + BUFFER, 14),
        ("\nread:", "\nreads:", 10),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(tmp_path, before, after, line):
    with pytest.raises(UsageError, match=f"disk.yml:{line}"):
        load_model(written(tmp_path, WHOLE.replace(before, after, 1)))


def test_directions_are_shared_unless_a_model_states_otherwise(tmp_path):
    shared = load_model(written(tmp_path, WHOLE))
    separate = load_model(written(tmp_path, WHOLE + "directions: separate\n"))
    assert (shared.directions, separate.directions) == ("shared", "separate")
    assert shared.digest != separate.digest
    assert load_model(written(tmp_path, as_yaml(separate))).directions == "separate"


def test_what_a_model_does_not_state_is_missing_and_not_estimated() -> None:
    one_size = {"sync": (SizePoint(8192, durations.constant(700_000)),)}
    log = DeviceModel("log", "", "published", points=one_size)
    assert len(log.missing("wal")) == 1  # of other sizes
    assert replace(log, bandwidth={"write": 1}).missing("wal") == []
    assert log.missing("data")[0] == "reads"


@pytest.mark.parametrize("name", ["zero", "latency:0us", "latency:20us"])
def test_a_constant_latency_is_a_model_of_every_size(name: str) -> None:
    model = find_model(name)
    assert not model.gaps() and model.instant == (name != "latency:20us")
    if not model.instant:
        in_points = {p.durations for points in model.points.values() for p in points}
        assert in_points == {durations.constant(20_000)}


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


def block(number: int, tier: float, model: float) -> Pair:
    """Operations per second on the tier, and on its model."""
    measured = (ScoredQuantity("throughput", tier, model),)
    return Pair((f"tier-{number}", f"model-{number}"), 1, measured)


def score(ratio: float, case: str = "tpcc postgres", host: str = "here") -> Score:
    metric = ScoredMetric("throughput", ratio, ratio * 0.95, ratio * 1.05)
    pairs = (block(0, 100, 100 * ratio),)
    return Score(host, "disk", "d", "ssd", "postgres", "tpcc", case, 1, pairs, (metric,))


def test_scores_of_a_case_are_found_again_to_be_added_to(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    assert scores.earlier(score(0.5)) is None
    for scored in (score(0.5), score(1.1, "tpcc postgres users=4")):
        scores.write(scored)
    earlier = scores.earlier(score(0.9))
    assert earlier is not None and earlier.blocks == score(0.5).blocks
    assert scores.earlier(msgspec.structs.replace(score(0.9), digest="another model")) is None


def test_an_unreadable_score_is_left_out(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    scores.write(score(0.9))
    (scores.folder / "x.json").write_text("{")
    assert len(scores.all()) == 1


def test_the_ratio_of_all_blocks_has_an_interval_that_may_contradict_the_model() -> None:
    blocks = [block(n, 100 + n / 10, 200 + n / 5) for n in range(6)]
    (metric,) = score_metrics(blocks)
    assert metric.ratio == pytest.approx(2) and metric.contradicted


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
    assert summary([score(0.9, host="there")], "here").startswith("not scored")
    assert "1 of 2" in summary([score(1.05), score(1.3)], "here")


# Response curves ------------------------------------------------------------------


def rates(*values: float) -> Throughput:
    """Throughput by block."""
    return Throughput("1/s", dict(enumerate(values)))


def curve(*points: tuple[float, float], models: dict[str, float] | None = None) -> ResponseCurve:
    """Make a curve of latencies in us and throughput in one block; today's device takes 100 us."""
    steps = [(latency_us * 1000, rates(value)) for latency_us, value in points]
    made = curve_of("wal", "sync", steps, rates(500), {0: 100_000}, models or {})
    assert made is not None
    return made


POINTS = ((0, 1050), (10, 1010), (20, 990), (100, 500))


@pytest.mark.parametrize(
    ("points", "at_us"),
    [
        (POINTS, 14.95),  # 1000 is 5 % below the best, and times are linear between points
        (((0, 100), (10, 100)), 10),  # no faster device gains
        (((0, 1000), (10, 100)), 0.056),
        (((0, 1000), (10, 900), (20, 1125), (30, 100)), 20.056),
    ],
)
def test_the_point_of_diminishing_returns(points, at_us: float) -> None:
    assert curve(*points).diminishing_at_ns.value / 1000 == pytest.approx(at_us, abs=0.01)


def test_the_point_of_diminishing_returns_has_an_interval_of_its_blocks() -> None:
    """In half of the blocks a latency of 10 us costs 5 %, in the others one of 40 us."""
    steps = [(0.0, rates(*[100] * 8)), (80_000.0, rates(*[1 / 0.014, 1 / 0.011] * 4))]
    made = curve_of("wal", "sync", steps, rates(*[50] * 8), dict.fromkeys(range(8), 9e4), {})
    assert made is not None
    at_ns = made.diminishing_at_ns
    assert at_ns.low is not None and at_ns.high is not None
    assert 10_000 <= at_ns.low < at_ns.value < at_ns.high <= 40_000
    assert made.to_json()["diminishing_at_ns"]["low"] == at_ns.low


def test_a_curve_rises_as_scipys() -> None:
    # Imported here: every worker collects this file, and an example has a time limit.
    isotonic_regression = scipy.optimize.isotonic_regression

    @given(st.lists(st.floats(1, 1e6), min_size=1, max_size=8))
    def rises(values: list[float]) -> None:
        assert rising(values) == pytest.approx(isotonic_regression(values).x)

    rises()


def test_known_models_are_marked_within_the_curve_only() -> None:
    drawn = curve(*POINTS, models={"a": 60_000, "b": 200_000})
    assert drawn.models.keys() == {"a"}
    assert drawn.models["a"] == pytest.approx((60_000, 2 / (1 / 990 + 1 / 500)))
    assert drawn.ceiling.value == pytest.approx(2.1)
    assert drawn.at_today.value == pytest.approx(1.0)
    document = drawn.to_json()
    assert document["points"][0]["gain"] == document["ceiling"]
    assert document["points"][0]["throughput"]["value"] == pytest.approx(1050)
    assert [model["name"] for model in document["models"]] == ["a"]


def test_gains_are_of_the_blocks_that_both_have() -> None:
    today = Throughput("1/s", {0: 100.0, 1: 200.0}, ())
    point = Throughput("1/s", {1: 300.0, 2: 999.0}, ("run",)).point(5, today)
    assert point is not None and point.gain.value == pytest.approx(1.5)
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


def test_the_part_to_move_first_gains_most_in_a_family_of_all_parts() -> None:
    def of_part(part: str, *fastest: float) -> ResponseCurve:
        steps = [(0.0, rates(*fastest)), (9.0, rates(*[50] * 7))]
        made = curve_of(part, "sync", steps, rates(*[100] * 7), dict.fromkeys(range(7), 9), {})
        assert made is not None
        return made

    wal = of_part("wal", 300, 310, 290, 305, 295, 302, 298)
    data = of_part("data", 150, 155, 145, 152, 148, 151, 149)
    assert [made.part for made in first_parts([data, wal])] == ["wal"]
    close = of_part("data", 290, 315, 285, 300, 299, 300, 299)
    assert [made.part for made in first_parts([close, wal])] == ["wal", "data"]
    alone, *_ = family([wal])
    assert alone.verdict == "faster"
    small = of_part("temp", 101, 102, 103, 101, 102, 103, 101)
    decided = family([wal, data, small, close])
    assert {made.ceiling.decision.family for made in decided if made.ceiling.decision} == {4}
    # Seven blocks show a gain of one part, and not of each of four.
    assert (family([small])[0].verdict, decided[2].verdict) == ("faster", "no difference")


def run_with(cached: int = 0, **durations_ns: Sequence[int]) -> Any:
    """A run whose calls of the data took these times; of 5 probed reads, so many were cached."""
    layout = hdr.Layout(1, 10**9, 2)

    def metric(operation: str, durations_ns: Sequence[int]) -> Metric:
        counts = np.zeros(layout.counters, dtype=np.int64)
        bins = np.searchsorted(layout.bounds()[0], durations_ns, "right") - 1
        np.add.at(counts, bins, 1)
        labels = {"part": "data", "operation": operation}
        encoded = hdr.Histogram(layout, counts).encode()
        return Metric("io_duration_ns", "ns", "lower", labels, hdr=encoded)

    return SimpleNamespace(
        run_id="r",
        result=SimpleNamespace(metrics=[metric(*pair) for pair in durations_ns.items()]),
        spec=SimpleNamespace(placement=parse_placement("ssd-both")),
        manifest=SimpleNamespace(
            tiers=[SimpleNamespace(name="ssd", facts=SimpleNamespace(readahead_bytes=None))]
        ),
        artifact=lambda _: [
            {"part": "data", "operation": operation, "calls": len(of_operation),
             "bytes": 0, "dirtied_bytes": 0, "cached": cached, "probed": 5}
            for operation, of_operation in durations_ns.items()
        ],
    )  # fmt: skip


def test_the_latency_of_data_is_that_of_reads_or_else_of_syncs() -> None:
    syncs = [500_000] * 9
    assert shape_of(run_with(read=[90_000], sync=syncs), "data").operation == "read"
    of_syncs = shape_of(run_with(cached=5, read=[2_000], sync=syncs), "data")
    assert of_syncs.operation == "sync" and of_syncs.points.keys() == {"sync"}
    with pytest.raises(RunFailed):
        shape_of(run_with(cached=5, read=[2_000]), "data")


def test_the_shortest_reads_are_those_that_the_page_cache_served() -> None:
    """Two of five that were probed, however fast the device is."""
    reads = [3_000] * 40 + [4_000] * 60
    point = shape_of(run_with(cached=2, read=reads), "data").points["read"]
    assert point.durations.quantiles[0] == pytest.approx(4_000, rel=0.02)


def test_known_models_lie_at_the_ratio_of_both_devices_alone(tmp_path, monkeypatch) -> None:
    """Syncs of 8 KiB took 1.2 ms in the engine, 0.6 on today's device alone and 0.06 on another."""
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    text = WHOLE.replace("{8KiB: {mean: 700us}, 16KiB: {mean: 760us}}", "{8KiB: {mean: SYNC}}")
    (tmp_path / "devices").mkdir()
    for name, sync, extra in (
        ("today", "600us", "made_of: {tier: ssd, host_id: here}"),
        ("new", "60us", ""),
        ("partial", "1us", ""),
    ):
        document = text.replace("SYNC", sync).replace("name: disk", f"name: {name}") + extra
        if name == "partial":
            document = document.replace("sync:", "grown_sync:")
        (tmp_path / "devices" / f"{name}.yml").write_text(document)
    point = SizePoint(8192, durations.constant(1_200_000))
    shape = LatencyShape("wal", "sync", {"sync": point}, 1_200_000, 131_072)
    latencies = marks(shape, MeasuredTier("ssd", "here"))
    assert latencies["today"] == pytest.approx(1_200_000)
    assert latencies["new"] == pytest.approx(120_000)
    assert "partial" not in latencies
    assert marks(shape, MeasuredTier("ssd", "elsewhere")) == {}


def test_parts_with_a_curve_of_their_own_stay_on_today_s_tier() -> None:
    point = ModelledPoint("data", "data_0", Path("data-0.yml"), 0.0, 0.0)
    assert parse_placement(point.placement("ssd", ("data", "wal"))).index == "data_0"
    assert parse_placement(point.placement("ssd", ("data", "index"))).index == "ssd"
