"""The figures of a run, with what each is defined as. None of them is a metric of the TPC's.

===================================== ==================================================
metric                                what it is
===================================== ==================================================
new_orders_per_minute                 committed New-Orders of the measured window; those
                                      that roll back by clause 2.4.1.4 are not counted
transactions_per_minute               all five, committed or only read
database_transactions_per_minute      as the server counts, from a driver that queries it
transaction_duration_ns               histogram by ``transaction``: from sending to the
                                      answer, or from the intended start where a rate is
                                      set; of those begun in the window. One without an
                                      answer counts with its age; left out where none was
                                      answered
transaction_percentile_ns             by ``transaction`` and ``percentile``, from a driver
                                      that keeps no histogram
transaction_count                     by ``transaction``: ended in the window, no rollback;
                                      where a rate is set, of those meant to start in it
transaction_rolled_back_count         New-Orders that rolled back as they should
transaction_skipped_count             deliveries (of transaction_count) that had nothing to
                                      deliver in a district or more
transaction_retried_count             attempts undone by deadlocks or serialization, or by
                                      the engine's procedure itself (InnoDB's Delivery)
transaction_unfinished_count          begun in the window, never answered
retried_count                         the same attempts by the server's error ``code``;
                                      ``in-procedure`` where the procedure made them
offered_transactions_per_minute       intended starts, where a rate is set
outstanding_count                     due and not answered, ``at`` begin and end of the
                                      window, where a rate is set
client_cpu_per_transaction_ns         of the client processes, by transactions done
server_cpu_per_transaction_ns         of the engine's processes, likewise; left out where it
                                      is too little for the kernel's ticks of 10 ms
wait_ns                               of the mean latency, by ``resource`` (docs/waits.md)
wait_cpu_ns                           of the mean latency, on processors
wait_accounted_share                  of the mean latency, what they add up to
wait_moments_count                    how often sessions were observed
window_duration_ns                    length of the measured window
window_<counter>                      what the window added to a counter
===================================== ==================================================

A transaction that was done is one that was committed, only read, or rolled back as the
specification requires it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.drivers.validity import Nouns
from harness.store.result import Metric
from harness.workloads.tpcc.drivers import DriverResult
from harness.workloads.window import window_metrics

NOUNS = Nouns(
    operation="transaction",
    user="user",
    users_option="--users",
    counts=("count", "rolled_back_count", "skipped_count", "retried_count", "unfinished_count"),
)


def metrics(driven: DriverResult, counters: Mapping[str, float]) -> list[Metric]:
    """All of a run; those that driver or host do not report are left out."""
    return window_metrics(driven, counters, NOUNS, list(_rates(driven)))


def _rates(driven: DriverResult) -> Iterator[Metric]:
    per_minute = {
        "transactions_per_minute": driven.transactions_per_minute,
        "database_transactions_per_minute": driven.database_transactions_per_minute,
    }
    yield Metric("new_orders_per_minute", "1/min", "higher", value=driven.new_orders_per_minute)
    for name, value in per_minute.items():
        if value is not None:
            better = "higher" if name == "transactions_per_minute" else "none"
            yield Metric(name, "1/min", better, value=value)  # type: ignore[arg-type]
    if driven.offered_count is not None:
        offered = driven.offered_count * 60e9 / driven.window_ns
        yield Metric("offered_transactions_per_minute", "1/min", "none", value=offered)
