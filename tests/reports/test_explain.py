"""Explanations of a comparison of placements, bounds of a gain, and what to move first."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from explained_runs import TPCC, US, baseline_suite, device_suite, tpcc
from narrowed import of_kind, present
from report_runs import Case, driven, histogram, metric, write

from harness.models.device import OPERATIONS, DeviceModel, find_model, load_model
from harness.models.make import as_yaml, model_of
from harness.models.score import Score, ScoredMetric, ScoreStore
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.advice import Answer, answers, expected, lines, met, trials_of
from reports.answers import more_repeats
from reports.compare import Group
from reports.explain.ceilings import ceilings, upper_share
from reports.explain.comparisons import Explained, explained
from reports.explain.devices import TierSources
from reports.explain.output import ExplainedView, to_json
from reports.explain.prediction import NotPredicted, Predicted, Unpredictable
from reports.micro.devices import is_micro
from reports.select import unplanted
from reports.series import panels
from reports.statistics import Missing, Value


def rows(root: Path, baseline: str | None = None) -> list[Explained]:
    every = Store(root).runs()
    chosen = [run for run in unplanted(every) if not is_micro(run)]
    sources = TierSources.of(every, ScoreStore(root).all())
    return explained(panels(chosen, "placement", baseline), sources)


def moved(root: Path, to: str = "pmem-both", gain: float = 1.5, blocks: int = 6) -> None:
    """Paired runs of which those on ``to`` are ``gain`` times as fast."""
    for block in range(blocks):
        for placement, rate in (("ssd-both", 60_000), (to, 60_000 * gain)):
            tpcc(root, placement, block, rate * (1 + 0.01 * block))


value_of = partial(of_kind, Value)


@pytest.mark.parametrize(("baseline", "speed_up"), [("ssd-both", 1.5), ("pmem-both", 1 / 1.5)])
def test_the_measured_speed_up_is_of_b_over_a(tmp_path, baseline, speed_up):
    moved(tmp_path)
    (row,) = rows(tmp_path, baseline)
    assert value_of(row.measured).value == pytest.approx(speed_up)
    assert row.moved == ("data", "wal", "temp", "index")


@pytest.mark.parametrize(
    ("gain", "blocks", "marked"), [(1.5, 6, False), (5.0, 6, True), (5.0, 2, False)]
)
def test_what_was_measured_above_its_ceiling_is_marked(tmp_path, gain, blocks, marked):
    """The ceiling is of what moved; two repeats, whose interval covers 50 %, show nothing."""
    moved(tmp_path, "ssd-data-pmem-wal", gain, blocks)
    (row,) = rows(tmp_path)
    assert row.moved == ("wal",)
    assert value_of(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert row.above_ceiling == marked


def test_the_ceiling_of_planted_delays_is_that_of_their_part(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path), tpcc(tmp_path, rate=30_000, plant=("wal.sync=+400us",))]
    (row,) = explained(panels(runs, "placement", "ssd-both PLANTED wal.sync=+400us"), TierSources())
    assert row.moved == ("wal",)
    assert value_of(row.measured).value == pytest.approx(2.0)
    assert value_of(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)


def test_a_row_without_a_prediction_says_why_and_how_to_measure_what_is_missing(tmp_path):
    for placement in ("ssd-both", "pmem-both"):
        tpcc(tmp_path, placement)
    (row,) = rows(tmp_path)
    missing = of_kind(NotPredicted, row.predicted)
    assert missing.why == "no-baseline" and row.residual is None
    row = replace(row, predicted=NotPredicted(missing.why, ("ssd", "pmem by tmpfs")))
    view = ExplainedView((row,))
    assert view.to_measure.endswith("--suite baseline --tier ssd --tier pmem --emulate pmem")
    document = to_json(view)
    assert document["comparisons"][0]["predicted"] == {
        "value": None, "why": "no-baseline", "tiers": ["ssd", "pmem by tmpfs"]
    }  # fmt: skip
    assert document["correlation"]["rows"] == 0
    assert document["correlation"]["median_error"] is None


def test_each_arm_is_compared_with_the_baseline_alone(tmp_path: Path) -> None:
    """Rows of every two of three arms would have runs of both sides in common with others."""
    for block in range(2):
        for placement in ("ssd-both", "pmem-both", "ssd-data-pmem-wal"):
            tpcc(tmp_path, placement, block)
    assert {(row.a, row.b) for row in rows(tmp_path)} == {
        ("ssd-both", "pmem-both"), ("ssd-both", "ssd-data-pmem-wal")
    }  # fmt: skip


def on_model(root: Path, model: DeviceModel, rate: float, blocks: int = 6) -> None:
    for block in range(blocks):
        tpcc(root, "fast-both", block, rate * (1 + 0.01 * block), model=model)


def test_a_modelled_speed_up_is_of_runs_on_both_models_or_over_the_baseline(tmp_path):
    moved(tmp_path)
    assert of_kind(Missing, rows(tmp_path)[0].modelled).code == "no modelled runs"
    on_model(tmp_path, model_of(device_suite(tmp_path, "pmem", 10), "of-pmem"), 96_000)
    (row,) = rows(tmp_path)
    assert value_of(row.modelled).value == pytest.approx(1.6)
    assert "of-pmem" in str(row.models)
    assert row.modelled_residual == pytest.approx(1.5 / 1.6 - 1)
    on_model(tmp_path, model_of(device_suite(tmp_path, "ssd", 500), "of-ssd"), 80_000)
    (row,) = rows(tmp_path)
    assert value_of(row.measured).value == pytest.approx(1.5)
    modelled = value_of(row.modelled)
    assert modelled.value == pytest.approx(1.2)
    # Not scored on this host: the devices' share of the time may be wrong by half on both sides.
    assert 0.8 < present(modelled.low) < 1
    assert 1.5 < present(modelled.high) < 1.8
    assert "of-ssd" in str(row.models) and "of-pmem" in str(row.models)


def test_a_score_says_what_a_model_is_of_and_a_device_that_is_not_here_has_no_measurement(tmp_path):
    moved(tmp_path)
    model = find_model("latency:20us")
    on_model(tmp_path, model, 75_000)
    _, alone = rows(tmp_path)
    assert value_of(alone.modelled).value == pytest.approx(1.25)
    assert of_kind(Missing, alone.measured).code == "modelled"
    assert alone.modelled_residual is None and alone.checked == ()
    score = Score("a1b2c3d4", model.name, model.digest, "pmem", "postgres", "tpcc", "tpcc postgres",
                  1, (), (ScoredMetric("throughput", 1.0, None, None),))  # fmt: skip
    ScoreStore(tmp_path).write(score)
    (row,) = rows(tmp_path)
    assert row.modelled_residual == pytest.approx(1.5 / 1.25 - 1)


def test_of_a_throttled_device_the_calls_count_that_did_not_wait_for_the_throttle(tmp_path):
    """12 MB/s, of which a mebibyte takes 87 ms: nineteen of twenty requests passed at once."""
    mebibyte: dict[str, Any] = {"measurement": "read", "access_size_bytes": 1 << 20}
    times = metric("operation_duration_ns", histogram([1e6] * 95 + [1700e6] * 5), **mebibyte)
    made = model_of(device_suite(tmp_path, "slow", 100, times), "made")
    assert made.burst_bytes == {"read": pytest.approx(21e6, rel=0.15)}
    assert made.points["read"][-1].durations.quantiles[-1] == pytest.approx(1e6, rel=0.01)


def test_a_model_keeps_the_kernel_s_time_of_small_requests(tmp_path):
    made = model_of(device_suite(tmp_path, "ssd", 100), "made")
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(made))
    of_calls = load_model(path).processor_ns
    # The write before a sync is a call of its own.
    # The write before a sync is a call of its own.
    assert of_calls == {"read": 25_000, "write": 25_000, "sync": pytest.approx(20_000, rel=0.01)}


def test_a_model_keeps_what_requests_of_a_size_move_together(tmp_path):
    labels: dict[str, Any] = {"measurement": "bulk_read", "access_size_bytes": 16384}
    bulk = metric("bandwidth_bytes_per_second", [3e8, 2e8, 4e8], "higher", **labels)
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100, bulk), "made")))
    rates = [point.rate for point in load_model(path).points["read"]]
    assert rates == [41_000_000, 300_000_000]


def test_a_model_keeps_what_work_before_a_call_adds(tmp_path):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    after_work = load_model(path).after_work
    assert {work.processor_ns for work in after_work.values()} == {25_000}
    longer = [after_work[operation].longer_ns for operation in OPERATIONS]
    assert longer == pytest.approx([10_000] * 3, rel=0.05)


# How well speed-ups are predicted -------------------------------------------------


def row(
    predicted: float | None, modelled: float | None, measured: float | None, workload: str = "tpcc"
) -> Explained:
    """A comparison with intervals of a tenth; None of what there is not."""
    by_models, real = (
        Value(value, value * 0.9, value * 1.1) if value else Missing("no modelled runs")
        for value in (modelled, measured)
    )
    by_laws = (
        Predicted(predicted, predicted * 0.9, predicted * 1.1, 1.0, 9.0, 1.0)
        if predicted
        else NotPredicted(Unpredictable.NO_TRACE)
    )
    where = f"postgres 18.4, {workload}"
    return Explained(
        "postgres", workload, where, "ssd-both", "pmem-both", (), ("wal",), Missing("no waits"),
        by_laws, (), by_models, real,
    )  # fmt: skip


FIELDS = ["rows", "rho", "rho_low", "rho_high", "p", "slope", "r2", "median_error", "largest_error"]


def test_over_all_rows_both_methods_are_correlated_with_what_was_measured():
    """The predictions are 10 % too low, the models in the wrong order; rows that lack a side, or
    are of another device than is here, do not count."""
    measured = [1.1, 1.5, 2.0, 4.0, 9.0]
    workloads = ["tpcc", "ycsb", "tpcc", "ycsb", "tpcc"]
    given = [
        row(real / 1.1, model, real, workload)
        for real, model, workload in zip(measured, measured[::-1], workloads, strict=True)
    ]
    others = [row(None, None, 3.0), row(5.0, 5.0, None)]
    document = to_json(ExplainedView((*given, *others)))
    whole, modelled = document["correlation"], document["modelled_correlation"]
    assert list(whole) == FIELDS
    assert (whole["rows"], whole["rho"], whole["rho_high"]) == (5, 1.0, 1.0)
    assert whole["p"] == pytest.approx(2 / 120)
    assert whole["median_error"] == pytest.approx(0.1)
    assert whole["largest_error"] == pytest.approx(0.1)
    assert (modelled["rows"], modelled["rho"]) == (5, -1.0)
    assert modelled["largest_error"] == pytest.approx(9 / 1.1 - 1)
    parts = [
        (part["engine"], part["workload"], part["correlation"]["rows"], part["correlation"]["rho"])
        for part in document["by_engine_and_workload"]
    ]
    assert parts == [("postgres", "tpcc", 3, None), ("postgres", "ycsb", 2, None)]
    comparisons = document["comparisons"]
    assert len(comparisons) == 7
    assert comparisons[0]["residual"] == pytest.approx(0.1)
    assert comparisons[0]["predicted"]["low"] == pytest.approx(0.9)
    assert [comparison["predicted"]["value"] for comparison in comparisons[5:]] == [None, 5.0]
    assert comparisons[5]["predicted"]["why"] == "no-trace"


def test_identical_arms_are_no_evidence_of_a_correlation():
    """A prediction of no change that holds has no error, and no order."""
    document = to_json(ExplainedView((row(1.0, None, 1.0),) * 6))
    assert document["correlation"] == dict.fromkeys(FIELDS) | {
        "rows": 6, "median_error": 0.0, "largest_error": 0.0
    }  # fmt: skip


# What devices of zero latency could gain at most ----------------------------------


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


ARMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "ssd-both": ((), "ssd"),
    "ssd-data-pmem-wal": (("wal",), "pmem"),
    "pmem-data-ssd-wal": (("data",), "pmem"),
    "pmem-both": (("wal", "data"), "pmem"),
}


def advised(
    root: Path,
    gains: Mapping[str, float],
    blocks: int = 8,
    looks: int = 1,
    arms: Mapping[str, tuple[tuple[str, ...], str]] = ARMS,
) -> list[Answer]:
    """Return the answers where arms are so many times as fast as today's tier."""
    noise = [[1 + 0.01 * ((block * wave) % 5) for wave in range(1, 6)] for block in range(blocks)]
    runs = [
        tpcc(
            root,
            name,
            block,
            60_000 * gains.get(name, 1) * noise[block][arm],
            looks=looks,
            sync_us=400 / gains.get(name, 1),
        )
        for block in range(blocks)
        for arm, name in enumerate(arms)
    ]
    today, *trials = trials_of(runs, arms)
    return answers(today, trials, runs)


