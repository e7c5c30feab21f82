"""Ratios that papers print, of made-up points whose quotients are plain."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from figures import figures_of
from micro_runs import (
    FAR,
    KINDS,
    cells,
    curves,
    duration,
    latency,
    micro_run,
    numa_tier,
    operations,
    rate,
    tier_facts,
    with_suite,
    write_ratio,
)
from report_runs import with_artifacts

from harness import structs
from harness.paper.pair_query import PairQuery, read_words
from harness.store.runs import StoredRun
from reports.micro.devices import RATE, Device, devices
from reports.micro.node_figures import node_figures
from reports.micro.point_ratios import ratios_of
from reports.pair_sides import FROM_FAR
from reports.statistics import Missing

Metrics = Sequence[dict[str, Any]]


def _of(root: Path, metrics: Metrics, paper: str, *figures: str, **changes: Any) -> StoredRun:
    return with_suite(micro_run(root, list(metrics), **changes), paper, figures)


def _on_dram(root: Path, metrics: Metrics, paper: str, *figures: str, **changes: Any) -> StoredRun:
    tiers = {"tiers": [numa_tier()]} | changes.pop("manifest_changes", {})
    return _of(root, metrics, paper, *figures, tier="dram", manifest_changes=tiers, **changes)


# Two tiers ------------------------------------------------------------------------


def _loads(random_ns: int, sequential_ns: int, **labels: Any) -> Metrics:
    named = {**KINDS["load"], "access_size_bytes": 64, **labels}
    return [duration("latency_words", {str(ns): 100}, pattern=pattern, **named)
            for pattern, ns in (("random", random_ns), ("sequential", sequential_ns))]  # fmt: skip


@pytest.mark.parametrize(
    ("dram", "expected"),
    [
        ((81, 80), {"random": 3.77, "sequential": 2.0}),
        ((81, 0), {"random": 3.77}),
        ((0, 0), Missing("needs", "operations that take longer than their time stamps")),
    ],
)
def test_time_stamps_are_no_part_of_a_ratio(tmp_path, dram, expected):
    """305 over 81 ns, each measured with 40 ns of stamps; what they hide has no ratio."""

    def stamped(random_ns: int, sequential_ns: int) -> Metrics:
        loads = _loads(random_ns + 40, sequential_ns + 40)
        bare = ({k: v for k, v in load.items() if k != "hdr"} for load in loads)
        empty = {"name": "empty_body_ns", "better": "none", "samples": [40.0] * 3}
        return [*loads, *(load | empty for load in bare)]

    near = _on_dram(tmp_path, stamped(*dram), *GUIDE)
    slow = _of(tmp_path, stamped(305, 160), *GUIDE)
    assert cells(near, slow)[OVER_DRAM]["pmem"] == expected


OTHER_SIDE = Missing("other-side", "the other side")
#: DRAM's loads, and those of PMem.
NEAR, SLOW = (100, 80), (300, 160)
OVER_DRAM = ("pmem over dram, operation_duration_ratio", "load")
GUIDE = ("empirical-guide", "sec3.2")
NEEDS_DRAM = Missing("needs", "a tier with medium dram, here: other")
NEEDS_OTHER = Missing("needs", "a tier with medium other, here: dram")


def test_loads_of_pmem_are_over_those_of_the_hosts_dram(tmp_path: Path) -> None:
    dram, pmem = _on_dram(tmp_path, _loads(*NEAR), *GUIDE), _of(tmp_path, _loads(*SLOW), *GUIDE)
    page = cells(dram, pmem)
    assert page[OVER_DRAM] == {
        "dram": OTHER_SIDE,
        "pmem": {"random": 3.0, "sequential": 2.0},  # 300/100, 160/80
    }
    gap = {"dram": 1.25, "pmem": 1.88}  # 100/80, 300/160 = 1.875
    assert page["dram random over sequential, operation_duration_ratio", "load"] == gap
    assert page["pmem random over sequential, operation_duration_ratio", "load"] == gap
    assert cells(pmem)[OVER_DRAM] == {"pmem": NEEDS_DRAM}
    assert cells(dram)[OVER_DRAM] == {"dram": NEEDS_OTHER}


def test_another_hosts_dram_is_no_other_side(tmp_path: Path) -> None:
    page = cells(
        _on_dram(tmp_path, _loads(*NEAR), *GUIDE, host="lab2"),
        _of(tmp_path, _loads(*SLOW), *GUIDE, host="lab1"),
    )
    assert page[OVER_DRAM] == {
        "lab1: pmem": NEEDS_DRAM,
        "lab2: dram": NEEDS_OTHER,
    }


def test_which_of_two_tiers_is_dram_their_nodes_tell(tmp_path: Path) -> None:
    """The made-up hosts have processors at node 0 alone: memory of node 2 is CXL's, say."""

    def run(name: str, node: int, ns: int) -> StoredRun:
        tiers = {"tiers": [numa_tier(name, node)]}
        return _of(tmp_path, _loads(ns, ns), *GUIDE, tier=name, manifest_changes=tiers)

    near, memory = run("near", 0, 100), run("memory", 2, 250)
    assert cells(near, memory)[OVER_DRAM]["memory"] == {"random": 2.5, "sequential": 2.5}
    two = cells(near, run("twin", 0, 100), memory)[OVER_DRAM]
    ambiguous = two["memory"]
    assert (ambiguous.code, ambiguous.context.split()[:3]) == ("ambiguous", ["near", "and", "twin"])


