"""Response curves: what they say, from points that are known."""

from __future__ import annotations

import pytest

from reports.response import PointOfCurve, Value, at_latency, curve_of
from reports.values import Summary


def point(latency_us: float, throughput: float) -> PointOfCurve:
    value = Value(throughput, None, None)
    summary = Summary(1, throughput, throughput, throughput)
    return PointOfCurve(latency_us * 1000, value, summary, ())


POINTS = [point(0, 1050), point(10, 1010), point(20, 990), point(100, 500)]


@pytest.mark.parametrize(
    ("points", "at_us"),
    [
        (POINTS, 15),  # 1000 is 5 % below the best
        ([point(0, 100), point(10, 100)], 10),  # no faster device gains
        ([point(0, 1000), point(10, 100)], pytest.approx(0.53, abs=0.01)),
    ],
)
def test_the_point_of_diminishing_returns(points: list[PointOfCurve], at_us: float) -> None:
    curve = curve_of("wal", "sync", "1/s", points, point(100, 500), {})
    assert curve.diminishing_at_ns is not None
    assert curve.diminishing_at_ns / 1000 == at_us


def test_known_models_are_marked_within_the_curve_only() -> None:
    curve = curve_of("wal", "sync", "1/s", POINTS, point(100, 500), {"a": 60_000, "b": 200_000})
    assert curve.models == {"a": (60_000, 745.0)}
    assert at_latency(POINTS, 5_000) == 1030
    assert curve.ceiling == pytest.approx(2.1)
    assert curve.to_json()["points"][0] == {
        "latency_ns": 0,
        "throughput": {"value": 1050, "low": None, "high": None},
        "runs": [],
    }
