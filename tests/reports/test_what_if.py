"""The picture of a run whose planted delay varied: points, line, predictions, ceiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_runs import Case, histogram, metric, with_artifacts, write

from harness.explain.fit import Block
from harness.explain.whatif import Calls, WhatIf
from reports.charts.what_if import whatif_fits
from reports.series import panels


def latency_ns(delay_ns: float, bend: float) -> float:
    return 800e3 + 1.5 * delay_ns + bend * delay_ns**2 / 400e3


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws fits of a made-up run; the figure and its drawing."""
    figures: list[Figure] = []
    render = Figure.savefig

    def save(figure, *given, **options):
        figures.append(figure)
        render(figure, *given, **options)

    monkeypatch.setattr(Figure, "savefig", save)

    def draw(*fits: WhatIf, runs=()):
        run = write(tmp_path, Case(metrics=[metric("whatif_slope", 1.5, part="wal")]))
        with_artifacts(run, {"whatif": {"fits": [fit.to_json() for fit in fits]}})
        (panel,) = panels([run], "placement", None)
        drawing = whatif_fits(panel, "whatif_slope", "what if", "1-what-if", runs)
        return figures[0] if figures else None, drawing

    return draw


def fit(bend: float = 0.0, floor_ns: float | None = 300e3) -> WhatIf:
    random = np.random.default_rng(2)
    blocks = [
        Block(number, level, level + 10e3, latency_ns(level + 10e3, bend) + random.normal(0, 5e3))
        for number in range(10)
        for level in (100_000, 200_000, 400_000, 800_000)
    ]
    return WhatIf("wal", "sync", blocks, Calls(5000, 200e3), 1.0, floor_ns)


def marked(axes):
    """Where predictions are, by their name in the legend."""
    return {one.get_label(): one.lines[0].get_xydata()[0] for one in axes.containers}


def test_points_line_and_ceiling_are_drawn(drawn):
    figure, drawing = drawn(fit())
    (axes,) = [axes for axes in figure.axes if axes.get_visible()]
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    # 200 us of a call add 1.5 times as much to 800 us.
    assert marked(axes)["no latency, predicted"] == pytest.approx((0, 500), rel=0.02)
    assert lines["this device"][0] == pytest.approx((200, 800), rel=0.02)
    assert any(set(points[:, 1]) == {300.0} for points in lines.values())
    assert "slope 1.50" in drawing.alt


def test_what_is_not_linear_or_below_zero_has_no_prediction(drawn):
    long = replace(fit(), calls=Calls(5000, 900e3))
    figure, _ = drawn(fit(bend=1.0), replace(fit(), labels={"query": "6"}), long)
    curved, line, below = [axes for axes in figure.axes if axes.get_visible()]
    assert "no latency, refused" in marked(below)
    assert "this device" in {one.get_label() for one in below.get_lines()}
    assert "this device" not in {one.get_label() for one in curved.get_lines()}
    assert "this device" in {one.get_label() for one in line.get_lines()}
    assert line.get_title("left") == "wal.sync of query 6"


def test_the_tiers_that_runs_have_measured_are_marked(drawn, tmp_path):
    """150 us faster calls save 1.5 times as much."""
    calls = [metric("io_duration_ns", histogram([50e3]), part="wal", operation="sync",
                    role="foreground")]  # fmt: skip
    there = [
        write(tmp_path, Case(engine=engine, placement=placement, metrics=calls))
        for engine, placement in (("postgres", "pmem-both"), ("mysql", "cxl-both"))
    ]
    figure, _ = drawn(fit(), runs=there)
    (axes,) = [axes for axes in figure.axes if axes.get_visible()]
    shown = marked(axes)
    assert shown["pmem, predicted"] == pytest.approx((50, 575), rel=0.02)
    assert not any(name.startswith("cxl") for name in shown)


def test_a_run_without_fits_has_no_picture(drawn):
    assert drawn() == (None, None)
