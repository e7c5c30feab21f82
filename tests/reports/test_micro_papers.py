"""A paper's numbers beside local ones: of the same statistic, of the same accesses."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from figures import figures_of
from micro_runs import (
    KINDS,
    cells,
    curves,
    duration,
    micro_run,
    numa_tier,
    operations,
    rate,
    shown,
    tier_facts,
    with_suite,
)
from narrowed import present
from report_runs import with_artifacts

from harness.store.runs import StoredRun
from reports.micro.as_published import paper_rows
from reports.micro.card_lines import Finding
from reports.micro.devices import devices
from reports.micro.preferences import findings
from reports.statistics import Missing


def _rows(
    root: Path, metrics: list[dict[str, Any]], suite: str, paper: str = "", figures: str = ""
) -> SimpleNamespace:
    """The printed rows of a run of a suite that says what it repeats, or says nothing of it."""
    run = with_suite(micro_run(root, metrics, suite=suite), paper, [figures])
    printed = present(paper_rows(devices([run])))
    return SimpleNamespace(head=printed.head, rows=[tuple(map(shown, row)) for row in printed.rows])


def _page(root: Path, metrics: list[dict[str, Any]], suite: str, paper: str, figures: str) -> Any:
    """The local values by quantity and place."""
    table = _rows(root, metrics, suite, paper, figures)
    return {(row[1], row[2]): row[-1] for row in table.rows}


def test_a_papers_mean_lies_beside_the_mean_of_each_pattern(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "access_size_bytes": 64}
    metrics = [
        duration("latency", {"100": 90, "1100": 10}, pattern="random", **labels),
        duration("latency", {"80": 90, "180": 10}, pattern="sequential", **labels),
    ]
    table = _rows(tmp_path, metrics, "table3", "nvm-for-databases", "table3")
    head = "pmem (times: mean without time stamps, others: best median of repeats)"
    assert table.head[-1] == head
    (row, *_) = (row for row in table.rows if "operation=load" in row[1])
    assert row[-1] == {"random": 200, "sequential": 90}


def test_permas_numbers_lie_beside_its_workloads(tmp_path: Path) -> None:
    """Its format has no key to say what is repeated; Figure 15 is over DIMMs, not threads."""
    labels: dict[str, Any] = {"pattern": "sequential", "access_size_bytes": 4096}
    metrics = curves("sequential_reads", {"load": {1: 8, 8: 64}}, "threads", **labels)
    table = _rows(tmp_path, metrics, "perma-bench/raw")
    measured = [(row[2], row[4]) for row in table.rows if row[0] == "perma-bench fig4a"]
    none = Missing("no-counterpart")
    assert measured[:6] == [("4096", 64)] * 3 + [("8", 64), ("16", none), ("32", none)]
    assert all(isinstance(cell, Missing) for _, cell in measured[6:])  # of two servers or tiers
    figures = {f"perma-bench {figure}" for figure in ("fig4a", "fig14", "table2")}
    assert {row[0] for row in table.rows} == figures


def test_what_a_paper_reads_off_a_curve_is_read_off_ours(tmp_path: Path) -> None:
    bandwidths = {
        "load": {1: 4, 8: 12, 16: 11},
        "ntstore": {1: 3, 8: 2, 16: 1},
        "clwb": {1: 1, 8: 4},
    }
    metrics = curves("threads", bandwidths, "threads", 5, access_size_bytes=256)
    page = _page(tmp_path, metrics, "fig4", "empirical-guide", "fig4")
    assert page["pmem, best_threads", "store+clwb"] == 8
    assert page["pmem_ni load over ntstore, bandwidth_ratio", "best"] == 4.0
    assert page["pmem_ni 8 over 1 threads, bandwidth_ratio", "ntstore"] == 0.667
    needed = Missing("needs", "a tier with dimms 1, here: none")
    assert page["pmem over pmem_ni, bandwidth_ratio", "load"] == needed


def _sizes(curve: Mapping[int, float], threads: int) -> list[dict[str, Any]]:
    kinds = {"load": curve, "ntstore": curve}
    return curves("access_size", kinds, "access_size_bytes", pattern="random", threads=threads)


def test_a_curve_over_sizes_is_that_of_its_best_thread_count(tmp_path: Path) -> None:
    """FAST'20, Figure 5: one thread is at its best from 64 bytes on, eight from 256."""
    eight = {64: 1, 256: 9.5, 4096: 6, 24576: 10, 32768: 9.9}
    metrics = _sizes(dict.fromkeys(eight, 3.0), 1) + _sizes(eight, 8)
    page = _page(tmp_path, metrics, "fig5", "empirical-guide", "fig5")
    assert page["pmem, best_access_size", "knee"] == {"load": 256, "ntstore": 256}
    assert page["pmem, best_threads", "load"] == 8
    assert page["pmem, worst_access_size", "dip"] == {"load": 4096, "ntstore": 4096}
    assert page["pmem, peak_access_size", "peak"] == {"ntstore": [256, 24576]}


