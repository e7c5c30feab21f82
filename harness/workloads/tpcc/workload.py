"""TPC-C as a workload: its parameters, its data, its drivers, and the measured phase.

========== ==========================================================================
throughput users call transactions for a ramp-up and a measured window
durability the same with a journal; the server is killed in the window, started
           again, and acknowledged commits are looked up (durability.py). It has no rates.
========== ==========================================================================

Every run begins on restored data whose files were evicted: the ramp-up warms the caches.
Afterwards the twelve consistency conditions are checked, for every driver.

The metrics of a throughput run; none of them is a metric of the TPC's:

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
instance_new_orders_per_minute,       by ``instance``, of several databases at once: the metrics
instance_transactions_per_minute,     without ``instance_`` are their sum, and all their latencies
instance_transaction_duration_ns
worst_instance_new_orders_per_minute, the lowest of them
worst_instance_transactions_per_minute
worst_instance_share                  the share of the sum that has the lowest new_orders_per_minute
window_duration_ns                    length of the measured window
window_<counter>                      what the window added to a counter
===================================== ==================================================

A transaction that was done is one that was committed, only read, or rolled back as the
specification requires it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from harness import hdr
from harness.drivers.result import DriverResult, WindowCounters
from harness.drivers.validity import Nouns
from harness.engine import Engine
from harness.errors import RunFailed, UsageError, naming_instance
from harness.experiment.placement import Part
from harness.store.result import Better, Check, Metric
from harness.warnings import RunWarning
from harness.workload import Outcome, Session
from harness.workloads.tpcc.consistency import (
    Traces,
    check_conditions,
    check_counted,
    check_population,
    check_remote,
    loaded_traces,
    read_traces,
)
from harness.workloads.tpcc.drivers import HammerDbDriver, TpccLoadgen, remote_lines
from harness.workloads.tpcc.durability import measure_durability
from harness.workloads.tpcc.params import TERMINALS_PER_WAREHOUSE, TpccParams, shares
from harness.workloads.tpcc.population import estimate_bytes, row_counts
from harness.workloads.window import (
    DrivenWorkload,
    LoadingDriver,
    check_mix,
    instance_metrics,
    of_instances,
    window_outcome,
)

#: More deliveries than this share that find a district without orders are reported (clause
#: 2.7.4.2): they have less to do, and are sooner done.
_SKIPPED = 0.01
#: Share of the New-Orders that roll back (clause 2.4.1.4).
ROLLED_BACK = 0.01
#: Connections in use for more than this share of the time are waited for, now and then.
_BUSY = 0.8
_NS_PER_MIN = 60e9

NOUNS = Nouns(
    operation="transaction",
    user="user",
    users_option="--users",
    counts=("count", "rolled_back_count", "skipped_count", "retried_count", "unfinished_count"),
)


DRIVERS: Mapping[str, Callable[[TpccParams], LoadingDriver]] = {
    "loadgen": TpccLoadgen,
    "hammerdb": HammerDbDriver,
}


class Tpcc(DrivenWorkload[TpccParams]):
    """Five transactions over an order-entry database, offered by a client program."""

    name = "tpcc"
    drivers = DRIVERS

    def size_key(self, params: TpccParams) -> dict[str, Any]:
        return {"warehouses": params.warehouses}

    def tables(self, params: TpccParams, engine: Engine) -> Collection[str]:
        return (*row_counts(1), "order_line")

    def estimate_bytes(self, params: TpccParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.tpcc.params."""
        return estimate_bytes(params)

    def check_engine(
        self,
        params: TpccParams,
        driver: str,
        engine: Engine,
        settings: Mapping[str, str],
    ) -> None:
        """Check that the driver is there, and can drive this engine."""
        if params.test == "durability":
            _check_durability(driver, engine)
        super().check_engine(params, driver, engine, settings)

    def spends_data(self, params: TpccParams) -> bool:
        """Return True: every transaction but two writes."""
        return True

    def measure(self, params: TpccParams, session: Session) -> Outcome:
        driver, engine = self.drivers[session.driver](params), session.engine
        if params.test == "durability":
            return measure_durability(params, session, engine)
        # Restored data are as they were loaded; those of a user's server have a history.
        external = session.engine.kind == "external"
        traces = read_traces(engine) if external else loaded_traces(params.warehouses)
        counted = WindowCounters(session)
        driven = driver.drive(session, counted.drives())
        for number, result in enumerate(driven.each, 1):
            with naming_instance(number, len(driven.each)):
                _expect_work(params, result)
        return window_outcome(
            driver,
            driven,
            counted,
            NOUNS,
            params.outline(),
            users=params.users * len(driven.each),
            closed=params.rate is None and not params.think_time,
            rates=[*rates(driven), *instance_metrics(driven, NOUNS, rates)],
            checks=of_instances(
                [
                    self._checks(params, instance, result, traces, driver)
                    for instance, result in zip(session.each, driven.each, strict=True)
                ]
            ),
            warnings=list(own_warnings(params, driven)),
            not_kept={str(n): why for n, why in driver.not_kept.items()},
        )

    def _checks(
        self,
        params: TpccParams,
        session: Session,
        driven: DriverResult,
        before: Traces,
        driver: LoadingDriver,
    ) -> list[Check]:
        """Check the load and the data of one database."""
        engine, counts = session.engine, driven.finished_counts
        counted = [] if counts is None else [check_counted(counts, before, engine, params.users)]
        return [
            check_mix(driven, NOUNS, shares(params.mix), params.users, ROLLED_BACK),
            check_remote(params.warehouses, engine, remote_lines(driver, engine)),
            check_population(params.warehouses, engine),
            *counted,
            *check_conditions(engine, session.progress, driver.not_kept),
        ]


