"""The measured phase: drive, count, and check the data that the transactions have left.

========== ==========================================================================
throughput users call transactions for a ramp-up and a measured window
durability the same with a journal; the server is killed in the window, started
           again, and acknowledged commits are looked up. It has no rates.
========== ==========================================================================

Every run begins on restored data whose files were evicted: the ramp-up warms the caches.
Afterwards the twelve consistency conditions are checked, for every driver.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness import hdr
from harness.drivers.result import WindowCallbacks, WindowCounters
from harness.drivers.validity import host_warnings, load_warnings, lost_without_power
from harness.engine import RunsSql
from harness.errors import HarnessError, RunFailed, UsageError
from harness.store.result import Check, Metric
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
from harness.workloads.tpcc.drivers import Driver, DriverResult
from harness.workloads.tpcc.durability import Journal, check_durability
from harness.workloads.tpcc.hammerdb import HammerDbDriver
from harness.workloads.tpcc.loadgen import Loadgen
from harness.workloads.tpcc.metrics import NOUNS, metrics
from harness.workloads.tpcc.params import TERMINALS_PER_WAREHOUSE, TpccParams, shares
from harness.workloads.window import check_mix, explain_window, window_outcome

#: More deliveries than this share that find a district without orders are reported (clause
#: 2.7.4.2): they have less to do, and are sooner done.
_SKIPPED = 0.01
#: Share of the New-Orders that roll back (clause 2.4.1.4).
_ROLLED_BACK = 0.01
#: Connections in use for more than this share of the time are waited for, now and then.
_BUSY = 0.8
#: The server is killed in this part of the window.
_KILL_FROM, _KILL_TO = 0.2, 0.9
#: A killed server may have to give back gigabytes of memory, or wait for its last writes.
_GONE_S = 60.0


DRIVERS: Mapping[str, Callable[[TpccParams], Driver]] = {
    "loadgen": Loadgen,
    "hammerdb": HammerDbDriver,
}


def measure(params: TpccParams, session: Session) -> Outcome:
    """See harness.workload.Workload.measure; the metrics are listed in metrics.py."""
    driver = DRIVERS[session.driver](params)
    if params.test == "durability":
        return _durability(params, session)
    engine = _sql(session)
    traces = _traces_before(params, session)
    counted = WindowCounters(session)
    driven = driver.drive(session, counted.drives())
    _expect_work(params, driven, shares(driver.mix)["new_order"] > 0)
    checks = [
        check_mix(driven, NOUNS, shares(driver.mix), params.users, _ROLLED_BACK),
        check_remote(params.warehouses, engine),
        check_population(params.warehouses, engine),
        *_committed(driven, traces, engine, params.users),
        *check_conditions(engine, session.progress, driver.not_kept),
    ]
    waits, counters = explain_window(
        driven, counted.counters(driven), params.users, _closed(params)
    )
    return window_outcome(
        driven,
        NOUNS,
        metrics(driven, counters),
        checks,
        [
            *_warnings(params, driven),
            *host_warnings(session.engine, driven, counted, params.client_hosts, driver.unseeded),
        ],
        waits,
        not_kept={str(n): why for n, why in driver.not_kept.items()},
    )


def _traces_before(params: TpccParams, session: Session) -> Traces:
    """Restored data are as they were loaded; those of a user's server have a history."""
    if session.engine.kind == "external":
        return read_traces(_sql(session))
    return loaded_traces(params.warehouses)


def _committed(
    driven: DriverResult, before: Traces, engine: RunsSql, users: int
) -> Iterator[Check]:
    if driven.committed_so_far is not None:
        yield check_counted(driven.committed_so_far, before, engine, users)


def _expect_work(params: TpccParams, driven: DriverResult, new_orders_expected: bool) -> None:
    """RunFailed for a window in which nothing was done: it would be a rate of 0, and no answer."""
    done = driven.done_count
    if done != 0 and (driven.new_orders_per_minute > 0 or not new_orders_expected):
        return
    think = "; users that think need more of them" if params.think_time else ""
    raise RunFailed(
        f"measure {params.users} users for {params.duration} on {params.warehouses} warehouses",
        "not one transaction was done in the measured window"
        if done == 0
        else "not one New-Order was committed in the measured window",
        f"give it a longer --duration{think}",
    )