def test_two_tiers_that_were_measured_otherwise_have_no_ratio(tmp_path: Path) -> None:
    page = cells(
        _on_dram(tmp_path, _loads(*NEAR, range_bytes=2 << 30), *GUIDE),
        _of(tmp_path, _loads(*SLOW, range_bytes=4 << 30), *GUIDE),
    )
    assert page[OVER_DRAM]["pmem"] == Missing("unlike-sides", "range: 4 GiB and 2 GiB")


def _by_threads(load: Mapping[int, float], ntstore: Mapping[int, float]) -> Metrics:
    kinds = {"load": load, "ntstore": ntstore}
    return curves("threads", kinds, "threads", pattern="random", access_size_bytes=256)


def test_bandwidths_of_two_tiers_are_each_at_its_best_threads(tmp_path: Path) -> None:
    paper = "pmem-io-primitives"
    page = cells(
        _on_dram(tmp_path, _by_threads({1: 10, 8: 78}, {1: 9, 8: 60}), paper, "sec2.2"),
        _of(tmp_path, _by_threads({1: 8, 8: 30}, {1: 8, 8: 5}), paper, "sec2.2"),
    )
    assert page["dram over pmem, bandwidth_ratio", "load"]["pmem"] == {"threads": 2.6}  # 78/30
    # 60/8: PMem's best is one thread, DRAM's eight.
    assert page["dram over pmem, bandwidth_ratio", "store"]["pmem"] == {"threads ntstore": 7.5}


def test_interleaved_dimms_are_over_one_alone_by_their_facts(tmp_path: Path) -> None:
    def run(name: str, ways: int, load: Any, store: Any) -> StoredRun:
        facts = tier_facts("fsdax", interleave_ways=ways)
        tiers = {"tiers": [numa_tier(name) | {"kind": "fsdax", "facts": facts}]}
        return _of(tmp_path, _by_threads(load, store), "empirical-guide", "fig4", tier=name,
                   manifest_changes=tiers)  # fmt: skip

    page = cells(run("six", 6, {1: 3, 8: 29}, {1: 2, 8: 11.2}),
                       run("one", 1, {1: 3, 8: 5}, {1: 2, 8: 1.5}))  # fmt: skip
    arm = "pmem over pmem_ni, bandwidth_ratio"
    assert page[arm, "load"]["six"] == 5.8  # 29/5
    assert page[arm, "store"]["six"] == {"ntstore": 5.6}  # 11.2/2
    assert page[arm, "load"]["one"] == OTHER_SIDE


