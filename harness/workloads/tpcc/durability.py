"""Durability (clause 3.5): acknowledged commits are there after a kill.

The client writes a line for each transaction that the server has answered as committed.
Then the server is killed at a moment drawn from the seed (SIGKILL: it can write nothing
more, but the host runs on, and what is in the page cache stays), started again, and every
line is looked for in what its recovery made of the data:

- ``N w d o c lines``: the order with its customer and number of lines,
- ``P w d cw cd c cents``: its row of HISTORY, as often as the line stands,
- ``D w carrier o1,…,o10``: the carrier of the oldest order of each district; 0: none.

What the server committed without having been able to say so may be there or not.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from harness.drivers.result import WindowCallbacks
from harness.drivers.validity import lost_without_power
from harness.engine import Engine, Scalar, SqlConnection
from harness.errors import HarnessError, RunFailed
from harness.progress import Progress
from harness.sequences import grouped
from harness.store.result import Check, Metric
from harness.supervise.user_files import Credentials, acting_as, open_regular
from harness.workload import Outcome, Session
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.drivers import TpccLoadgen
from harness.workloads.tpcc.params import TpccParams

Order = tuple[int, int, int]  # warehouse, district, order
#: Warehouse and district of the payment, those of the customer, customer, cents.
Payment = tuple[int, int, int, int, int, int]

#: Orders up to this one are delivered as loaded; payments of this amount are loaded.
_DELIVERED, _LOADED_CENTS = 2100, 1000
_SHOWN = 3
#: The server is killed in this part of the window.
_KILL_FROM, _KILL_TO = 0.2, 0.9
#: A killed server may have to give back gigabytes of memory, or wait for its last writes.
_GONE_S = 60.0
#: The page cache outlives the server: what was written is there, forced to the device or not.
_ALL_THERE = (
    "committed, all are there (the server's processes were killed and the host left running: "
    "this says nothing about a loss of power)"
)


@dataclass
class CommitJournal:
    """The acknowledged commits: customer and lines by order, payments, carriers."""

    orders: dict[Order, tuple[int, int]] = field(default_factory=dict)
    payments: Counter[Payment] = field(default_factory=Counter)
    carriers: dict[Order, int] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[Path], user: Credentials | None = None) -> CommitJournal:
        """Read the files, which ``user`` has written; RunFailed names a malformed line."""
        journal = cls()
        for file in files:
            with acting_as(user):
                descriptor = open_regular(file, os.O_RDONLY)
            with os.fdopen(descriptor, encoding="ascii", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        journal._take(line.split())
                    except (ValueError, IndexError) as error:
                        raise RunFailed(
                            f"journal {file.name}", f"line {number} is none: {line!r} ({error})"
                        ) from error
        return journal

    def _take(self, words: Sequence[str]) -> None:
        kind, *rest = words
        if kind == "N":
            w, d, order, customer, lines = map(int, rest)
            self.orders[w, d, order] = (customer, lines)
        elif kind == "P":
            w, d, cw, cd, customer, cents = map(int, rest)
            self.payments[w, d, cw, cd, customer, cents] += 1
        elif kind == "D":
            warehouse, carrier = int(rest[0]), int(rest[1])
            for d, order in enumerate(map(int, rest[2].split(",")), 1):
                if order:
                    self.carriers[warehouse, d, order] = carrier
        else:
            raise ValueError(f"unknown kind {kind!r}")

    @property
    def warehouses(self) -> list[int]:
        """The warehouses of orders and deliveries."""
        return sorted({key[0] for key in (*self.orders, *self.carriers)})


def check_durability(journal: CommitJournal, engine: Engine, progress: Progress) -> list[Check]:
    """Check that everything in the journal is in the started engine's data; one check a kind."""
    with closing(engine.connect()) as connection:
        orders, deliveries = _check_orders(journal, connection, progress)
        return [orders, _check_payments(journal, connection), deliveries]


