"""The figures of a run, from what its driver saw."""

from __future__ import annotations

from hdrh.histogram import HdrHistogram

from harness.driven import Operation
from harness.workloads.tpcc import figures
from harness.workloads.tpcc.driven import Driven


def recorded(*times_ns: int) -> str:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for time_ns in times_ns:
        histogram.record_value(time_ns)
    return str(histogram.encode().decode())


def test_a_transaction_that_never_happened_has_no_times():
    driven = Driven(
        "loadgen",
        "1",
        10**9,
        {
            "new_order": Operation(0, 0, duration_hdr=recorded()),
            "payment": Operation(2, duration_hdr=recorded(10**6, 2 * 10**6)),
        },
        new_orders_per_minute=0.0,
    )
    found = figures.metrics(driven, {})
    timed = [m.labels["transaction"] for m in found if m.name == "transaction_duration_ns"]
    assert timed == ["payment"]
    counted = {m.labels["transaction"]: m.value for m in found if m.name == "transaction_count"}
    assert counted == {"new_order": 0, "payment": 2}