def test_a_chase_in_memory_mode_is_over_the_same_tiers_without(tmp_path: Path) -> None:
    figure = ("pmem-io-primitives", "fig3")
    dram = _on_dram(tmp_path, [latency("chase", 100.0)], *figure)
    memory = _on_dram(tmp_path, [latency("chase", 112.0)], *figure,
                      run_changes={"host_mode": "Memory"})  # fmt: skip
    on_named_nodes = latency("chase", 900.0, nodes="1", cpus="node:0")  # not the tier's
    pmem = _of(tmp_path, [latency("chase", 300.0), on_named_nodes], *figure)
    page = cells(dram, memory, pmem)
    plain, cached = "dram (main memory DRAM)", "dram (main memory Memory)"
    in_memory, in_none = (
        Missing("needs", f"a tier with medium {a} and one with medium dram, here: {b}")
        for a, b in (("other", "memory_mode"), ("memory_mode", "other"))
    )
    assert page["pmem over dram, latency_ratio", "random"] == {
        plain: OTHER_SIDE, cached: in_memory, "pmem": 3.0,
    }  # fmt: skip
    over = ("memory_mode over dram, latency_ratio", "random")
    assert page[over] == {plain: OTHER_SIDE, cached: 1.12, "pmem": in_none}
    assert cells(dram, pmem)[over]["pmem"] == in_none


def test_other_pages_of_a_tier_are_told(tmp_path: Path) -> None:
    page = cells(
        _on_dram(tmp_path, [latency("chase", 100.0, pages="huge")], "pmem-io-primitives", "fig3"),
        _of(tmp_path, [latency("chase", 300.0, pages="base")], "pmem-io-primitives", "fig3"),
    )
    cell = page["pmem over dram, latency_ratio", "random"]["pmem"]
    assert cell == (3.0, "pages: base over huge")


# Near and far ---------------------------------------------------------------------


def test_bandwidths_of_a_mixs_ends_are_far_over_near(tmp_path: Path) -> None:
    bandwidths = {("1", ""): {1: 5, 4: 20}, ("1", "far"): {1: 5, 4: 12}, ("0", ""): {1: 4, 4: 8},
            ("0", "far"): {1: 6, 4: 3}, ("0.5", "far"): {1: 99}}  # fmt: skip
    metrics = [
        rate("mix", value, 1, operation="mixed", store="ntstore", read_share=share,
             threads=threads, **(FAR if where else {}))
        for (share, where), curve in bandwidths.items() for threads, value in curve.items()
    ]  # fmt: skip
    page = cells(_of(tmp_path, metrics, "empirical-guide", "sec5.4"))
    arm = "pmem far over near, bandwidth_ratio"
    assert page[arm, "load"]["pmem"] == (0.6, "best of 1, 4 threads")  # 12/20
    assert page[arm, "store"]["pmem"] == ({"ntstore": 0.75}, "best of 1, 4 threads")  # 6/8
    times = page["pmem far over near, operation_duration_ratio", "random"]["pmem"]
    assert times == Missing("needs", FROM_FAR)


def test_the_largest_gap_of_a_sweep_is_told_with_its_workload(tmp_path: Path) -> None:
    metrics = [
        rate("sizes", value, 1, **KINDS["load"], pattern="random", access_size_bytes=size,
             threads=8, **(FAR if far else {}))
        for size, gap in ((64, (6, 2)), (256, (9, 6))) for far, value in enumerate(gap)
    ]  # fmt: skip
    near = [metric for metric in metrics if "numa" not in metric["labels"]]
    largest, lacking = (
        cells(_on_dram(tmp_path / f"{len(those)}", those, "empirical-guide", "sec3.1"))[
            "dram near over far, bandwidth_ratio", "largest"
        ]["dram"]
        for those in (metrics, near)
    )
    assert largest == (3.0, "load random 64 B, 8 threads")  # 6/2, not 9/6
    assert lacking.code == "needs" and "far node" in lacking.context


def test_the_largest_gap_is_of_all_mixes_of_one_workload(tmp_path: Path) -> None:
    mixed = {**KINDS["load"], "operation": "mixed"}
    metrics = [
        rate("mixes", value, 1, **mixed, pattern="random", access_size_bytes=64, threads=8,
             read_share=share, **(FAR if far else {}))
        for share, gap in (("0.25", (8, 6)), ("0.5", (8, 2)), ("0.75", (9, 6)))
        for far, value in enumerate(gap)
    ]  # fmt: skip
    page = cells(_on_dram(tmp_path, metrics, "empirical-guide", "sec3.1"))
    (value, _) = page["dram near over far, bandwidth_ratio", "largest"]["dram"]
    assert value == 4.0


