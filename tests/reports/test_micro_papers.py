"""A paper's numbers beside local ones: of the same statistic, of the same accesses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from micro_runs import KINDS, duration, micro_run, rate, shown, with_suite
from narrowed import present

from reports.micro.papers import paper_rows
from reports.micro.points import devices
from reports.statistics import Missing


def _rows(
    root: Path, metrics: list[dict[str, Any]], suite: str, paper: str = "", figures: str = ""
) -> SimpleNamespace:
    """The printed rows of a run of a suite that says what it repeats, or says nothing of it."""
    run = with_suite(micro_run(root, metrics, suite=suite), paper, [figures])
    found = present(paper_rows(devices([run])))
    return SimpleNamespace(head=found.head, rows=[tuple(map(shown, row)) for row in found.rows])


def _page(root: Path, metrics: list[dict[str, Any]], suite: str, paper: str, figures: str) -> Any:
    """The local values by quantity and place."""
    found = _rows(root, metrics, suite, paper, figures)
    return {(row[1], row[2]): row[-1] for row in found.rows}


def test_a_papers_mean_lies_beside_the_mean_of_each_pattern(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "access_size_bytes": 64}
    metrics = [
        duration("latency", {"100": 90, "1100": 10}, pattern="random", **labels),
        duration("latency", {"80": 90, "180": 10}, pattern="sequential", **labels),
    ]
    found = _rows(tmp_path, metrics, "table3", "nvm-for-databases", "table3")
    head = "pmem (times: mean without time stamps, others: best median of repeats)"
    assert found.head[-1] == head
    (row, *_) = (row for row in found.rows if "operation=load" in row[1])
    assert row[-1] == {"random": 200, "sequential": 90}


def test_permas_numbers_lie_beside_its_workloads(tmp_path: Path) -> None:
    """Its format has no key to say what is repeated; Figure 15 is over DIMMs, not threads."""
    labels = {**KINDS["load"], "pattern": "sequential", "access_size_bytes": 4096}
    metrics = [rate("sequential_reads", 8 * threads, 1, **labels, threads=threads)
               for threads in (1, 8)]  # fmt: skip
    found = _rows(tmp_path, metrics, "perma-bench/raw")
    measured = [(row[2], row[4]) for row in found.rows if row[0] == "perma-bench fig4a"]
    none = Missing("no-counterpart")
    assert measured[:6] == [("4096", 64)] * 3 + [("8", 64), ("16", none), ("32", none)]
    assert all(isinstance(cell, Missing) for _, cell in measured[6:])  # of two servers or tiers
    figures = {f"perma-bench {figure}" for figure in ("fig4a", "fig14", "table2")}
    assert {row[0] for row in found.rows} == figures


def test_what_a_paper_reads_off_a_curve_is_read_off_ours(tmp_path: Path) -> None:
    held = {"load": {1: 4, 8: 12, 16: 11}, "ntstore": {1: 3, 8: 2, 16: 1}, "clwb": {1: 1, 8: 4}}
    metrics = [
        rate("threads", value, 5, **KINDS[kind], threads=threads, access_size_bytes=256)
        for kind, curve in held.items() for threads, value in curve.items()
    ]  # fmt: skip
    page = _page(tmp_path, metrics, "fig4", "empirical-guide", "fig4")
    assert page["pmem, best_threads", "store+clwb"] == 8
    assert page["pmem_ni load over ntstore, bandwidth_ratio", "best"] == 4.0
    assert page["pmem_ni 8 over 1 threads, bandwidth_ratio", "ntstore"] == 0.667
    needed = Missing("needs", "a second tier in the report: a single DIMM of this host")
    assert page["pmem over pmem_ni, bandwidth_ratio", "load"] == needed


def _sizes(kind: str, curve: dict[tuple[int, int], float]) -> list[dict[str, Any]]:
    return [rate("access_size", value, 1, **KINDS[kind], pattern="random", threads=threads,
                 access_size_bytes=size) for (threads, size), value in curve.items()]  # fmt: skip


def test_a_curve_over_sizes_is_that_of_its_best_thread_count(tmp_path: Path) -> None:
    """FAST'20, Figure 5: one thread is at its best from 64 bytes on, eight from 256."""
    one = {(1, size): 3.0 for size in (64, 256, 4096, 24576, 32768)}
    eight = dict(zip([(8, size) for _, size in one], (1, 9.5, 6, 10, 9.9), strict=True))
    metrics = [*_sizes("load", one | eight), *_sizes("ntstore", one | eight)]
    page = _page(tmp_path, metrics, "fig5", "empirical-guide", "fig5")
    assert page["pmem, best_access_size", "knee"] == {"load": 256, "ntstore": 256}
    assert page["pmem, best_threads", "load"] == 8
    assert page["pmem, worst_access_size", "dip"] == {"load": 4096, "ntstore": 4096}
    assert page["pmem, peak_access_size", "peak"] == {"ntstore": [256, 24576]}