def _check_orders(
    journal: CommitJournal, connection: SqlConnection, progress: Progress
) -> tuple[Check, Check]:
    """Check warehouse by warehouse, so that memory does not grow with their number."""
    lost_orders: list[str] = []
    lost_carriers: list[str] = []
    by_warehouse = grouped((key[0], key) for key in {**journal.orders, **journal.carriers})
    with progress.task("orders that were committed (warehouses)", len(by_warehouse)) as task:
        for warehouse in sorted(by_warehouse):
            there = _orders(connection, warehouse)
            for order in by_warehouse[warehouse]:
                customer_lines, carrier = there.get(order, (None, None))
                name = "w={} d={} o={}".format(*order)
                if journal.orders.get(order, customer_lines) != customer_lines:
                    lost_orders.append(name)
                if journal.carriers.get(order, carrier) != carrier:
                    lost_carriers.append(name)
            task.advance()
    return (
        _checked("new_order", len(journal.orders), lost_orders),
        _checked("delivery", len(journal.carriers), lost_carriers),
    )


def _orders(
    connection: SqlConnection, warehouse: int
) -> Mapping[Order, tuple[tuple[int, int], int | None]]:
    rows = connection.execute(
        "SELECT o_d_id, o_id, o_c_id, o_ol_cnt, o_carrier_id FROM orders "
        f"WHERE o_w_id = {warehouse} AND o_id > {_DELIVERED}"
    ).rows
    return {
        (warehouse, _int(d), _int(o)): ((_int(c), _int(n)), None if k is None else _int(k))
        for d, o, c, n, k in rows
    }


def _check_payments(journal: CommitJournal, connection: SqlConnection) -> Check:
    """Check the payments; those of exactly 10.00 look like the loaded ones and are left out."""
    rows = connection.execute(
        "SELECT h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount, count(*) FROM history "
        "WHERE h_amount <> 10.00 GROUP BY h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount"
    ).rows
    there = {
        (*map(_int, keys), int(Decimal(str(amount)) * 100)): _int(count)
        for *keys, amount, count in rows
    }
    lost = [
        "w={} d={} customer={}.{}.{} cents={}".format(*payment)
        for payment, count in journal.payments.items()
        if payment[-1] != _LOADED_CENTS and there.get(payment, 0) < count
    ]
    return _checked("payment", journal.payments.total(), lost)


def _int(value: Scalar) -> int:
    return int(str(value))


def _checked(transaction: str, committed: int, lost: Sequence[str]) -> Check:
    labels = {"transaction": transaction}
    if not committed:
        return Check("durability", "unknown", "none was committed before the kill", labels)
    if not lost:
        return Check("durability", "passed", f"{committed} {_ALL_THERE}", labels)
    shown = "; ".join(lost[:_SHOWN]) + (", and more" if len(lost) > _SHOWN else "")
    detail = f"{len(lost)} of {committed} acknowledged commits are missing: {shown}"
    return Check("durability", "failed", detail, labels)


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
        """The time from the window's beginning to the kill."""
        assert self.begun_ns is not None and self.killed_ns is not None
        return self.killed_ns - self.begun_ns

    def make_sure(self) -> None:
        """Return when the server is gone; RunFailed where it is not after a while."""
        self.cancel()
        deadline = time.monotonic() + _GONE_S
        while True:
            try:
                self.session.engine.kill()
                return
            except HarnessError:
                if time.monotonic() > deadline:
                    raise


def measure_durability(params: TpccParams, session: Session, engine: Engine) -> Outcome:
    """Kill the server under its load, start it again, and look up acknowledged commits."""
    journal, killed_after_ns = _journal_until_kill(params, session)
    started_ns = time.monotonic_ns()
    session.engine.start()
    recovery_ns = time.monotonic_ns() - started_ns
    checks = [
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
    return Outcome(figures, checks, uncontrolled=list(lost_without_power(session.engine)))


def _journal_until_kill(params: TpccParams, session: Session) -> tuple[CommitJournal, int]:
    """Return the acknowledged commits until the server was killed, and the time of the kill.

    The moment is drawn from the seed: the same share of the window for all arms of a block.
    """
    share = random.Random(session.seed).uniform(_KILL_FROM, _KILL_TO)
    killer = _Killer(session, share * params.duration.seconds)
    folder = session.clients().scratch
    driver = TpccLoadgen(params)
    try:
        driver.drive(session, WindowCallbacks(killer.begin, lambda: None), journal=folder)
    except HarnessError:
        if killer.killed_ns is None:
            raise
        killer.make_sure()
        session.progress.say("the server was killed under the client; starting it again")
        return CommitJournal.read(
            driver.journals(folder), session.clients().credentials
        ), killer.killed_after_ns
    finally:
        killer.cancel()
    raise RunFailed(
        "kill the server under way",
        "the client ended without noticing",
        "give it a longer --duration",
    )