def asked(advice: list[Answer]) -> list[tuple[str, str, str]]:
    return [(answer.group.a.name, answer.group.b.name, answer.group.verdict) for answer in advice]


def test_the_smallest_move_that_gains_all_comes_first(tmp_path: Path) -> None:
    advice = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3})
    assert asked(advice) == [
        ("ssd-both", "ssd-data-pmem-wal", "faster"),
        ("ssd-data-pmem-wal", "pmem-both", "no difference"),
        ("ssd-both", "pmem-data-ssd-wal", "no difference"),
    ]
    value = advice[0].to_json()["value"]
    assert value["low"] < 3 < value["high"]
    assert value["value"] == pytest.approx(3, rel=0.05)
    (why,) = advice[0].to_json()["why"]
    assert (why["part"], why["operation"]) == ("wal", "sync") and why["text"] in advice[0].sentence
    assert next(lines(advice)) == advice[0].sentence
    assert "in 0.9 % of the time" in advice[2].sentence  # the data


def test_the_part_that_gains_most_alone_moves_first(tmp_path: Path) -> None:
    """And everything, where none gains alone."""
    gains = {"ssd-data-pmem-wal": 2, "pmem-data-ssd-wal": 1.5, "pmem-both": 4}
    assert asked(advised(tmp_path / "a", gains)) == [
        ("ssd-both", "ssd-data-pmem-wal", "faster"),
        ("ssd-data-pmem-wal", "pmem-both", "faster"),
        ("ssd-both", "pmem-data-ssd-wal", "faster"),
    ]
    first, *others = asked(advised(tmp_path / "b", {"pmem-both": 4}))
    assert first == ("ssd-both", "pmem-both", "faster")
    assert {b for _, b, _ in others} == {"ssd-data-pmem-wal", "pmem-data-ssd-wal"}


