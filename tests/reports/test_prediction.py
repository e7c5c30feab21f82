"""Speed-ups that the laws give from baselines of tiers, of made-up runs with known answers."""

from pathlib import Path
from typing import Any

import pytest
from explained_runs import baseline_suite, calls, tpcc
from narrowed import of_kind, present
from report_runs import Case, metric, with_artifacts, write

from harness.metrics import load_of
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.arm import Arm
from reports.explain.baseline import Baseline
from reports.explain.demand import demand_of
from reports.explain.devices import TierSources
from reports.explain.laws import commits_of
from reports.explain.prediction import NotPredicted, Predicted, Unpredictable, predict

#: As the calls of the made-up runs take there.
SSD = {"read": 90.0, "write": 60.0, "sync": 400.0}
PMEM = {"read": 3.0, "write": 3.0, "sync": 4.0}


def arm(*runs: StoredRun) -> Arm:
    return Arm(runs[0].spec.placement.name if runs[0].spec.placement else "", "", runs)


def predicted(root: Path, a: StoredRun, b: StoredRun) -> Predicted | NotPredicted:
    return predict(arm(a), arm(b), TierSources.of(Store(root).runs(), ()))


def refused(root: Path, a: StoredRun, b: StoredRun) -> NotPredicted:
    return of_kind(NotPredicted, predicted(root, a, b))


def test_a_single_user_takes_the_sum_of_its_phases(tmp_path):
    """590 µs of processor time, one append of 400 µs, and a tenth of a read of 90 µs."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD)
    baseline_suite(tmp_path, "pmem", PMEM)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    on_a, on_b = 590 + 400 + 9, 590 + 4 + 0.3
    assert law.value == pytest.approx(on_a / on_b, rel=1e-3)
    assert law.bound_low == pytest.approx(law.value) == pytest.approx(law.bound_high)
    # 1,000 transactions in a second; the sizes of calls are not stored.
    assert law.law_of_a == pytest.approx(1000 / on_a, rel=1e-3)


def test_processor_time_of_calls_is_that_of_the_tier(tmp_path):
    """The append has 40 µs of processor time on A, and on B as much as it takes there: 4 µs."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD, kernel_us=40.0)
    baseline_suite(tmp_path, "pmem", PMEM, kernel_us=4.0)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    on_a = 590 + 360 + 5
    on_b = 590 - 1.1 * 36
    assert law.value == pytest.approx(on_a / on_b, rel=1e-3)


def test_work_after_a_call_that_waits_takes_longer(tmp_path):
    """The work before a commit takes 80 µs on A and 50 µs on B, so a transaction 30 µs less."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD, after_work_us=80.0)
    baseline_suite(tmp_path, "pmem", PMEM, after_work_us=50.0)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.value == pytest.approx((590 + 409) / (590 - 30 + 4 + 0.3), rel=1e-3)


def test_work_that_is_less_than_the_baseline_s_shrinks_in_proportion(tmp_path):
    """There are 590 µs for a commit and a tenth of a read, of the 800 µs of the baseline's work."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD, after_work_us=800.0)
    baseline_suite(tmp_path, "pmem", PMEM, after_work_us=400.0)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    on_b = 590 - 590 / 1.1 / 800 * 400
    assert law.value == pytest.approx((590 + 409) / (on_b + 4 + 0.3), rel=1e-3)


def test_the_run_has_the_times_of_a_and_the_baselines_the_ratio(tmp_path):
    """A's syncs took half as long as in its baseline, so B's are taken to do so, too."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD | {"sync": 800.0})
    baseline_suite(tmp_path, "pmem", PMEM | {"sync": 40.0})
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.value == pytest.approx((590 + 400 + 9) / (590 + 20 + 0.3), rel=1e-3)


def test_a_sync_takes_as_much_longer_on_b_as_on_a(tmp_path):
    """A's took 300 µs longer than in its baseline, as where it waited for a processor."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "slow-both"))
    baseline_suite(tmp_path, "ssd", SSD | {"sync": 100.0})
    baseline_suite(tmp_path, "slow", SSD | {"sync": 500.0})
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.value == pytest.approx((590 + 400 + 9) / (590 + 500 + 300 + 9), rel=1e-3)