def test_a_size_stands_out_only_beyond_the_range_of_its_neighbours(tmp_path: Path) -> None:
    sizes = {"ntstore": {64: 5.0, 128: 5.1, 256: 5.0}}
    labels: dict[str, Any] = {"pattern": "random", "threads": 1}
    metrics = curves("access_size", sizes, "access_size_bytes", 3, **labels)
    page = _page(tmp_path, metrics, "fig5", "empirical-guide", "fig5")
    assert page["pmem, peak_access_size", "peak"] == {"ntstore": None}


def test_objects_written_back_cross_over_as_their_accesses_do(tmp_path: Path) -> None:
    """FAST'20, Figure 14."""
    latencies_ns = {
        "cache": {64: 100, 1024: 300, 2048: 900},
        "nocache": {64: 200, 1024: 290, 2048: 500},
    }
    metrics = [
        duration("write_back", {str(ns): 50}, mode="dependent", chain=f"rp_{size},wp_{size}_{word}")
        for word, curve in latencies_ns.items() for size, ns in curve.items()
    ]  # fmt: skip
    page = _page(tmp_path, metrics, "fig14", "empirical-guide", "fig14")
    assert page["pmem, crossover_bytes", "write-back"] == 1024


def test_far_accesses_lie_beside_no_row_that_is_not_of_far_ones(tmp_path: Path) -> None:
    labels = {**KINDS["load"], "pattern": "sequential", "access_size_bytes": 256}
    metrics = [rate("threads", 9, 1, **labels, numa="far"), rate("threads", 4, 1, **labels)]
    table = _rows(tmp_path, metrics, "sec5-4", "empirical-guide", "fig4")
    (row,) = (row for row in table.rows if "[operation=load" in row[1])
    assert row[-1] == 4  # 4 GB/s


def test_where_ntstore_leads_is_read_off_the_sizes(tmp_path: Path) -> None:
    bandwidths = {"ntstore": {64: 1, 256: 5, 512: 6}, "clwb": {64: 2, 256: 4, 512: 4}}
    metrics = curves("persist_size", bandwidths, "access_size_bytes", 5, threads=6)
    page = _page(tmp_path, metrics, "fig12", "empirical-guide", "fig12")
    assert page["pmem, crossover_bytes", "bandwidth"] == 256
    assert page["pmem, crossover_bytes", "latency"] == Missing("no-counterpart")


def test_the_sizes_of_figure_13_are_of_its_own_sweep(tmp_path: Path) -> None:
    bandwidths = {"line": {64: 1, 256: 3, 4096: 2.5}, "write": {64: 1.2, 256: 3.5, 4096: 2}}
    metrics = []
    for when, curve in bandwidths.items():
        by_size = ("fence_interval", {"clwb": curve}, "access_size_bytes")
        metrics += curves(*by_size, 3, flush_when=when)
    others = {64: 1, 128: 2, 256: 4, 512: 8, 1024: 16, 2048: 32}
    metrics += curves("access_size", {"load": others}, "access_size_bytes", 5)
    table = _rows(tmp_path, metrics, "empirical-guide", "empirical-guide", "fig13")
    page = {row[1]: row[-1] for row in table.rows}
    assert page["pmem_ni, best_access_size"] == {"store+clwb": 256}
    assert page["pmem_ni, worst_access_size"] == {"store+clwb": 4096}