def test_over_several_tiers_every_two_arms_are_one_family(tmp_path: Path) -> None:
    """The results choose which of them are compared, so all of them count."""
    arms = {**ARMS, "nvme-data-ssd-wal": (("data",), "nvme")}
    gains = {"ssd-data-pmem-wal": 3, "pmem-both": 3, "nvme-data-ssd-wal": 2}
    first, more, *_ = advised(tmp_path, gains, arms=arms)
    families = [present(present(answer.group.deciding).decision).family for answer in (first, more)]
    assert families == [4, 6]


def test_nothing_moves_where_nothing_gains_and_few_pairs_decide_nothing(tmp_path: Path) -> None:
    advice = advised(tmp_path / "a", {})
    assert {verdict for _, _, verdict in asked(advice)} == {"no difference"}
    assert not any(answer.undecided for answer in advice)
    advice = advised(tmp_path / "b", {"pmem-both": 3}, blocks=2)
    assert all(answer.undecided for answer in advice)
    assert advice[0].to_json()["pairs"] == 2


@pytest.mark.parametrize(("blocks", "verdict"), [(7, "not resolvable"), (8, "faster")])
def test_all_arms_are_one_family(tmp_path: Path, blocks: int, verdict: str) -> None:
    """With 7 pairs, a difference could be shown in one comparison, and not in three."""
    advice = advised(tmp_path, {"ssd-data-pmem-wal": 3, "pmem-both": 3}, blocks, looks=2)
    assert advice[0].group.verdict == verdict