def test_times_from_a_far_node_are_over_near_ones(tmp_path: Path) -> None:
    far = {"numa": "far"}
    store = {**KINDS["clwb"], "pattern": "sequential", "access_size_bytes": 64}
    stores = [duration("latency", {"168": 9}, **store, **far),
              duration("latency", {"100": 9}, **store)]  # fmt: skip
    metrics = [*_loads(120, 179, **far), *_loads(100, 100), *stores]
    page = cells(_of(tmp_path, metrics, "empirical-guide", "sec5.4"))
    arm = "pmem far over near, operation_duration_ratio"
    assert page[arm, "random"]["pmem"] == 1.2
    assert page[arm, "sequential"]["pmem"] == 1.79
    assert page[arm, "store+clwb"]["pmem"] == {"sequential": 1.68}


# Pages, logs, tails ---------------------------------------------------------------


def _pages(leads: Mapping[int, tuple[float, float]], threads: int) -> Metrics:
    """Pages a second, in millions, of CoW and of µLog, by dirty lines."""
    return [
        operations("dirty_lines", value * 1e6, kind="page", method=method, dirty_lines=lines,
                   threads=threads)
        for lines, both in leads.items()
        for method, value in zip(("cow", "mulog"), both, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        ({16: (1, 4), 64: (1, 2), 128: (1, 0.9), 256: (1, 0.5)},
         {"µLog": (16, 64), "CoW": (128, 256)}),
        ({16: (1, 4), 64: (1, 2)}, {"µLog": (16, 64)}),
        ({16: (4, 1), 64: (4, 1)}, {"CoW": (16, 64)}),
        ({16: (1, 4), 64: (2, 1), 128: (1, 2)},
         Missing("ambiguous", "which is ahead changes at 64, 128 lines")),
    ],
)  # fmt: skip
def test_from_how_many_dirty_lines_on_copying_is_faster(tmp_path, leads, expected):
    page = cells(_of(tmp_path, _pages(leads, 1), "pmem-io-primitives", "fig5"))
    assert page["pmem mulog over cow, crossover_dirty_lines", "1"]["pmem"] == expected
    seven = page["pmem mulog over cow, crossover_dirty_lines", "7"]["pmem"]
    assert seven == Missing("needs", "7 threads, measured with 1")


def test_a_hybrid_flush_is_predicted_by_its_parts(tmp_path: Path) -> None:
    """A line takes a thread 20 ns, all cores 10 ns, 20 where it is scattered; barriers 200 ns."""
    parts = [
        rate("threads", 3.2, 1, **KINDS["ntstore"], pattern="random", threads=1),
        rate("granularity", 6.4, 1, **KINDS["ntstore"], access_size_bytes=1024, threads=8),
        rate("granularity", 3.2, 1, **KINDS["ntstore"], access_size_bytes=64, threads=8),
        *(
            duration("persist_latency", {"200": 100}, pattern=pattern, **KINDS["ntstore"])
            for pattern in ("hotspot", "sequential", "random")
        ),
    ]
    # One thread: CoW takes 256 · 20 + 400 ns, µLog 2 · d · 20 + 800: below 118 lines it is faster.
    hybrid = [
        operations("dirty_lines", 1e9 / (16 * 2 * 20 + 800), kind="page", method="hybrid",
                   dirty_lines=16, threads=1)
    ]  # fmt: skip
    pages = [*_pages({16: (1, 4), 256: (4, 1)}, 1), *_pages({16: (1, 4), 256: (4, 1)}, 7)]
    figures = ("pmem-io-primitives", "fig5", "fig4", "fig2", "sec2.2")
    page = cells(_of(tmp_path, [*parts, *hybrid, *pages], *figures))
    crossing = "pmem mulog over cow, crossover_dirty_lines"
    assert page[crossing, "1"]["pmem"] == {
        "µLog": 16,
        "CoW": 256,
        "µLog, predicted up to": 117,
        "hybrid, predicted over measured": 1.0,
    }
    # Seven threads: the device decides, 256 · 10 ns of CoW, 30 ns of a line of µLog.
    assert page[crossing, "7"]["pmem"]["µLog, predicted up to"] == 85