def test_the_bandwidths_of_figure_4_are_of_its_own_accesses(tmp_path: Path) -> None:
    metrics = [
        rate("threads", 4, 5, **KINDS["load"], pattern="sequential", access_size_bytes=256),
        rate("access_size", 9, 5, **KINDS["load"], pattern="random", access_size_bytes=1 << 20),
    ]
    table = _rows(tmp_path, metrics, "empirical-guide", "empirical-guide", "fig4")
    (row,) = (row for row in table.rows if "[operation=load" in row[1])
    assert row[-1] == 4.1


# Ratios of a tier in two states ---------------------------------------------------


ARM = "apache_256 enabled over disabled, slower_access_size"
OTHER_SIDE = Missing("other-side", "the other side")


def reads(root: Path, state: str, by_size: Mapping[int, float], **manifest: Any) -> StoredRun:
    """Random reads of Figure 13 with the prefetchers in a state."""
    labels: dict[str, Any] = {"pattern": "random", "threads": 16}
    metrics = curves("prefetched_reads", {"load": by_size}, "access_size_bytes", **labels)
    changes = {"host.prefetchers": state} | manifest
    return with_suite(micro_run(root, metrics, manifest_changes=changes), "perma-bench", ["fig13"])


def test_reads_with_prefetchers_are_over_those_without_at_each_size(tmp_path: Path) -> None:
    page = cells(
        reads(tmp_path, "enabled", {256: 10, 512: 18, 1024: 15}),
        reads(tmp_path, "disabled", {256: 10, 512: 20, 1024: 20}),
    )
    expected = {"256 B": 1.0, "512 B": 0.9, "1 KiB": 0.75}  # 10/10, 18/20, 15/20
    on, off = (f"pmem (prefetchers {state})" for state in ("enabled", "disabled"))
    assert page[ARM, "16"] == {on: expected, off: OTHER_SIDE}
    few = page[ARM, "32"][on]
    assert few == Missing("needs", "32 threads, measured with 16")
    row = page["barlow_256 disabled over enabled, operations_ratio", "64"]
    assert all("Viper" in cell.context for cell in row.values())


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["enabled"], "a tier with prefetchers disabled, here: enabled"),
        (["enabled", "disabled: L2"], "a tier with prefetchers disabled, here: enabled"),
        (
            ["unreadable"],
            "a tier with prefetchers enabled and one with prefetchers disabled, here: unreadable",
        ),
    ],
)
def test_without_both_states_the_missing_one_is_named(tmp_path, states, expected):
    page = cells(*(reads(tmp_path, state, {512: 20}) for state in states))
    assert next(iter(page[ARM, "16"].values())) == Missing("needs", expected)


def test_another_bus_speed_is_no_other_state_of_the_prefetchers(tmp_path: Path) -> None:
    page = cells(
        reads(tmp_path, "enabled", {512: 18}),
        reads(tmp_path, "disabled", {512: 20}, **{"host.memory_speed": "2133 MT/s"}),
    )
    lacking = list(page[ARM, "16"].values())
    assert {missing.code for missing in lacking} == {"needs"}
    states = {tuple(re.findall("enabled|disabled", missing.context)) for missing in lacking}
    assert states == {("disabled", "enabled"), ("enabled", "disabled")}  # needed, here