def _sql(session: Session) -> RunsSql:
    engine = session.engine
    if not isinstance(engine, RunsSql):
        raise UsageError(f"tpcc on {engine.name}", "it does not run SQL", "choose another engine")
    return engine


def _closed(params: TpccParams) -> bool:
    return params.rate_per_s is None and not params.think_time


# Warnings ------------------------------------------------------------------------


def _warnings(params: TpccParams, driven: DriverResult) -> Iterator[RunWarning]:
    yield from load_warnings(driven, NOUNS, closed=_closed(params))
    yield from _skipped(driven)
    yield from _shared_connections(params, driven)
    yield from _crowded(params)


def _shared_connections(params: TpccParams, driven: DriverResult) -> Iterator[RunWarning]:
    """By Little's law, how many transactions were under way or waited for a connection."""
    times = [hdr.decode(one.duration_hdr) for one in driven.operations.values() if one.duration_hdr]
    mean = sum(one.mean * one.total for one in times if one.total) / driven.window_ns
    connections = params.connections
    if connections < params.users and mean > _BUSY * connections:
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


# Durability ---------------------------------------------------------------------


@dataclass
class _Killer:
    """Kills the server at a random moment of the window."""

    session: Session
    delay_s: float
    begun_ns: int | None = None
    killed_ns: int | None = None
    _timer: threading.Timer | None = None

    def begin(self) -> None:
        self.begun_ns = time.monotonic_ns()
        self._timer = threading.Timer(self.delay_s, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def _kill(self) -> None:
        self.killed_ns = time.monotonic_ns()
        with suppress(HarnessError):  # a process that the kernel is slow to end: see make_sure
            self.session.engine.kill()

    @property
    def killed_after_ns(self) -> int:
        """From the window's beginning to the kill."""
        assert self.begun_ns is not None and self.killed_ns is not None
        return self.killed_ns - self.begun_ns

    def make_sure(self) -> None:
        """Return when it is gone; RunFailed where it is not after a while."""
        self.cancel()
        deadline = time.monotonic() + _GONE_S
        while True:
            try:
                self.session.engine.kill()
                return
            except HarnessError:
                if time.monotonic() > deadline:
                    raise


def _durability(params: TpccParams, session: Session) -> Outcome:
    engine = _sql(session)
    journal, killed_after_ns = _journal_until_kill(params, session)
    started_ns = time.monotonic_ns()
    session.engine.start()
    recovery_ns = time.monotonic_ns() - started_ns
    checks: Sequence[Check] = [
        *check_durability(journal, engine, session.progress),
        *check_conditions(engine, session.progress),
    ]
    acknowledged = {
        "new_order": len(journal.orders),
        "payment": journal.payments.total(),
        "delivery": len(journal.carriers),
    }
    figures = [
        Metric("recovery_duration_ns", "ns", "lower", value=recovery_ns),
        Metric("killed_after_ns", "ns", "none", value=killed_after_ns),
        *(
            Metric("journal_committed_count", "1", "none", {"transaction": name}, value=count)
            for name, count in acknowledged.items()
        ),
    ]
    return Outcome(figures, list(checks), uncontrolled=list(lost_without_power(session.engine)))


def _journal_until_kill(params: TpccParams, session: Session) -> tuple[Journal, int]:
    """The acknowledged commits until the server was killed, and the time of the kill.

    The moment is drawn from the seed: the same share of the window for all arms of a block.
    """
    share = random.Random(session.seed).uniform(_KILL_FROM, _KILL_TO)
    killer = _Killer(session, share * params.duration.seconds)
    folder = session.clients().scratch
    driver = Loadgen(params)
    try:
        driver.drive(session, WindowCallbacks(killer.begin, lambda: None), journal=folder)
    except HarnessError:
        if killer.killed_ns is None:
            raise
        killer.make_sure()
        session.progress.say("the server was killed under the client; starting it again")
        return Journal.read(
            driver.journals(folder), session.clients().credentials
        ), killer.killed_after_ns
    finally:
        killer.cancel()
    raise RunFailed(
        "kill the server under way",
        "the client ended without noticing",
        "give it a longer --duration",
    )