def test_page_versions_save_a_barrier_at_each_number_of_threads(tmp_path: Path) -> None:
    metrics = [
        operations("barriers", value, kind="page", method=method, threads=threads)
        for method, curve in (("cow", {1: 110, 7: 600}), ("cow_invalidate", {1: 100, 7: 500}))
        for threads, value in curve.items()
    ]
    page = cells(_of(tmp_path, metrics, "pmem-io-primitives", "fig5"))
    row = page["pmem pvn over invalidation, operations_ratio", "cow"]
    assert row["pmem"] == {"1 thread": 1.1, "7 threads": 1.2}


def test_logs_are_compared_at_each_size_of_their_entries(tmp_path: Path) -> None:
    rates = {("classic", "no"): (1, 2), ("classic", "yes"): (4, 16), ("zero", "yes"): (10, 24)}
    metrics = [
        operations("log", value * 1e6, kind="log", writer=writer, padded=padded, entry_bytes=size)
        for (writer, padded), values in rates.items()
        for size, value in zip((32, 1024), values, strict=True)
    ]
    page = cells(_of(tmp_path, metrics, "pmem-io-primitives", "fig6", "sec3.3"))
    padded = page["pmem padded over naive, operations_ratio", "all"]["pmem"]
    assert padded == ({"classic": (4.0, 8.0)}, "entries of 32 B to 1 KiB")  # 4/1, 16/2
    zero = page["pmem zero over classic, operations_ratio", "padded"]["pmem"]
    assert zero == ((1.5, 2.5), "entries of 32 B to 1 KiB")  # 24/16, 10/4
    assert "HyMem" in page["pmem, transactions_per_second", "zero"]["pmem"].context


def test_outliers_are_counted_above_the_50_microseconds_of_the_text(tmp_path: Path) -> None:
    labels = {**KINDS["ntstore"], "pattern": "sequential", "access_size_bytes": 64}
    histograms = {256: {"100": 99_990, "49000": 4, "60000": 6}, 4096: {"100": 99_999, "70000": 1}}
    metrics = [
        duration("overwrite_tail", bins, range_bytes=size, **labels)
        for size, bins in histograms.items()
    ]
    page = cells(_of(tmp_path, metrics, "empirical-guide", "fig3"))
    share = page["pmem, operation_outlier_share", "outliers"]["pmem"]
    assert share[:2] == (0.006, "over 50 µs")  # 6 of 100,000
    assert figures_of(share[2]) == [256, 2]  # bytes, of two sizes


# PerMA-Bench ----------------------------------------------------------------------


def _perma(root: Path, metrics: Metrics, suite: str, **changes: Any) -> StoredRun:
    return micro_run(root, list(metrics), suite=f"perma-bench/{suite}", **changes)


def test_random_reads_are_over_the_sequential_peak_of_another_run(tmp_path: Path) -> None:
    def loads(pattern: str, threads: int, by_size: dict[int, float]) -> Metrics:
        labels: dict[str, Any] = {"pattern": pattern, "threads": threads}
        return curves(f"{pattern}_reads", {"load": by_size}, "access_size_bytes", **labels)

    random = [*loads("random", 1, {64: 2}), *loads("random", 8, {64: 10, 256: 27})]
    sequential = [*loads("sequential", 8, {64: 30, 4096: 40}), *loads("sequential", 1, {4096: 9})]
    reads = _perma(tmp_path, random, "raw/random_reads")
    arm = "pmem random over sequential, bandwidth_ratio"
    lacking = cells(reads)[arm, "64"]["pmem"]
    assert lacking.code == "needs" and "sequential" in lacking.context
    page = cells(reads, _perma(tmp_path, sequential, "raw/sequential_reads"))
    assert page[arm, "64"]["pmem"] == 0.25  # 10/40
    assert page["dram random over sequential, bandwidth_ratio", "256"]["pmem"] == 0.675  # 27/40


def test_persist_instructions_are_compared_with_the_figures_32_threads(tmp_path: Path) -> None:
    def page(*counts: int) -> Any:
        each = {"clwb": 4, "ntstore": 5, "store": 8}
        kinds = {kind: {n: value * n for n in counts} for kind, value in each.items()}
        labels: dict[str, Any] = {"pattern": "random", "access_size_bytes": 64}
        metrics = curves("random_writes", kinds, "threads", **labels)
        return cells(_perma(tmp_path / f"{counts}", metrics, "raw/random_writes"))

    enough, few = page(16, 32), page(1, 2)
    assert enough["barlow_256 none over cache, bandwidth_ratio", "64"]["pmem"] == 2.0  # 8/4
    row = ("dram nocache over cache, bandwidth_ratio", "64")
    assert enough[row]["pmem"] == 1.25  # 5/4
    assert few[row]["pmem"] == Missing("needs", "32 threads, measured with 1, 2")


