"""The figures of a run, from what its driver saw."""

from __future__ import annotations

from hdrh.histogram import HdrHistogram

from harness.drivers.result import DriverResult, Operation
from harness.workloads.tpcc.workload import NOUNS
from harness.workloads.window import window_metrics


def recorded(*times_ns: int) -> str:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for time_ns in times_ns:
        histogram.record_value(time_ns)
    return str(histogram.encode().decode())


def test_a_transaction_that_never_happened_has_no_times():
    driven = DriverResult(
        "loadgen",
        "1",
        10**9,
        {
            "new_order": Operation(0, 0, latency_hdr=recorded()),
            "payment": Operation(2, latency_hdr=recorded(10**6, 2 * 10**6)),
        },
    )
    found = window_metrics(driven, {}, NOUNS, [])
    timed = [m.labels["transaction"] for m in found if m.name == "transaction_duration_ns"]
    assert timed == ["payment"]
    counted = {m.labels["transaction"]: m.value for m in found if m.name == "transaction_count"}
    assert counted == {"new_order": 0, "payment": 2}


def test_a_server_s_time_of_a_few_ticks_is_no_time_of_a_transaction():
    """The kernel counts in ticks of 10 ms: three Payments of ten back ends add up to none."""
    for spent_ns, told in ((0, False), (90_000_000, False), (100_000_000, True)):
        driven = DriverResult("loadgen", "1", 10**9, {"payment": Operation(3)}, client_cpu_ns=3000)
        found = {m.name: m.value for m in window_metrics(driven, {"cpu_ns": spent_ns}, NOUNS, [])}
        assert ("server_cpu_per_transaction_ns" in found) == told
        assert found["client_cpu_per_transaction_ns"] == 1000


def test_energy_is_that_of_each_transaction_by_zone():
    driven = DriverResult("loadgen", "1", 10**9, {"payment": Operation(4)})
    counters = {"energy_j[zone=package]": 100.0, "energy_j[zone=dram]": 8.0}
    found = [m for m in window_metrics(driven, counters, NOUNS, []) if "energy_per" in m.name]
    assert {m.labels["zone"]: (m.value, m.unit) for m in found} == {
        "package": (25.0, "J"), "dram": (2.0, "J"),
    }  # fmt: skip
    assert {m.name for m in found} == {"energy_per_transaction_j"}


def test_a_transaction_that_was_never_answered_has_no_times():
    """At a set rate its age is in the histogram: no latency of the server."""
    ages = Operation(0, unfinished_count=2, latency_hdr=recorded(10**10, 2 * 10**10))
    some = Operation(1, unfinished_count=1, latency_hdr=recorded(10**6, 10**10))
    driven = DriverResult("loadgen", "1", 10**9, {"delivery": ages, "payment": some})
    found = window_metrics(driven, {}, NOUNS, [])
    timed = [m.labels["transaction"] for m in found if m.name == "transaction_duration_ns"]
    assert timed == ["payment"]
