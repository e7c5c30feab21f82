"""Predicted speed-ups of memory on another node; all counters are written by hand."""

from pathlib import Path

import pytest
from micro_runs import micro_run
from narrowed import of_kind
from report_runs import metric
from test_over_time import FAST, tpcc

from harness.store.run_store import Store
from reports.arm import Arm
from reports.explain.devices import TierSources
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