def test_operations_without_a_flush_are_over_those_with_one(tmp_path: Path) -> None:
    """PVLDB 15(11), Sections 4.4.1 and 4.4.4, at the figure's 32 threads."""
    chains = [f"rp_512,wp_64_{word}_128,wp_64_{word}_-128" for word in ("cache", "none")]

    def run(folder: str, threads: int) -> StoredRun:
        metrics = [
            operations("hash_index_update", value, chain=chain, mode="independent", threads=threads)
            for chain, value in zip(chains, (1e6, 1.3e6), strict=True)
        ] + [
            operations("log", value, kind="log", writer="zero", flush=flush, threads=threads)
            for flush, value in (("clwb", 2e6), ("none", 1.8e6))
        ]
        return _of(tmp_path / folder, metrics, "perma-bench", "fig12", "sec4.4.1")

    rows = [("dram none over cache, operations_ratio", "hash"),
            ("barlow_256 none over cache, operations_ratio", "log")]  # fmt: skip
    page, few = (cells(run(f"{threads}", threads)) for threads in (32, 2))
    assert [page[row]["pmem"] for row in rows] == [1.3, {"zero": 0.9}]
    needed = Missing("needs", "32 threads, measured with 2")
    assert [few[row]["pmem"] for row in rows] == [needed] * 2


def test_a_double_flush_is_over_a_single_one_of_the_same_line(tmp_path: Path) -> None:
    times_ns = {"cache": (400, 800), "cacheinv": (400, 600), "nocache": (400, 500)}
    metrics = [
        duration(name, {str(ns): 50}, chain=chain, mode="dependent", threads=16)
        for word, (once, twice) in times_ns.items()
        for name, chain, ns in (
            ("operation_latency", f"rp_64,wp_64_{word}", once),
            ("operation_latency", f"rp_256,wp_256_{word}", 200),
            ("double_flush_latency", f"rp_64,wp_64_{word},wp_64_{word}", twice),
        )
    ]
    page = cells(_perma(tmp_path, metrics, "raw/latency"))
    cell = page["apache_128 double over single flush, operation_duration_ratio", "64"]["pmem"]
    over_64 = {"cache": 2.0, "cacheinv": 1.5, "nocache": 1.25}  # 800/400 …
    assert cell == {f"{word} over 64 B": ratio for word, ratio in over_64.items()} | {
        f"{word} over Figure 7's 256 B": 2 * ratio
        for word, ratio in over_64.items()  # 800/200 …
    }


def test_index_operations_of_dram_are_over_those_of_pmem(tmp_path: Path) -> None:
    """PVLDB 15(11), Section 4.4.1: of 32 threads, and of nodes of 512 bytes."""
    update = "rp_512,rp_512,rp_512,wp_64_cache_320" + ",wp_64_cache_-64" * 3
    chains = {"lookup": "rp_512,rp_512,rp_512", "small": "rp_256,rp_256,rp_256", "update": update}

    def trees(**millions: float) -> Metrics:
        return [
            operations(f"tree_index_{'update' if name == 'update' else 'lookup'}", value * 1e6,
                       chain=chains[name], mode="independent", threads=32)
            for name, value in millions.items()
        ]  # fmt: skip

    of_dram: dict[str, Any] = {"tier": "dram", "manifest_changes": {"tiers": [numa_tier()]}}
    dram = _perma(tmp_path, trees(lookup=80, small=500, update=30), "operations", **of_dram)
    pmem = _perma(tmp_path, trees(lookup=20, small=60, update=10), "operations")
    page = cells(dram, pmem)
    cell = page["dram over apache_256, operations_ratio", "tree"]["pmem"]
    assert cell == {"lookup": 4.0, "update": 3.0}  # 80/20, 30/10
    hybrid = page["dram over barlow_256, operations_ratio", "hybrid tree"]["pmem"]
    assert hybrid == Missing("not-measured")