def test_a_size_stands_out_only_beyond_the_range_of_its_neighbours(tmp_path: Path) -> None:
    labels = {"pattern": "random", "threads": 1, **KINDS["ntstore"]}
    metrics = [rate("access_size", value, 3, access_size_bytes=size, **labels)
               for size, value in ((64, 5.0), (128, 5.1), (256, 5.0))]  # fmt: skip
    page = _page(tmp_path, metrics, "fig5", "empirical-guide", "fig5")
    assert page["pmem, peak_access_size", "peak"] == {"ntstore": None}


def test_objects_written_back_cross_over_as_their_accesses_do(tmp_path: Path) -> None:
    """FAST'20, Figure 14."""
    held = {"cache": {64: 100, 1024: 300, 2048: 900}, "nocache": {64: 200, 1024: 290, 2048: 500}}
    metrics = [
        duration("write_back", {str(ns): 50}, mode="dependent", chain=f"rp_{size},wp_{size}_{word}")
        for word, curve in held.items() for size, ns in curve.items()
    ]  # fmt: skip
    page = _page(tmp_path, metrics, "fig14", "empirical-guide", "fig14")
    assert page["pmem, crossover_bytes", "write-back"] == 1024


def test_far_accesses_lie_beside_no_row_that_is_not_of_far_ones(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "pattern": "sequential", "access_size_bytes": 256}
    metrics = [rate("threads", 9, 1, **labels, numa="far"), rate("threads", 4, 1, **labels)]
    found = _rows(tmp_path, metrics, "sec5-4", "empirical-guide", "fig4")
    (row,) = (row for row in found.rows if "[operation=load" in row[1])
    assert row[-1] == 4  # 4 GB/s


def test_where_ntstore_leads_is_read_off_the_sizes(tmp_path: Path) -> None:
    held = {"ntstore": {64: 1, 256: 5, 512: 6}, "clwb": {64: 2, 256: 4, 512: 4}}
    metrics = [
        rate("persist_size", value, 5, **KINDS[kind], threads=6, access_size_bytes=size)
        for kind, curve in held.items() for size, value in curve.items()
    ]  # fmt: skip
    page = _page(tmp_path, metrics, "fig12", "empirical-guide", "fig12")
    assert page["pmem, crossover_bytes", "bandwidth"] == 256
    assert page["pmem, crossover_bytes", "latency"] == Missing("no-counterpart")


def test_the_sizes_of_figure_13_are_of_its_own_sweep(tmp_path: Path) -> None:
    held = {"line": {64: 1, 256: 3, 4096: 2.5}, "write": {64: 1.2, 256: 3.5, 4096: 2}}
    metrics = [
        rate("fence_interval", value, 3, **KINDS["clwb"], flush_when=when, access_size_bytes=size)
        for when, curve in held.items() for size, value in curve.items()
    ]  # fmt: skip
    metrics += [rate("access_size", size / 64, 5, **KINDS["load"], access_size_bytes=size)
                for size in (64, 128, 256, 512, 1024, 2048)]  # fmt: skip
    found = _rows(tmp_path, metrics, "empirical-guide", "empirical-guide", "fig13")
    page = {row[1]: row[-1] for row in found.rows}
    assert page["pmem_ni, best_access_size"] == {"store+clwb": 256}
    assert page["pmem_ni, worst_access_size"] == {"store+clwb": 4096}


def test_the_bandwidths_of_figure_4_are_of_its_own_accesses(tmp_path: Path) -> None:
    metrics = [
        rate("threads", 4, 5, **KINDS["load"], pattern="sequential", access_size_bytes=256),
        rate("access_size", 9, 5, **KINDS["load"], pattern="random", access_size_bytes=1 << 20),
    ]
    found = _rows(tmp_path, metrics, "empirical-guide", "empirical-guide", "fig4")
    (row,) = (row for row in found.rows if "[operation=load" in row[1])
    assert row[-1] == 4.1