@pytest.mark.parametrize("arms", [2, 3])
def test_the_command_for_more_repeats_counts_the_look_that_it_adds(tmp_path: Path, arms: int):
    """With as many repeats as it has, a difference is shown; with one less, none can be."""
    places = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")[:arms]

    def groups(blocks: int, looks: int) -> list[Group]:
        runs = [
            tpcc(tmp_path / f"{blocks}-{looks}", place, block, 60_000 * (1 + arm), looks=looks)
            for block in range(blocks)
            for arm, place in enumerate(places)
        ]
        (panel,) = panels(runs, "placement", "ssd-both")
        return list(panel.groups)

    *_, option, repeats = more_repeats(groups(2, 1)).split()
    assert option == "--repeats"
    for blocks, verdict in ((int(repeats), "faster"), (int(repeats) - 1, "not resolvable")):
        assert {group.verdict for group in groups(blocks, 2)} == {verdict}


def test_the_plan_says_what_it_expects_and_then_how_far_off_that_was(tmp_path: Path) -> None:
    """As the comparison of the same arms does; a placement on a tier without a baseline is left
    out."""
    runs = [
        tpcc(tmp_path, placement, block, 60_000 * gain)
        for block in range(6)
        for placement, gain in (("ssd-both", 1.0), ("pmem-both", 1.5))
    ]
    today, trial = trials_of(runs, {name: ARMS[name] for name in ("ssd-both", "pmem-both")})
    placements = {
        f"{tier}-both": dict.fromkeys(("data", "wal", "temp", "index"), tier)
        for tier in ("pmem", "nvme")
    }
    sources = TierSources()
    assert expected([], placements, sources) == expected(today.runs, placements, sources) == []
    for tier, us in (("ssd", 100.0), ("pmem", 3.0)):
        baseline_suite(tmp_path, tier, dict.fromkeys(("read", "write", "sync"), us))
    sources = TierSources.of(Store(tmp_path).runs(), ())
    (before,) = expected(today.runs, placements, sources)
    (row,) = rows(tmp_path)
    assert before.b == "pmem-both" and before.predicted == row.predicted
    assert before.to_json()["residual"] is before.to_json()["measured"] is None
    (after,) = met([before], today, [trial])
    document = after.to_json()
    assert document["measured"]["value"] == pytest.approx(1.5)
    assert document["residual"] == pytest.approx(present(row.residual))
    assert before.sentence.rstrip(".") in after.sentence
    assert met([before], today, []) == []
