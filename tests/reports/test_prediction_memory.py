"""Predicted speed-ups of memory on another node; all counters are written by hand."""

from pathlib import Path

import pytest
from micro_runs import loaded_latency, micro_run, numa_tier, tier_facts
from narrowed import of_kind
from report_runs import Case, metric, write
from test_over_time import FAST, tpcc

from harness.store.run_store import Store
from reports.arm import Arm
from reports.explain.devices import TierSources
from reports.explain.memory import moved_per_s
from reports.explain.prediction import NotPredicted, Predicted, Unpredictable, predict

PAGE = Path(__file__).parents[2] / "docs/prediction.md"
ON_DRAM, ON_CXL = (f"data=ssd,wal=ssd,memory={tier}" for tier in ("dram", "cxl"))
#: ns of a load, in three repeats.
LATENCIES = {"dram": [99.0, 100.0, 101.0], "cxl": [240.0, 250.0, 260.0]}


def predicted(
    root: Path, a: str, b: str, counts: dict[str, float] = FAST
) -> Predicted | NotPredicted:
    on_a, on_b = (Arm(place, "", (tpcc(root, place, counts, 1000),)) for place in (a, b))
    for tier, samples in LATENCIES.items():
        latency = metric("latency_ns", samples, "lower", measurement="chase")
        here = {"host.host_id": "a1b2c3d4"}
        micro_run(root, [latency], tier=tier, suite="baseline", manifest_changes=here)
    return predict(on_a, on_b, TierSources.of(Store(root).runs(), ()))


def test_stalls_at_memory_take_longer_as_a_load_does(tmp_path):
    """Of 20 million cycles, 4 million are stalls at memory, which take 2.5 times as long."""
    law = of_kind(Predicted, predicted(tmp_path, ON_DRAM, ON_CXL))
    assert law.value == pytest.approx(20 / (20 + 4 * 1.5))
    assert law.low == pytest.approx(20 / (20 + 4 * (260 / 99 - 1)))
    assert law.high == pytest.approx(20 / (20 + 4 * (240 / 101 - 1)))
    assert (law.bound_low, law.bound_high, law.law_of_a) == (law.low, 1.0, None)
    assert f"20 / (20 + 4 × (2.5 − 1)) = **{law.value:.3f}**" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("a", "b", "counts", "why"),
    [
        (ON_DRAM, ON_CXL, {"cycles": 2e9}, Unpredictable.MEMORY_WITHOUT_COUNTER),
        ("ssd-both", ON_CXL, FAST, Unpredictable.MEMORY_NOT_PLACED),
        (ON_DRAM, "data=pmem,wal=pmem,memory=cxl", FAST, Unpredictable.MEMORY_AND_FILES),
    ],
)
def test_memory_that_has_no_law(tmp_path, a, b, counts, why):
    assert of_kind(NotPredicted, predicted(tmp_path, a, b, counts)).why == why


# Interleaved pages, by hand (docs/prediction.md) --------------------------------------

ON_BOTH = "data=ssd,wal=ssd,memory=weighted:dram=3,cxl=1"
HALF_STALLED = {**FAST, "stalls_l1d_miss": 1.2e9, "stalls_l2_miss": 1.1e9, "stalls_l3_miss": 1e9}
#: ns of a load by GB/s of other loads.
CURVES = {"dram": {0: 100, 56: 132, 62: 144, 64: 300}, "cxl": {0: 250, 16: 290, 24: 310}}


def interleaved(
    root: Path,
    a: str = ON_DRAM,
    b: str = ON_BOTH,
    moved: float | None = 64,
    tiers: tuple[str, ...] = ("dram", "cxl"),
    loads: bool = True,
) -> Predicted | NotPredicted:
    """A moves these GB/s; half of its cycles are stalls at memory."""
    metrics = [
        metric(f"window_dram_{which}_bytes", share * moved * 10e9)
        for which, share in (("read", 0.75), ("write", 0.25))
        if moved
    ]
    on_a, on_b = (
        Arm(place, "", (tpcc(root, place, HALF_STALLED, 1000, metrics=metrics),))
        for place in (a, b)
    )
    for tier in tiers:
        idle = metric("latency_ns", [float(CURVES[tier][0])] * 3, "lower", measurement="chase")
        loaded = [
            document
            for gb_per_s, ns in CURVES[tier].items()
            if loads and gb_per_s
            for document in loaded_latency(gb_per_s, ns, repeats=1)
        ]
        here = {"host.host_id": "a1b2c3d4"}
        micro_run(root, [idle, *loaded], tier=tier, suite="baseline", manifest_changes=here)
    return predict(on_a, on_b, TierSources.of(Store(root).runs(), ()))


