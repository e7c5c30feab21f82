"""Upper bounds of a gain by waits and calls: what devices of no latency could save."""

import math
from pathlib import Path
from typing import Any

import pytest
from explained_runs import TPCC, US
from report_runs import Case, driven, histogram, metric, write

from harness.store.runs import StoredRun
from reports.explain.ceilings import ceilings, upper_share

MS = 1e6
#: 410 µs: 10,000 transactions of one session.
PARTS_US = {"processor": 300.0, "client": 80.0, "log write": 6.0, "log sync": 10.0,
            "data read": 2.0, "lock": 4.0, "buffer": 0.0, "other": 8.0}  # fmt: skip
COUNT = 10_000


def window(
    parts_us: dict[str, float],
    moments: float = 1e5,
    calls: dict[tuple[str, str, str], tuple[int, float]] | None = None,
    **values: float,
) -> list[dict[str, Any]]:
    """Metrics of a TPC-C window; ``calls``: (part, operation, role) → count and µs each."""
    traced = calls or {("wal", "sync", "foreground"): (COUNT, 9.0),
                       ("data", "read", "foreground"): (COUNT // 10, 9.0)}  # fmt: skip
    metrics = [metric("wait_ns", us * US, resource=name) for name, us in parts_us.items()]
    for (part, operation, role), (count, us) in traced.items():
        labels = {"part": part, "operation": operation, "role": role}
        metrics.append(metric("io_calls_count", count, **labels))
        metrics.append(metric("io_duration_ns", histogram([us * US] * count), **labels))
    given = {"wait_accounted_share": 1.0, "wait_moments_count": moments,
             "window_duration_ns": 1e10, "server_cpu_per_transaction_ns": 300 * US,
             "client_cpu_per_transaction_ns": 80 * US} | values  # fmt: skip
    latency_us = sum(parts_us.values())
    durations = histogram([latency_us * US] * COUNT)
    return [
        *metrics,
        *(metric(name, value) for name, value in given.items()),
        metric("window_pressure_cpu_some_ns", 0, of="host"),
        metric("new_orders_per_minute", 60e6 / latency_us, "higher"),
        metric("transaction_duration_ns", durations, "lower", transaction="new_order"),
    ]


def observed(root: Path, metrics: Any, placement: str = "ssd-both", **params: Any) -> StoredRun:
    spec = driven("tpcc", **TPCC | params)
    return write(root, Case(placement=placement, spec_changes=spec, metrics=metrics))


def ceilings_of(*runs: StoredRun) -> Any:
    return ceilings(runs)


def of_query(bounds: Any, query: str) -> Any:
    """Return the query's ceiling of the data's device."""
    return next((ceiling for ceiling in bounds.by_query[query] if ceiling.devices == "data"), None)


def log(bounds: Any) -> Any:
    return bounds.of("log")


def test_a_share_s_upper_end_is_that_of_clopper_and_pearson() -> None:
    """Nothing in 29 has the closed form; 10 of 100: the tables' 0.1762; too little bounds none."""
    assert upper_share(0.0, 29) == pytest.approx(1 - 0.025 ** (1 / 29), abs=1e-5)
    assert upper_share(0.1, 100) == pytest.approx(0.17622, abs=1e-4)
    assert upper_share(0.0, 0) == upper_share(1.0, 100) == 1.0


def test_the_log_s_ceiling_is_its_waits_and_what_may_hide_more(tmp_path: Path) -> None:
    """A transaction takes 410 µs: 16 wait for the log, 12 may hide more: 410 / (410 - 28)."""
    bounds = ceilings_of(observed(tmp_path, window(PARTS_US)))
    ceiling = log(bounds)
    assert (bounds.noun, ceiling.latency_ns, ceiling.direct_ns) == (
        "transaction",
        410 * US,
        16 * US,
    )
    assert ceiling.hidden == {"lock": 4 * US, "buffer": 0, "other": 8 * US, "processors": 0}
    assert ceiling.gain == pytest.approx(410 / 382, rel=2e-3)
    assert ceiling.gain > 410 / 382  # the sampling error, which fewer observations raise
    gains = [log(ceilings_of(observed(tmp_path, window(PARTS_US, n)))).gain for n in (1e5, 450, 50)]
    assert gains == sorted(gains) and gains[2] > 1.1
    assert [ceiling.devices for ceiling in bounds.total] == ["log", "data", "all"]


def test_of_all_devices_each_counts_by_what_saw_more_of_it(tmp_path: Path) -> None:
    """A transaction takes 410 µs: 16 wait for the log, the trace timed 9; 30 are calls on data."""
    calls = {("wal", "sync", "foreground"): (COUNT, 9.0),
             ("data", "read", "foreground"): (COUNT // 10, 300.0)}  # fmt: skip
    bounds = ceilings_of(observed(tmp_path, window(PARTS_US, calls=calls)))
    waits = {ceiling.devices: ceiling.direct_ns for ceiling in bounds.total}
    assert waits["data"] == pytest.approx(30 * US, rel=0.01)
    assert waits["all"] == pytest.approx(waits["log"] + waits["data"])
    every = bounds.of("all")
    assert every.gain > 410 / (410 - 16 - 0.99 * 30 - 12)


def test_the_trace_counts_where_it_saw_more_than_the_waits(tmp_path: Path) -> None:
    """Calls that compute in the kernel: 50 µs a transaction; those of the background do not."""
    calls = {("wal", "sync", "foreground"): (COUNT, 50.0),
             ("wal", "write", "background"): (COUNT, 90.0)}  # fmt: skip
    ceiling = log(ceilings_of(observed(tmp_path, window(PARTS_US, calls=calls))))
    assert ceiling.direct_ns == pytest.approx(50 * US, rel=0.01)
    assert ceiling.gain == pytest.approx(410 / (410 - 62), rel=0.01)


def test_time_waiting_for_a_busy_processor_may_be_due_to_the_device(tmp_path: Path) -> None:
    """100 of 300 µs on processors were not computed, as far as tasks of the host had to wait."""
    metrics = window(PARTS_US, server_cpu_per_transaction_ns=200 * US)
    quiet = log(ceilings_of(observed(tmp_path, metrics)))
    for share, contended_us in ((0.1, 41), (0.9, 100)):
        busy = [m | {"value": share * 1e10} if "pressure" in m["name"] else m for m in metrics]
        ceiling = log(ceilings_of(observed(tmp_path, busy)))
        assert ceiling.hidden["processors"] == pytest.approx(contended_us * US)
        assert ceiling.mostly == "processors" and ceiling.gain > quiet.gain


def test_copying_in_calls_is_no_waiting_for_the_device(tmp_path: Path) -> None:
    """304 of 410 µs show a wait for data; Linux counted 334 µs on processors. What 4 µs of waiting
    for a lock may have spun is left out: 80 µs were blocked. Loads from DAX are processor time."""
    parts = PARTS_US | {"processor": 6.0, "data read": 296.0}
    reads = {("data", "read", "foreground"): (COUNT, 9.0)}
    metrics = [*window(parts, calls=reads), metric("wait_cpu_ns", 334 * US)]
    ceiling = ceilings_of(observed(tmp_path, metrics)).of("data")
    assert ceiling.gain == pytest.approx(410 / 330) and ceiling.direct_ns == 80 * US
    unknown = ceilings_of(observed(tmp_path, window(parts, calls=reads))).of("data")
    dax = ceilings_of(observed(tmp_path, metrics, placement="pmem-both")).of("data")
    assert unknown.gain == dax.gain > 410 / (410 - 296)


def test_what_a_sync_computes_may_go_with_the_device(tmp_path: Path) -> None:
    """390 of 410 µs were computed, 350 of them perhaps in syncs of 400 µs: a tmpfs has none."""
    parts = dict.fromkeys(PARTS_US, 0.0) | {"processor": 10.0, "log sync": 400.0}
    calls = {("wal", "sync", "foreground"): (COUNT, 350.0)}
    metrics = [*window(parts, calls=calls), metric("wait_cpu_ns", 390 * US)]
    ceiling = log(ceilings_of(observed(tmp_path, metrics)))
    assert ceiling.gain == pytest.approx(410 / 40, rel=0.01)


def test_repeats_are_pooled_and_none_lies_above_the_ceiling(tmp_path: Path) -> None:
    runs = [observed(tmp_path, window(PARTS_US | {"log sync": us})) for us in (10.0, 10.0, 210.0)]
    pooled, worst = log(ceilings_of(*runs)), log(ceilings_of(runs[2]))
    assert pooled.direct_ns == pytest.approx((16 + 16 + 216) / 3 * US)
    assert (216 + 12) / 610 <= pooled.share <= worst.share


def test_there_is_none_where_nothing_bounds_it(tmp_path: Path) -> None:
    mapped = [*window(PARTS_US), metric("io_trace_coverage_share", 0.4, part="wal")]
    moved = [metric("io_bytes", size, part=part, operation="write", role="foreground")
             for part, size in (("wal", 1e6), ("data", 9e6))]  # fmt: skip
    few = [*moved, metric("io_bytes", 1e9, part="data", operation="read", role="foreground")]
    assert log(ceilings_of(observed(tmp_path, [*mapped, *few]))).why is None
    bounds = ceilings_of(observed(tmp_path, [*mapped, *moved]))
    assert (log(bounds).gain, log(bounds).why, log(bounds).part) == (None, "part not traced", "wal")
    assert bounds.of("data").gain is not None and bounds.of("all").gain is None
    for moments, why in ((0, "too few observations"), (100, "nearly all of the time")):
        ceiling = log(ceilings_of(observed(tmp_path, window({"other": 410.0}, moments))))
        assert (ceiling.gain, ceiling.why) == (None, why)


def test_a_set_rate_has_none_and_runs_without_waits_or_trace_say_nothing(tmp_path: Path) -> None:
    bounds = ceilings_of(observed(tmp_path, window(PARTS_US), rate=100.0))
    assert (bounds.total, bounds.rate) == ((), "option")
    for missing in ("wait_", "io_"):
        remaining = [m for m in window(PARTS_US) if not m["name"].startswith(missing)]
        assert ceilings([observed(tmp_path, remaining)]) is None


def query(
    number: str, reading_ms: float, computing_ms: float, moments: float, **values: float
) -> list[Any]:
    parts = {"data read": reading_ms, "processor": computing_ms}
    return [
        metric("query_duration_ns", (reading_ms + computing_ms) * MS, "lower", query=number),
        *(metric("query_wait_ns", ms * MS, query=number, resource=r) for r, ms in parts.items()),
        metric("query_wait_accounted_share", 1.0, query=number),
        metric("query_wait_moments_count", moments, query=number),
        metric("query_pressure_cpu_some_ns", 0, of="host", query=number),
        *(metric(name, value, query=number) for name, value in values.items()),
        metric("query_io_calls_count", 10, query=number, part="data", operation="read"),
        metric("io_calls_count", 10, part="data", operation="read", role="foreground"),
    ]


def test_queries_have_their_own_and_one_of_their_sum(tmp_path: Path) -> None:
    """Q1 reads 1 of 4 s, Q6 3 of 4 s; Q14 was not observed and may vanish: 9 / (9 - 1 - 3 - 1)."""
    metrics = query("1", 1000, 3000, 1e5) + query("6", 3000, 1000, 1e5) + query("14", 0, 1000, 0)
    bounds = ceilings_of(write(tmp_path, Case(metrics=metrics, queries=(1, 6, 14))))
    assert bounds.noun == "query" and list(bounds.by_query) == ["1", "6", "14"]
    first, second, none = (of_query(bounds, q) for q in ("1", "6", "14"))
    assert first.gain == pytest.approx(4 / 3, rel=5e-3)
    assert second.gain == pytest.approx(4.0, rel=2e-2)
    assert none is None or none.gain is None
    total = bounds.of("data")
    assert total.gain == pytest.approx(9 / 4, rel=1e-2)
    assert (total.latency_ns, total.direct_ns, total.unbounded) == (9000 * MS, 4000 * MS, 1)


def test_calls_of_parallel_sessions_overlap(tmp_path: Path) -> None:
    """30 calls of 400 ms in three queries, by four sessions: 3 s, as the waits of the first two
    are divided, 1 : 3, and as many calls as the others for the third; 2 of its 10 s are computed
    by none of the processors that 4 sessions have."""
    sessions = {"query_wait_sessions_count": 4.0, "query_cpu_ns": 32e9}
    metrics = [
        *query("1", 500, 9500, 1e5, **sessions),
        *query("6", 1500, 8500, 1e5, **sessions),
        *query("9", 0, 10_000, 1e5, **sessions),
        metric("io_duration_ns", histogram([400 * MS] * 30),
               part="data", operation="read", role="foreground"),
    ]  # fmt: skip
    bounds = ceilings_of(write(tmp_path, Case(metrics=metrics, queries=(1, 6, 9))))
    direct = [of_query(bounds, q).direct_ns for q in ("1", "6", "9")]
    assert direct == pytest.approx([500 * MS, 1500 * MS, 1000 * MS], rel=0.01)
    busy = [m | {"value": 10_000 * MS} if "pressure" in m["name"] else m for m in metrics]
    contended = of_query(ceilings_of(write(tmp_path, Case(metrics=busy, queries=(1, 6, 9)))), "9")
    assert contended.hidden["processors"] == pytest.approx(2000 * MS)


def test_the_ceiling_is_above_what_moving_the_log_gains(tmp_path: Path) -> None:
    """Whatever the log costs on A, a B without it and with less waiting for locks is below."""
    for sync_us in (1.0, 50.0, 500.0, 5000.0):
        a = PARTS_US | {"log sync": sync_us}
        b = a | {"log sync": 0.0, "log write": 0.0, "lock": 1.0}
        bounds = ceilings_of(observed(tmp_path, window(a, 300)))
        measured = sum(a.values()) / sum(b.values())
        gain = log(bounds).gain
        assert math.inf if gain is None else gain >= measured


# What ``harness advise`` answers --------------------------------------------------
