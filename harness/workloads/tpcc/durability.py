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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from harness.engine import RunsSql, Scalar, SqlConnection
from harness.errors import RunFailed
from harness.progress import Progress
from harness.store.result import Check
from harness.supervise.user_files import Credentials, acting_as, open_regular

Order = tuple[int, int, int]  # warehouse, district, order
#: Warehouse and district of the payment, those of the customer, customer, cents.
Payment = tuple[int, int, int, int, int, int]

#: Orders up to this one are delivered as loaded; payments of this amount are loaded.
_DELIVERED, _LOADED_CENTS = 2100, 1000
_SHOWN = 3
#: The page cache outlives the server: what was written is there, forced to the device or not.
_ALL_THERE = (
    "committed, all are there (the server's processes were killed and the host left running: "
    "this says nothing about a loss of power)"
)


@dataclass
class Journal:
    """The acknowledged commits: customer and lines by order, payments, carriers."""

    orders: dict[Order, tuple[int, int]] = field(default_factory=dict)
    payments: Counter[Payment] = field(default_factory=Counter)
    carriers: dict[Order, int] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[Path], user: Credentials | None = None) -> Journal:
        """All lines of the files, which ``user`` has written; RunFailed names one that is none."""
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
        """Those of orders and deliveries."""
        return sorted({key[0] for key in (*self.orders, *self.carriers)})


def check_durability(journal: Journal, engine: RunsSql, progress: Progress) -> list[Check]:
    """Whether everything in the journal is in the started engine's data; a check a kind."""
    with closing(engine.connect()) as connection:
        orders, deliveries = _check_orders(journal, connection, progress)
        return [orders, _check_payments(journal, connection), deliveries]


def _check_orders(
    journal: Journal, connection: SqlConnection, progress: Progress
) -> tuple[Check, Check]:
    """Warehouse by warehouse, so that memory does not grow with their number."""
    lost_orders: list[str] = []
    lost_carriers: list[str] = []
    by_warehouse: dict[int, list[Order]] = {}
    for order in {**journal.orders, **journal.carriers}:
        by_warehouse.setdefault(order[0], []).append(order)
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


def _check_payments(journal: Journal, connection: SqlConnection) -> Check:
    """Payments of exactly 10.00 look like the loaded ones and are left out."""
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
