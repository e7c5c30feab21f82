"""Whether the data are all there, and have what the client counted.

The twelve conditions compare tables with each other: of empty tables, and of a database that
has lost a transaction in all of them, they all hold. These two checks compare with what is
known from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from harness.engine import RunsSql
from harness.errors import HarnessError
from harness.store.result import Check
from harness.workloads.tpcc.data import row_counts
from harness.workloads.window import checked

#: Tables that only grow, or shrink, in a run; the others keep their rows.
_GROW, _SHRINK = frozenset({"orders", "history"}), frozenset({"new_order"})
_SUMS = {
    "new_order": "SELECT sum(d_next_o_id) FROM district",
    "payment": "SELECT sum(c_payment_cnt) FROM customer",
}


@dataclass(frozen=True)
class Traces:
    """What all transactions so far have left: New-Orders and Payments, as the data count them."""

    new_order: int
    payment: int


def loaded_traces(warehouses: int) -> Traces:
    """Of data as they were loaded: 3,000 orders of each district, one payment a customer."""
    return Traces(new_order=3_001 * 10 * warehouses, payment=30_000 * warehouses)


def read_traces(engine: RunsSql) -> Traces:
    """Of the data as they are now; RunFailed where they cannot be read."""
    with closing(engine.connect()) as connection:
        found = {name: connection.execute(sql).rows[0][0] for name, sql in _SUMS.items()}
    return Traces(**{name: int(str(value or 0)) for name, value in found.items()})


def check_population(warehouses: int, engine: RunsSql) -> Check:
    """Whether no row is missing of those that were loaded and that no transaction removes."""
    wrong = []
    try:
        with closing(engine.connect()) as connection:
            for table, expected in row_counts(warehouses).items():
                if table in _SHRINK:
                    continue
                found = int(str(connection.execute(f"SELECT count(*) FROM {table}").rows[0][0]))
                if found < expected or (found > expected and table not in _GROW):
                    wrong.append(f"{table} has {found:,} rows, expected {expected:,}")
    except HarnessError as error:
        return Check("population", "unknown", f"the query failed: {error}")
    return checked("population", wrong)


def check_counted(
    committed: Mapping[str, int], before: Traces, engine: RunsSql, under_way: int
) -> Check:
    """Check that the data have each acknowledged transaction once.

    ``committed``: since the client began, its ramp-up included. ``under_way``: how many may
    have been committed at its end without an acknowledgement.
    """
    try:
        now = read_traces(engine)
    except HarnessError as error:
        return Check("counted", "unknown", f"the query failed: {error}")
    grown = {
        "new_order": now.new_order - before.new_order,
        "payment": now.payment - before.payment,
    }
    wrong = [
        f"{name}: the data have {grown[name]:,} more, {committed[name]:,} were acknowledged"
        for name in grown
        if not committed[name] <= grown[name] <= committed[name] + under_way
    ]
    return checked("counted", wrong, ", ".join(f"{committed[name]:,} {name}" for name in grown))