def at_speed(root: Path, speed: str, write: float, read: float, **more: Any) -> StoredRun:
    """Writes and reads of Figure 14 at a speed of the memory bus; the figures are made up."""
    named: dict[str, Any] = {"pattern": "sequential", "threads": 32} | more
    metrics = [
        rate("bus_sequential_writes", write, 1, **KINDS["ntstore"], **named, access_size_bytes=512),
        rate("bus_sequential_reads", read, 1, **KINDS["load"], **named, access_size_bytes=4096),
    ]
    run = micro_run(root, metrics, manifest_changes={"host.memory_speed": speed})
    return with_suite(run, "perma-bench", ["fig14"])


BUS_WRITES = ("apache_256 2133 over 2666 MT/s, bandwidth_ratio", "ntstore")
BUS_READS = ("dram 2133 over 2666 MT/s, bandwidth_ratio", "bandwidth")


def test_two_speeds_of_the_memory_bus_are_laid_next_to_the_papers(tmp_path: Path) -> None:
    slow, fast = at_speed(tmp_path, "2133 MT/s", 9.9, 80), at_speed(tmp_path, "2666 MT/s", 10, 100)
    page = cells(slow, fast)
    assert {*page[BUS_WRITES].values()} == {0.99, OTHER_SIDE}
    assert {*page[BUS_READS].values()} == {0.8, OTHER_SIDE}
    (cell,) = cells(fast)[BUS_WRITES].values()
    assert cell == Missing("needs", "a tier with memory_bus 2133, here: 2666 MT/s")


def test_ranges_that_a_cache_holds_are_no_device_s(tmp_path: Path) -> None:
    def cached(speed: str) -> StoredRun:
        run = at_speed(tmp_path, speed, 1, 1, range_bytes=16 << 20)
        of_cpu = {"result": {"cpu": {"llc_bytes": 32 << 20}}}
        return with_artifacts(run, {"microbench": of_cpu})

    page = cells(cached("2133 MT/s"), cached("2666 MT/s"))[BUS_WRITES]
    needed = Missing("needs", "a range of 128 MiB, which no cache holds")
    assert {*page.values()} == {needed, OTHER_SIDE}


def dimms(
    root: Path, ways: int | None, gb_per_s: float, threads: int = 32, read_by: int = 16
) -> StoredRun:
    """Reads and writes of Figure 15 on a tier of so many interleaved DIMMs; None: of none."""
    facts = tier_facts("fsdax", interleave_ways=ways)
    tier = numa_tier("pmem") | {"kind": "fsdax", "facts": facts}
    named: dict[str, Any] = {"pattern": "sequential"}
    metrics = [
        rate("sequential_reads", gb_per_s, 1, scale=1 << 30, **KINDS["load"], **named,
             access_size_bytes=4096, threads=read_by),
        rate("sequential_writes", gb_per_s, 1, **KINDS["ntstore"], **named, access_size_bytes=512,
             threads=threads),
    ]  # fmt: skip
    run = micro_run(root, metrics, manifest_changes={"tiers": [tier]})
    return with_suite(run, "perma-bench", ["fig15"])


READS = (
    "apache_256, bandwidth_bytes_per_second"
    "[operation=load,pattern=sequential,access_size_bytes=4096,threads=16]"
)
WRITES = ("apache_256 6 over 1 dimms, bandwidth_ratio", "ntstore")


def test_each_number_of_dimms_lies_beside_a_tier_that_has_it(tmp_path: Path) -> None:
    page = cells(dimms(tmp_path, 1, 5.0), dimms(tmp_path, 6, 40.0))
    of_one, of_six = page[READS, "1"], page[READS, "6"]
    (one_dimm, with_six), (with_one, six_dimms) = of_one.values(), of_six.values()
    assert (one_dimm, six_dimms) == (5.37, 42.9)  # 5 and 40 GiB/s
    assert (with_six.code, figures_of(with_six.context)) == ("needs", [1, 6])  # needed, here
    assert (with_one.code, figures_of(with_one.context)) == ("needs", [6, 1])
    assert set(page[WRITES].values()) == {OTHER_SIDE, 8.0}


