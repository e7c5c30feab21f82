"""Models of devices: what files state, what is missing, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import paths
from harness.errors import UsageError
from harness.models.curve import Score, ScoredMetric, ScoreStore, summary
from harness.models.device import (
    PROBABILITIES,
    DeviceModel,
    Point,
    find_model,
    known_models,
    load_model,
    quantile_ns,
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
read: {4KiB: {p50: 90us, p99: 200us}}
write: {4KiB: {mean: 20us}}
sync: {8KiB: {mean: 700us}, 16KiB: {mean: 760us}}
burst: {read: 20MB}
"""


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
        ("{p50: 90us, p99: 200us}", "{source: nowhere}", 10),
        ("{mean: 20us}", "{mean: 20}", 11),
        ("basis: measured", "basis: guessed", 5),
        ("1GB/s", "1G/s", 9),
        ("\nread:", "\nreads:", 10),
    ],
)
def test_a_wrong_value_is_refused_with_its_line(tmp_path, before, after, line):
    with pytest.raises(UsageError, match=f"disk.yml:{line}"):
        load_model(written(tmp_path, WHOLE.replace(before, after, 1)))


def test_what_a_model_does_not_state_is_missing_and_not_estimated() -> None:
    one_size = {"sync": (Point(8192, ((50.0, 700_000),)),)}
    log = DeviceModel("log", "", "published", points=one_size)
    assert len(log.missing("wal")) == 1  # of other sizes
    assert replace(log, bandwidth={"write": 1}).missing("wal") == []
    assert log.missing("data")[0] == "reads"


@pytest.mark.parametrize("name", ["zero", "latency:0us", "latency:20us"])
def test_a_constant_latency_is_a_model_of_every_size(name: str) -> None:
    model = find_model(name)
    assert not model.gaps() and model.instant == (name != "latency:20us")
    if not model.instant:
        quantiles = {p.quantiles for points in model.points.values() for p in points}
        assert quantiles == {((50.0, 20_000),)}


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


def test_quantiles_are_linear_between_stated_ones_and_constant_outside() -> None:
    point = Point(4096, ((10.0, 100), (90.0, 900)))
    assert [quantile_ns(point, p) for p in (0, 10, 50, 90, 100)] == [100, 100, 500, 900, 900]
    assert list(PROBABILITIES) == sorted(PROBABILITIES)


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
