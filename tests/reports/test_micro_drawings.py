"""Curves whose names are long: the legend takes no room of the axes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from micro_runs import micro_run, rate
from narrowed import present

from reports.charts.curves import Curve, Plot, draw
from reports.micro.figures import measurements
from reports.micro.points import devices
from reports.sections import Drawing
from reports.values import Summary

pytestmark = pytest.mark.draws

#: As PerMA-Bench's updates of a tree: 132 letters without a space.
_CHAIN = ",".join(["rp_1024"] * 3 + ["wp_64_cache_576"] + ["wp_64_cache_-64"] * 7)
_SCAN = ",".join(["rp_256"] * 11)


def _plot(*names: str) -> Plot:
    points = tuple((x, Summary(3, x, x, x)) for x in (65536.0, 67108864.0))
    return Plot("one", "range", "bytes", "bandwidth", "B/s", tuple(Curve(n, points) for n in names))


def _height(drawing: Drawing) -> float:
    found = re.search(r'<svg [^>]*height="([\d.]+)pt"', drawing.svg)
    assert found
    return float(found[1])


@pytest.mark.parametrize("plots", [1, 2, 4])
def test_long_names_collapse_no_axes(plots: int) -> None:
    long = _plot(*(f"{chain}, threads {n}" for chain in (_SCAN, _CHAIN) for n in (1, 2, 4, 8)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw("d", "tree index update", [long] * plots)
        short = draw("d", "tree index update", [_plot("a", "b")] * plots)
    assert _height(drawn) > _height(short)


def test_every_part_of_a_long_name_stands_in_the_legend(tmp_path: Path) -> None:
    metrics = [
        rate("tree_index_update", 3.0, chain=chain, threads=threads, range_bytes=size)
        for chain in (_CHAIN, _SCAN) for threads in (1, 2) for size in (65536, 67108864, 1 << 30)
    ]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, metrics)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (table,) = measurements(device, "d")
    written = "".join(re.findall(r"<text [^>]*>([^<]*)</text>", present(table.drawing).svg))
    assert written.count("wp_64_cache_-64") == 2 * 7
    assert written.count("rp_256") == 2 * 11


def test_of_too_many_lines_each_is_drawn_at_its_best_thread_count(tmp_path: Path) -> None:
    """As FAST'20's Figure 5; the table has all of them."""
    metrics = [
        rate("access_size", value * threads % 13 + 1, 1, pattern="random", operation=operation,
             threads=threads, access_size_bytes=size)
        for operation, value in (("load", 1), ("ntstore", 5))
        for threads in (1, 2, 4, 8, 12) for size in (64, 128, 256, 512, 1024, 4096)
    ]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, metrics)])
    (table,) = measurements(device, "d")
    assert table.drawing is not None and len(table.rows) == 60
    names = re.findall(r">(\w+, threads \d+)<", table.drawing.svg)
    assert names == ["load, threads 12", "ntstore, threads 2"]  # 12 + 1 and 10 + 1 of 13


def test_short_names_stand_in_two_columns() -> None:
    one, two = draw("d", "t", [_plot("x" * 40, "b")]), draw("d", "t", [_plot("a", "b")])
    assert _height(one) > _height(two)