# Persistence policies of indexes, of made-up points -------------------------------


Metric = dict[str, Any]
VANILLA = {"discipline": "designed", "flush": "clflush", "fence": "mfence"}
MANUAL = {"discipline": "designed", "flush": "clwb", "fence": "mfence", "added_fence": "sfence"}


def _index(measurement: str, per_s: float, policy: Mapping[str, str], **more: object) -> Metric:
    labels = {"kind": "index", "index": "level_hash", "workload": "a", **policy, **more}
    return operations(measurement, per_s, **labels)


def _line(store_ns: int, clwb_ns: int, clflush_ns: int) -> list[Metric]:
    times = {"store": store_ns, "clwb": clwb_ns, "clflush": clflush_ns}
    return [duration("flushed_line", {str(ns): 100}, before="written", written_by=by)
            for by, ns in times.items()]  # fmt: skip


def _findings(root: Path, *metrics: Metric) -> dict[str, Finding]:
    (device,) = devices([micro_run(root, list(metrics), suite="bento/fig2")])
    return {finding.question: finding for finding in findings(device)}


def test_the_best_policy_is_that_of_the_most_operations_among_those_that_persist(tmp_path):
    manual = [(4e6, {}), (3.95e6, {"discipline": "optimized"}), (6e6, {"fence": "none"}),
              (5e6, {"flush": "none"})]  # fmt: skip
    metrics = [_index("manual", per_s, {**MANUAL, **changes}) for per_s, changes in manual]
    metrics += [_index("vanilla", 2e6, VANILLA), _index("manual", 1e6, MANUAL, workload="b")]
    a, b = _findings(tmp_path, *metrics)["Persistence policy, level_hash"].rows
    assert (a.name, a.unit, a.unsafe) == ("a", "1/s", (5e6,))
    added = "clwb+mfence+added sfence"
    assert a.alike == (f"designed+{added}", f"optimized+{added}")
    assert a.safe[-1] == ("designed+clflush+mfence", 2e6)
    assert (b.name, b.alike) == ("b", (f"designed+{added}",))


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


def _policies(root: Path, *metrics: Metric) -> dict[tuple[str, ...], Any]:
    """The cells next to Figure 2's numbers, by series, metric and place."""
    run = with_suite(micro_run(root, list(metrics), suite="bento/fig2"), "bento", ["fig2"])
    rows = cells(run).items()
    return {(*of.split(", ", 1), at): value for (of, at), by in rows for value in by.values()}


def test_a_gain_by_clwb_names_its_cause(tmp_path: Path) -> None:
    rates = [_index("vanilla", 2e6, VANILLA), _index("manual", 2.3e6, MANUAL)]
    row = ("level_hash manual over vanilla", "operations_ratio", "a")
    assert _policies(tmp_path / "a", *rates)[row] == 1.15
    retained = _policies(tmp_path / "b", *rates, *_line(30, 40, 140))
    assert (retained[row][0], retained[row][1].split()[:2]) == (1.15, ["clwb", "keeps"])
    evicted = _policies(tmp_path / "c", *rates, *_line(30, 300, 310))
    assert (evicted[row][0], evicted[row][1].split()[:2]) == (1.15, ["clwb", "evicts"])
    assert evicted[*row[:2], "b"] == Missing("not-measured")


def test_updates_of_fast_fair_insert_as_the_papers(tmp_path: Path) -> None:
    unaware = {"index": "fast_fair", "discipline": "unaware"}
    metrics = [
        _index(name, per_s, {**policy, **unaware}, workload=workload)
        for workload in ("a", "d")
        for name, per_s, policy in (("vanilla_unaware", 1e6, VANILLA),
                                    ("manual_unaware", 1.2e6, MANUAL))
    ]  # fmt: skip
    page = _policies(tmp_path, *metrics)
    row = ("fast_fair manual_unaware over vanilla_unaware", "operations_ratio")
    assert page[*row, "d"] == page[*row, "a"] == 1.2
