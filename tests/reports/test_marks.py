"""Marks of comparisons that the laws miss by far, of made-up runs with a planted difference."""

from typing import Any

import msgspec
import pytest
from explained_runs import baseline_suite, tpcc
from report_runs import metric, with_metrics

from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.explain.devices import TierSources
from reports.explain.marks import Mechanism, mark_of


def also(run: StoredRun, more: dict[str, Any]) -> StoredRun:
    """The run with one more metric."""
    return with_metrics(run, [*map(msgspec.structs.asdict, run.result.metrics), more])


@pytest.mark.parametrize("residual", [None, 0.4, -0.4])
def test_close_predictions_have_no_mark(tmp_path, residual):
    a, b = (tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both"))
    assert mark_of([a], [b], residual) is None


def test_runs_that_are_equal_explain_nothing(tmp_path):
    a, b = (tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both"))
    mark = mark_of([a], [b], 0.5)
    assert mark is not None
    assert mark.mechanism is None


@pytest.mark.parametrize(
    ("name", "a_value", "b_value", "mechanism"),
    [
        ("client_cpu_per_transaction_ns", 600_000.0, 1_000.0, Mechanism.PROCESSOR_TIME),
        ("stolen_cpu_share", 0.4, 0.0, Mechanism.STOLEN_TIME),
        ("other_cpu_share", 0.4, 0.0, Mechanism.OTHER_PROGRAMS),
        ("window_postgres_checkpoint_written_bytes", 1e9, 1.0, Mechanism.CHECKPOINT),
    ],
)
def test_what_differs_in_the_direction_of_the_residual_is_named(
    tmp_path, name, a_value, b_value, mechanism
):
    a, b = (
        also(tpcc(tmp_path, placement), metric(name, value))
        for placement, value in (("ssd-both", a_value), ("pmem-both", b_value))
    )
    mark = mark_of([a], [b], 0.5)
    assert mark is not None
    assert mark.mechanism is mechanism
    against = mark_of([a], [b], -0.5)
    assert against is not None
    assert against.mechanism is None


def test_a_device_that_is_faster_than_its_baseline_is_named(tmp_path):
    """Syncs of 400 µs on both: on B, where the throttle let them pass, its baseline has 2 ms."""
    a, b = (tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both"))
    calls = {"read": 90.0, "write": 60.0, "sync": 400.0}
    baseline_suite(tmp_path, "ssd", calls)
    baseline_suite(tmp_path, "pmem", calls | {"sync": 2000.0})
    mark = mark_of([a], [b], 0.5, TierSources.of(Store(tmp_path).runs(), ()))
    assert mark is not None
    assert mark.mechanism is Mechanism.SYNC_TIME
    assert (mark.a, mark.b) == pytest.approx((1.0, 0.2), rel=0.01)