def test_the_ends_are_of_the_slowest_and_fastest_repeats(tmp_path):
    """B's repeats give the ends; A's own times are the run's, its repeats change the ratio to B."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD, repeats=(0.5, 1.0, 1.5))
    baseline_suite(
        tmp_path, "pmem", {call: us / 10 for call, us in SSD.items()}, repeats=(1.0, 2.0)
    )
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    on_a = 590 + 409
    # The sync of 400 µs took 200 µs longer than A's fastest repeat, and two thirds of its slowest.
    assert law.low == pytest.approx(on_a / (590 + 80 + 200 + 0.9 * 2.0 / 0.5), rel=5e-3)
    assert law.high == pytest.approx(on_a / (590 + (40 + 0.9) / 1.5), rel=5e-3)


@pytest.mark.parametrize(
    ("background", "commits"), [(40, 1.0), (1000, 2.0)], ids=["WAL writer", "log writer"]
)
def test_sessions_wait_for_a_log_writer(tmp_path, background, commits):
    """PostgreSQL's syncs a little of its own accord; MySQL's sessions wait for theirs."""
    run = tpcc(tmp_path, users=1)
    syncs = [("foreground", 1000), ("background", background)]
    with_artifacts(run, {"io-operations": [log_syncs(*each) for each in syncs]})
    load = present(load_of("tpcc", run.spec.params))
    demand = present(demand_of(run, load))
    suite = baseline_suite(tmp_path, "ssd", SSD)
    tiers = {"wal": present(Baseline.of("ssd", [suite]))}
    assert commits_of(demand, tiers) == pytest.approx(commits)


def log_syncs(role: str, made: int) -> dict[str, Any]:
    """Counters of syncs of 8 KiB."""
    names = ("errors", "bytes", "timed", "ns", "delayed", "delay_ns", "sequential", "direct",
             "durable", "submitted", "extending", "datasync", "queued")  # fmt: skip
    counters = dict.fromkeys(names, 0) | {"calls": made, "dirtied_bytes": 8192 * made}
    return {"part": "wal", "operation": "sync", "role": role, **counters, "sizes": {}}


def test_only_moved_parts_count(tmp_path):
    a, b = (tpcc(tmp_path, p, users=1) for p in ("ssd-both", "ssd-data-pmem-wal"))
    baseline_suite(tmp_path, "ssd", SSD)
    baseline_suite(tmp_path, "pmem", PMEM)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.value == pytest.approx((590 + 400 + 9) / (590 + 4 + 9), rel=1e-3)


def test_tiers_without_a_baseline_are_named(tmp_path):
    a, b = (tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both"))
    missing = refused(tmp_path, a, b)
    assert (missing.why, missing.tiers) == (Unpredictable.NO_BASELINE, ("ssd", "pmem"))
    baseline_suite(tmp_path, "ssd", SSD)
    assert refused(tmp_path, a, b).tiers == ("pmem",)


def test_reads_that_a_page_cache_may_serve_are_not_predicted(tmp_path):
    """On pmem (DAX) all reads reach the tier; which of them a page cache serves is not known."""
    a, b = (tpcc(tmp_path, placement, users=1) for placement in ("pmem-both", "ssd-both"))
    baseline_suite(tmp_path, "ssd", SSD | {"read": 5000.0})
    baseline_suite(tmp_path, "pmem", PMEM)
    assert refused(tmp_path, a, b).why == Unpredictable.PAGE_CACHE_UNKNOWN


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        (Unpredictable.NO_PART_MOVED, {"placement": "ssd-both"}),
        (Unpredictable.DELAYS_PLANTED, {"plant": ("wal.sync=+400us",)}),
        (Unpredictable.MEMORY_WITHOUT_COUNTER, {"placement": "data=ssd,wal=ssd,memory=pmem"}),
    ],
)
def test_comparisons_without_a_law(tmp_path: Path, why: Unpredictable, changes: Any) -> None:
    a, b = tpcc(tmp_path), tpcc(tmp_path, **{"placement": "pmem-both"} | changes)
    assert refused(tmp_path, a, b).why == why


def test_a_set_rate_has_no_law(tmp_path):
    a, b = (tpcc(tmp_path, p, set_rate=900.0) for p in ("ssd-both", "pmem-both"))
    assert refused(tmp_path, a, b).why == Unpredictable.RATE_SET


def query_run(root: Path, placement: str, **counts: float) -> StoredRun:
    """A query of 4 s: 1 s of processor time, 1,000 reads of 1 MiB, of which all were fetched."""
    labels = {"query": "1", "part": "data", "operation": "read"}
    metrics = [
        metric("query_duration_ns", 4e9, "lower", query="1"),
        metric("query_cpu_ns", 1e9, "lower", query="1"),
        metric("query_io_calls_count", 1000, **labels),
        metric("query_io_bytes", 1000 << 20, **labels),
        metric("query_io_read_bytes", counts.get("fetched", 1000 << 20), query="1"),
        metric("other_cpu_share", counts.get("others", 0.0)),
        metric("io_calls_count", 1000, part="data", operation="read", role="foreground"),
        metric("io_duration_ns", calls(3000.0, 1000), part="data", operation="read",
               role="foreground"),
    ]  # fmt: skip
    return write(root, Case(placement=placement, metrics=metrics))


@pytest.mark.parametrize(("fetched", "waiting_s"), [(1000 << 20, 3.0), (250 << 20, 0.75)])
def test_a_query_computes_and_then_waits_for_what_was_fetched(tmp_path, fetched, waiting_s):
    a, b = (query_run(tmp_path, p, fetched=fetched) for p in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD | {"read": 3000.0})
    baseline_suite(tmp_path, "pmem", PMEM | {"read": 100.0})
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    on_b = 1 + waiting_s / 30
    assert law.value == pytest.approx((1 + waiting_s) / on_b, rel=1e-3)
    assert law.bound_low == pytest.approx(max(1, waiting_s) / on_b, rel=1e-3)
    assert law.bound_high == pytest.approx(1 + waiting_s, rel=1e-3)
    assert law.law_of_a == pytest.approx(4 / (1 + waiting_s), rel=1e-3)


@pytest.mark.parametrize(("direct", "waiting_s"), [(0, 0.5), (1000, 3.0)])
def test_the_kernel_reads_ahead_of_a_scan(tmp_path, direct, waiting_s):
    """16 threads of the baseline read 1 MiB each in 24 ms: 1,000 of them take 1.5 s, of which the
    query computes for 1 s. Past the page cache, nothing is read ahead."""
    a, b = (query_run(tmp_path, p) for p in ("ssd-both", "pmem-both"))
    counters = log_syncs("foreground", 1000) | {"operation": "read", "part": "data"}
    with_artifacts(a, {"io-operations": [counters | {"sequential": 1000, "direct": direct}]})
    baseline_suite(tmp_path, "ssd", SSD | {"read": 24_000.0 if not direct else 3000.0})
    baseline_suite(tmp_path, "pmem", PMEM | {"read": 0.001})
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.law_of_a == pytest.approx(4 / (1 + waiting_s), rel=1e-2)


def test_a_query_shares_the_processors_with_other_programs(tmp_path):
    """79 others leave it one of 80 processors; 160 others leave it 80 / 161."""
    a, b = (query_run(tmp_path, p, fetched=0, others=79 / 80) for p in ("ssd-both", "pmem-both"))
    baseline_suite(tmp_path, "ssd", SSD)
    baseline_suite(tmp_path, "pmem", PMEM)
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.law_of_a == pytest.approx(4.0, rel=1e-3)
    a, b = (query_run(tmp_path, p, fetched=0, others=2.0) for p in ("ssd-both", "pmem-both"))
    law = of_kind(Predicted, predicted(tmp_path, a, b))
    assert law.law_of_a == pytest.approx(4.0 * 80 / 161, rel=1e-3)