def test_interleaving_is_faster_where_dram_alone_is_on_its_knee(tmp_path):
    """On B, 0.75 × 64 × 1.25 = 60 GB/s are of DRAM and 20 GB/s of CXL."""
    law = of_kind(Predicted, interleaved(tmp_path))
    latency = 0.75 * 140 + 0.25 * 300
    assert law.value == pytest.approx(20 / (20 + 10 * (latency / 300 - 1))) == pytest.approx(1.25)
    assert (law.low, law.high) == pytest.approx((law.value, law.value))
    assert "20 / (20 + 10 × (180 / 300 − 1)) = **1.25**" in PAGE.read_text(encoding="utf-8")


def test_the_tier_whose_bandwidth_is_used_up_limits_all(tmp_path):
    """In equal shares, CXL's 24 GB/s are half of what memory moves."""
    law = of_kind(Predicted, interleaved(tmp_path, b="data=ssd,wal=ssd,memory=interleave:dram,cxl"))
    assert law.value == pytest.approx(48 / 64)


def test_back_from_interleaved_memory(tmp_path):
    """DRAM alone moves 62 to 64 GB/s, where a load takes 78 ns more for each of them."""
    law = of_kind(Predicted, interleaved(tmp_path, ON_BOTH, ON_DRAM, moved=80))
    latency = 144 + 78 * (80 * law.value - 62)
    assert law.value == pytest.approx(20 / (20 + 10 * (latency / 180 - 1)))
    assert 62 / 80 < law.value < 64 / 80


@pytest.mark.parametrize(
    ("memory", "changes", "why"),
    [
        ("weighted:dram,cxl", {}, NotPredicted(Unpredictable.MEMORY_SHARES_UNKNOWN)),
        ("preferred:dram,cxl", {}, NotPredicted(Unpredictable.MEMORY_SHARES_UNKNOWN)),
        ("tiered:dram,cxl", {}, NotPredicted(Unpredictable.MEMORY_SHARES_UNKNOWN)),
        (
            "interleave:dram,cxl",
            {"moved": None},
            NotPredicted(Unpredictable.MEMORY_TRAFFIC_WITHOUT_COUNTER),
        ),
        (
            "interleave:dram,cxl",
            {"tiers": ("dram",)},
            NotPredicted(Unpredictable.NO_BASELINE, ("cxl",)),
        ),
        (
            "interleave:dram,cxl",
            {"loads": False},
            NotPredicted(Unpredictable.NO_BASELINE, ("dram", "cxl")),
        ),
    ],
)
def test_interleaved_memory_that_has_no_law(tmp_path, memory, changes, why):
    assert interleaved(tmp_path, b=f"data=ssd,wal=ssd,memory={memory}", **changes) == why


def test_the_traffic_of_all_kinds_of_memory_must_be_counted(tmp_path):
    """Over a window of 10 s, or two queries of 2 s."""
    memory = "weighted:dram=3,cxl=1"
    tier = {**numa_tier(memory), "facts": tier_facts("numa", memory_kind="dram, cxl")}
    of_dram = [metric("window_duration_ns", 10e9), metric("window_dram_read_bytes", 600e9)]
    of_cxl = [metric("window_cxl_read_bytes", 100e9, device=f"mem{mem}") for mem in (0, 1)]
    of_queries = [
        metric(name, value, query=query)
        for query in (1, 2)
        for name, value in (
            ("query_duration_ns", 2e9),
            ("query_dram_read_bytes", 60e9),
            ("query_cxl_write_bytes", 20e9),
        )
    ]
    dram, both, queries = (
        write(
            tmp_path, Case(placement=ON_BOTH, metrics=metrics, manifest_changes={"tiers": [tier]})
        )
        for metrics in (of_dram, [*of_dram, *of_cxl], of_queries)
    )
    assert moved_per_s(dram) is None
    assert moved_per_s(both) == 80e9
    assert moved_per_s(queries) == 40e9