def rates(driven: DriverResult) -> Iterator[Metric]:
    """Yield the rates of a window, reported by the driver or computed from its counts."""
    done = {
        name: operation.count
        for name, operation in driven.operations.items()
        if operation.count is not None
    }
    scale, offered = _NS_PER_MIN / driven.window_ns, driven.offered_count
    per_minute: dict[str, float | None] = {
        "new_orders_per_minute": done["new_order"] * scale if "new_order" in done else None,
        "transactions_per_minute": sum(done.values()) * scale if done else None,
        "database_transactions_per_minute": None,
        "offered_transactions_per_minute": None
        if offered is None
        else offered * _NS_PER_MIN / driven.window_ns,
        **driven.reported_per_minute,
    }
    for name, value in per_minute.items():
        if value is not None:
            better: Better = "none" if name.startswith(("database", "offered")) else "higher"
            yield Metric(name, "1/min", better, value=value)


def _check_durability(driver: str, engine: Engine) -> None:
    if driver != "loadgen":
        raise UsageError(
            f"test durability with driver {driver}",
            "it writes no journal of acknowledged commits",
            "use --driver loadgen",
        )
    if engine.kind != "managed":
        raise UsageError(
            f"test durability on {engine.name} ({engine.kind})",
            "the harness kills the server, and may kill only its own",
            "let the harness run the engine",
        )
    if engine.lost_when_killed:
        raise UsageError(
            f"test durability on {engine.name}",
            f"{engine.lost_when_killed} is lost with the server's process, by design",
            "choose another engine",
        )


def _expect_work(params: TpccParams, driven: DriverResult) -> None:
    """Raise RunFailed for a window in which nothing was done: its rate would be 0."""
    wanted = shares(params.mix)["new_order"] > 0
    values = {metric.name: metric.value for metric in rates(driven)}
    if driven.done_count != 0 and (values.get("new_orders_per_minute") or not wanted):
        return
    think = "; users that think need more of them" if params.think_time else ""
    raise RunFailed(
        f"measure {params.users} users for {params.duration} on {params.warehouses} warehouses",
        "not one transaction was done in the measured window"
        if driven.done_count == 0
        else "not one New-Order was committed in the measured window",
        f"give it a longer --duration{think}",
    )


def own_warnings(params: TpccParams, driven: DriverResult) -> Iterator[RunWarning]:
    """Yield the warnings about the window that TPC-C alone has."""
    yield from _skipped(driven)
    yield from _shared_connections(params, driven)
    yield from _crowded(params)


def _shared_connections(params: TpccParams, driven: DriverResult) -> Iterator[RunWarning]:
    """Warn about transactions that waited for a connection, counted by Little's law."""
    times = [
        hdr.decode(operation.latency_hdr)
        for operation in driven.operations.values()
        if operation.latency_hdr
    ]
    mean = (
        sum(histogram.mean * histogram.total for histogram in times if histogram.total)
        / driven.window_ns
    )
    connections = params.connections * len(driven.each)
    if params.connections < params.users and mean > _BUSY * connections:
        yield RunWarning(
            code="shared-connections",
            problem="transactions waited in the client for a connection",
            context=f"{mean:.1f} transactions on average were in progress or waited for one of "
            f"{connections} connections: their latencies include that wait",
            hint="use more connections: -p connections=…",
        )


def _crowded(params: TpccParams) -> Iterator[RunWarning]:
    most = TERMINALS_PER_WAREHOUSE * params.warehouses
    if params.think_time and params.users > most:
        yield RunWarning(
            code="more-users-than-terminals",
            problem="more users with think time than terminals",
            context=f"{params.users} users, where {params.warehouses} warehouses have "
            f"{most} terminals (clause 4.2.2): rates exceed what the specification allows",
            hint=f"use {most} users, or more warehouses",
        )


def _skipped(driven: DriverResult) -> Iterator[RunWarning]:
    delivery = driven.operations.get("delivery")
    skipped, done = (delivery.skipped_count, delivery.count) if delivery else (None, 0)
    if skipped and done and skipped > max(1.0, _SKIPPED * done):
        yield RunWarning(
            code="skipped-deliveries",
            problem="deliveries found no order in some district: rates are too high",
            context=f"{skipped} of {done} deliveries",
            hint="use the deck, or a mix with at most one delivery per ten new orders",
        )


WORKLOAD = Tpcc()