def test_each_pair_is_a_ratio_of_its_own_where_a_query_says_so(tmp_path: Path) -> None:
    def tier(folder: str, scale: float) -> Device:
        kinds = {"ntstore": {1: 4 * scale, 8: 4 * scale}, "clwb": {1: 2 * scale, 8: 2 * scale}}
        writes = curves("writes", kinds, "threads", pattern="random")
        (device,) = devices([micro_run(tmp_path / folder, writes)])
        return device

    over, under = tier("a", 3), tier("b", 1)
    every = PairQuery(RATE, {"measurement": "writes"}, every=True)
    assert [ratio.value for ratio in ratios_of(every, over, under)] == [3.0] * 4
    best = PairQuery(RATE, {"measurement": "writes"}, apart=("flush",), varied=("threads",),
                     each=("operation",))  # fmt: skip
    assert [(ratio.name, ratio.value) for ratio in ratios_of(best, over, under)] == [
        ("ntstore", 3.0), ("store", 3.0),
    ]  # fmt: skip


def test_a_query_is_read_alike_from_words_and_from_yaml() -> None:
    words = {"metric": RATE, "measurement": "threads", "instructions": "store+clwb",
             "kind": "|page", "over.numa": "far", "under.threads": "8", "apart": "fence,numa",
             "varied": "threads", "every": "yes", "threads": "4", "each": "store"}  # fmt: skip
    document = f"""
        metric: {RATE}
        labels: {{measurement: threads, instructions: store+clwb, kind: "|page", threads: "4"}}
        over: {{numa: far}}
        under: {{threads: "8"}}
        apart: [fence, numa]
        varied: [threads]
        every: true
        each: [store]
    """
    query = read_words(words, "here")
    assert query == structs.convert(yaml.safe_load(document), PairQuery, "here")
    assert query.differing == ("numa", "threads", "fence")


#: What a write ratio needs.
COUNTERS = "counters of the modules: ipmctl, as root, and more writes than idle modules make"


def test_effective_write_ratios_are_those_that_the_modules_counted(tmp_path: Path) -> None:
    """FAST'20, Section 5.1 and Figure 9: small random stores, and the XPBuffer's 16 KiB."""
    ratios = {("access_size", "access_size_bytes"): {64: 0.25, 256: 0.97},
            ("xpbuffer", "range_bytes"): {1024: 1.0, 16384: 0.99, 65536: 0.5}}  # fmt: skip
    metrics = [
        write_ratio(name, ratio, **KINDS["ntstore"], threads=1, **{key: size})
        for (name, key), curve in ratios.items()
        for size, ratio in curve.items()
    ]
    run = _of(tmp_path, metrics, "empirical-guide", "fig5", "fig9", "fig12")
    llc = {"microbench": {"result": {"cpu": {"llc_bytes": 32 << 20}}}}
    page = cells(with_artifacts(run, llc))  # which modules' counters do not see
    assert page["pmem, effective_write_ratio", "64"]["pmem"] == 0.25
    assert page["pmem, effective_write_ratio", "256"]["pmem"] == 0.97
    assert page["pmem, xpbuffer_bytes", "knee"]["pmem"] == {"ntstore": 16384}
    uncounted = page["pmem, effective_write_ratio", "store"]["pmem"]
    assert uncounted == Missing("needs", COUNTERS)


def test_a_memory_node_has_its_latest_chase_and_best_loads_of_this_host(tmp_path: Path) -> None:
    loads = [rate("bandwidth", value, operation="load", threads=threads)
             for value, threads in ((3, 1), (20, 8))]  # fmt: skip
    metrics = [latency("chase", 90.0, range_bytes=1 << 20),
               latency("chase", 250.0, range_bytes=1 << 30), *loads]  # fmt: skip
    tiers = {"tiers": [numa_tier("memory", 2)]}
    run = _of(tmp_path, metrics, "baseline", tier="memory", host="lab1", manifest_changes=tiers)
    (figures,) = node_figures([run], "lab1-id").values()
    assert (figures.tier, figures.read_latency_ns) == ("memory", 250)
    assert figures.read_bytes_per_s == pytest.approx(20.5e9)
    assert list(node_figures([run], "lab1-id")) == [2]
    assert node_figures([run], "another") == {}
