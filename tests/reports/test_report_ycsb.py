"""What a report says of YCSB: rates over threads by core workload, one process, its updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from narrowed import of_kind
from report_runs import EMULATED, PLACES, Case, driven, lognormal, metric, write

from harness.store.runs import StoredRun
from reports.published import (
    PublishedPoint,
    PublishedSeries,
    published_points,
)
from reports.report import Report
from reports.sections import Paragraph, Table, plain
from reports.series import compared_dimension, panels
from reports.sweeps import side_by_side, sweeps
from reports.tables import PanelTables, window_titles
from reports.values import Quantity

MIXES = {"a": ("read", "update"), "c": ("read",)}


def metrics(core: str, per_second: float, inside: bool) -> list[dict[str, Any]]:
    kinds = MIXES[core]
    spent = ("process",) if inside else ("client", "server")
    return [
        metric("operations_per_second", per_second, "higher"),
        *(metric("operation_duration_ns", lognormal(1e9 / per_second * place, 7, count=2000),
                 "lower", operation=kind) for place, kind in enumerate(kinds, 1)),
        *(metric("operation_count", 500, operation=kind) for kind in kinds),
        *(metric(f"{side}_cpu_per_operation_ns", 900, "lower") for side in spent),
        metric("window_rocksdb_block_cache_hit_count", 700 * len(kinds)),
        metric("window_rocksdb_stall_ns", 0),
        metric("window_cpu_ns", 0),
    ]  # fmt: skip


def ycsb(
    root: Path, core: str = "a", threads: int = 8, placement: str = "ssd-both", gain: float = 1.0,
    driver: str = "loadgen", block: int = 0, inside: bool = True, mode: str = "Default",
    **params: Any,
) -> StoredRun:  # fmt: skip
    """A finished run of one core workload; so many threads have so many times the rate."""
    given = {"workload": core, "records": 1_000_000, "threads": threads, "rate": None,
             "requestdistribution": "zipfian", "update": "blind",
             "client_threads": threads}  # fmt: skip
    return write(root, Case(
        "rocksdb" if inside else "postgres", placement, block, queries=(),
        emulated=EMULATED if placement.startswith("pmem") else (),
        metrics=metrics(core, 10_000 * threads * gain, inside),
        run_changes={"host_mode": mode},
        spec_changes=driven("ycsb", **given | params) | {"driver": driver},
    ))  # fmt: skip


@pytest.fixture(scope="module")
def sweep_runs(undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    """Of which a report can be written."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        ycsb(folder, core, threads, placement, gain)
        for core in MIXES
        for threads in (8, 48)
        for placement, gain in zip(PLACES, (1.0, 2.0), strict=True)
    ]
    assert Report(runs).write(folder / "report").figures
    return runs


def test_rates_and_times_over_threads_have_a_place_for_each_core_workload(sweep_runs):
    """VLDB 2023, Fig. 11 and 12: rate, time of a read, time of an update; one line a placement."""
    found = side_by_side(sweeps(panels(sweep_runs, "placement", None)))
    shown = {one[0].measure: [sweep.place_name for sweep in one] for one in found}
    both, alone = ["core workload a", "core workload c"], ["core workload a"]
    assert shown == {"operations per second": both} | {
        f"time of an operation: {kind}, {what}": places
        for kind, places in (("read", both), ("update", alone))
        for what in ("percentile 50", "percentile 99", "mean")
    }
    for sweep in found[0]:
        assert [line.marked_name for line in sweep.lines] == ["ssd-both", "pmem-both (EMULATED)"]
        assert sweep.values == (8, 48)
        assert sweep.lines[1].points[48].median == 960_000
        assert (sweep.at(1), sweep.at(48)) == ("1 client thread", "48 client threads")


def test_what_the_window_counted_is_shown_for_each_operation(tmp_path: Path) -> None:
    made = [ycsb(tmp_path, placement=place) for place in PLACES]
    window, still, *_ = PanelTables(Report(made).panels[0]).counters
    window = of_kind(Table, window)
    at = window.head.index("each operation, ssd-both")
    each = {row[0]: row[at] for row in window.rows}
    assert each["rocksdb block cache hit"] == "1.40"  # of 500 reads and 500 updates
    assert "rocksdb stall" not in each and "1 counter" in plain(of_kind(Paragraph, still).text)
    # Nothing was counted in ticks of 10 ms: that is no processor time of 0.
    medians = {row[0]: row[1] for row in window.rows}
    assert (medians["processor time"], each["processor time"]) == ("< 10 ms", "–")
    names = ("window_rocksdb_read_bytes", "window_rocksdb_read_count", "window_cpu_ns")
    assert window_titles([Quantity(name) for name in names]) == [
        "rocksdb read (bytes)", "rocksdb read (count)", "processor time",
    ]  # fmt: skip


def test_drivers_of_the_same_load_are_compared_without_a_verdict_on_tiers(tmp_path):
    made = [
        ycsb(tmp_path, placement=place, driver=driver, gain=gain, block=block)
        for block in (0, 1)
        for place in PLACES
        for driver, gain in (("loadgen", 2.0), ("ycsb", 1.0))
    ]
    view = Report(made)
    assert sorted("pmem-both" in one.where for one in view.agreements) == [False, True]
    assert [one.ratio for one in view.agreements] == pytest.approx([0.5, 0.5])
    for one in view.agreements:
        names = (one.group.a.name, one.group.b.name, one.row.quantity.name)
        assert names == ("loadgen", "ycsb", "operations_per_second")
        assert [spread.rows for spread in one.spreads] == [8]
    over = Report(made, over="driver")
    assert len(over.agreements) == 2 and over.answers == []


def test_a_papers_points_find_the_place_that_they_name(sweep_runs: list[StoredRun]) -> None:
    (found,) = [one for one in side_by_side(sweeps(panels(sweep_runs, "placement", None)))
                if one[0].metric == "operations_per_second"]  # fmt: skip
    series = [
        PublishedSeries("fig11", "rocksdb", arm, "1/s", (PublishedPoint("48", 2e5, 1e4),),
                        "operations_per_second")
        for arm in ("pmem-both,workload=a", "pmem-both")
    ]  # fmt: skip
    assert [line.name for line, _ in published_points(found[0], series)] == ["pmem-both"]
    assert list(published_points(found[1], series)) == []  # workload c; no workload is no place


def test_what_varies_between_workloads_alone_is_not_compared(tmp_path: Path) -> None:
    queries = write(tmp_path, Case(engine="rocksdb"))
    assert compared_dimension([ycsb(tmp_path), queries]) == "placement"
    cached = ycsb(tmp_path, cache="warm"), ycsb(tmp_path, cache="cold-per-run")
    assert compared_dimension([*cached, queries]) == "cache"


def test_lines_of_one_placement_in_two_host_modes_are_distinguished(tmp_path: Path) -> None:
    """VLDB 2023, Fig. 11: Default and Memory mode are both on the SSD."""
    made = [ycsb(tmp_path, threads=n, mode=mode) for mode in ("Default", "Memory") for n in (8, 48)]
    (first, *_) = sweeps(panels(made, "placement", None))
    names = {f"ssd-both, host mode {mode}" for mode in ("Default", "Memory")}
    assert {line.name for line in first.lines} == names
