"""Persistence policies of indexes, of made-up points: which is best here, and why clwb gains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from micro_runs import duration, micro_run, operations, paper_cells, with_suite

from reports.micro.findings import Finding, findings
from reports.micro.points import devices
from reports.statistics import Missing

Metric = dict[str, Any]
VANILLA = {"discipline": "designed", "flush": "clflush", "fence": "mfence"}
MANUAL = {"discipline": "ff", "flush": "clwb", "fence": "sfence"}


def _index(measurement: str, per_s: float, policy: Mapping[str, str], **more: object) -> Metric:
    labels = {"kind": "index", "index": "level_hash", "workload": "a", **policy, **more}
    return operations(measurement, per_s, **labels)


def _line(store_ns: int, clwb_ns: int, clflush_ns: int) -> list[Metric]:
    times = {"store": store_ns, "clwb": clwb_ns, "clflush": clflush_ns}
    return [duration("flushed_line", {str(ns): 100}, before="written", written_by=by)
            for by, ns in times.items()]  # fmt: skip


def _findings(root: Path, *metrics: Metric) -> dict[str, Finding]:
    (device,) = devices([micro_run(root, list(metrics), suite="bento/fig2")])
    return {one.question: one for one in findings(device)}


def test_the_best_policy_is_that_of_the_most_operations_among_those_that_persist(tmp_path):
    manual = [(4e6, {}), (3.95e6, {"discipline": "optimized"}), (6e6, {"fence": "none"}),
              (5e6, {"flush": "none"})]  # fmt: skip
    metrics = [_index("manual", per_s, {**MANUAL, **changes}) for per_s, changes in manual]
    metrics += [_index("vanilla", 2e6, VANILLA), _index("manual", 1e6, MANUAL, workload="b")]
    a, b = _findings(tmp_path, *metrics)["Persistence policy, level_hash"].rows
    assert (a.name, a.unit, a.unsafe) == ("a", "1/s", (5e6,))
    assert a.alike == ("ff+clwb+sfence", "optimized+clwb+sfence")
    assert a.safe[-1] == ("designed+clflush+mfence", 2e6)
    assert (b.name, b.alike) == ("b", ("ff+clwb+sfence",))


@pytest.mark.parametrize(
    ("times", "outcome"),
    [
        ((30, 40, 140), "kept"),
        ((30, 300, 310), "evicted"),
        ((30, 90, 140), "unclear"),
        ((100, 101, 120), "unclear"),
    ],
)
def test_clwb_keeps_a_line_whose_load_takes_as_long_as_without_a_flush(tmp_path, times, outcome):
    (line,) = _findings(tmp_path, *_line(*times))["A line after clwb"].rows
    assert line.outcome == outcome


def _page(root: Path, *metrics: Metric) -> dict[tuple[str, ...], Any]:
    """The cells next to Figure 2's numbers, by series, metric and place."""
    run = with_suite(micro_run(root, list(metrics), suite="bento/fig2"), "bento", ["fig2"])
    cells = paper_cells(run).items()
    return {(*of.split(", ", 1), at): value for (of, at), by in cells for value in by.values()}


def test_a_gain_by_clwb_names_its_cause(tmp_path: Path) -> None:
    rates = [_index("vanilla", 2e6, VANILLA), _index("manual_mfence", 2.3e6, MANUAL)]
    row = ("level_hash manual over vanilla", "operations_ratio", "a")
    assert _page(tmp_path / "a", *rates)[row] == 1.15
    kept = _page(tmp_path / "b", *rates, *_line(30, 40, 140))
    assert kept[row] == (1.15, "clwb keeps the line")
    evicted = _page(tmp_path / "c", *rates, *_line(30, 300, 310))
    assert evicted[row] == (1.15, "clwb evicts the line")
    assert evicted[*row[:2], "b"] == Missing("not-measured")


def test_updates_of_fast_fair_insert_as_the_papers(tmp_path: Path) -> None:
    unaware = {"index": "fast_fair", "discipline": "unaware"}
    metrics = [
        _index(name, per_s, {**policy, **unaware}, workload=workload)
        for workload in ("a", "d")
        for name, per_s, policy in (("vanilla_unaware", 1e6, VANILLA),
                                    ("manual_mfence_unaware", 1.2e6, MANUAL))
    ]  # fmt: skip
    page = _page(tmp_path, *metrics)
    row = ("fast_fair manual_unaware over vanilla_unaware", "operations_ratio")
    assert page[*row, "d"] == page[*row, "a"] == 1.2
