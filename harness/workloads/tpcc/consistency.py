"""Checks of the data: the twelve consistency conditions of clause 3.3.2, and what else is known.

Each condition is a statement in ``conditions/``, or in a folder of that name next to the
engine's own SQL where the engine cannot plan ours; it gives the rows that violate it, four at
most: ours have no limit, which the engine adds. They run concurrently over a few connections,
since some read all order lines.

The conditions compare tables with each other: of empty tables, and of a database that has lost a
transaction in all of them, they all hold. The other checks compare with the share of remote
accesses, with the rows that were loaded, and with what the client counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.engine import Engine, SqlResult
from harness.errors import HarnessError
from harness.progress import Progress
from harness.store.result import Check
from harness.workloads.tpcc.population import row_counts
from harness.workloads.window import checked, describe_outlier

#: Ours; their columns all have names.
FOLDER = Path(__file__).parent / "conditions"
_AT_ONCE = 4
_SHOWN = 3
REMOTE_LINES, _REMOTE_PAYMENTS = 0.01, 0.15
#: Orders of a district and rows of HISTORY of a warehouse as loaded (clause 4.3.3.1).
_LOADED_ORDERS, _LOADED_HISTORY = 3000, 30_000
#: Tables that only grow, or shrink, in a run; the others keep their rows.
_GROW, _SHRINK = frozenset({"orders", "history"}), frozenset({"new_order"})
_SUMS = {
    "new_order": "SELECT sum(d_next_o_id) FROM district",
    "payment": "SELECT sum(c_payment_cnt) FROM customer",
}


@cache
def statements(folder: Path) -> Mapping[int, str]:
    """Return the statements of a folder by number of the condition."""
    return {int(file.stem): file.read_text() for file in sorted(folder.glob("*.sql"))}


def conditions(engine: Engine) -> Mapping[int, str]:
    """Return what is queried, by number of the condition; the engine's own replace ours."""
    ours = {n: engine.first_rows(sql, _SHOWN + 1) for n, sql in statements(FOLDER).items()}
    return {**ours, **statements(engine.sql("tpcc") / "conditions")}


def check_conditions(
    engine: Engine, progress: Progress, not_kept: Mapping[int, str] | None = None
) -> list[Check]:
    """Return one check per condition; a condition that cannot be queried is unknown.

    ``not_kept``: conditions that the driver's own transactions do not keep, and why: they
    are left out.
    """
    checked = {n: sql for n, sql in conditions(engine).items() if n not in (not_kept or {})}
    with (
        progress.task("TPC-C consistency conditions", len(checked)) as task,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):

        def check_one(number: int) -> Check:
            check = _check(engine, number, checked[number])
            task.advance()
            return check

        # Those over order lines and customers take longest: they go first.
        checks = list(pool.map(check_one, sorted(checked, reverse=True)))
    return checks[::-1]


def _check(engine: Engine, number: int, sql: str) -> Check:
    labels = {"condition": str(number)}
    try:
        with closing(engine.connect()) as connection:
            result = connection.execute(sql)
    except HarnessError as error:
        return Check("consistency", "unknown", f"the query failed: {error}", labels)
    if not result.rows:
        return Check("consistency", "passed", "", labels)
    return Check("consistency", "failed", _violations(number, result), labels)


def _violations(number: int, result: SqlResult) -> str:
    rows = [
        " ".join(f"{name}={value}" for name, value in zip(result.columns, row, strict=True))
        for row in result.rows[:_SHOWN]
    ]
    more = ", and more" if len(result.rows) > _SHOWN else ""
    return f"clause 3.3.2.{number} does not hold: {'; '.join(rows)}{more}"


def check_remote(warehouses: int, engine: Engine, of_lines: float = REMOTE_LINES) -> Check:
    """Check that as many order lines and payments crossed warehouses as should, by the data.

    1 % of the lines (clause 2.4.1.5) and 15 % of the payments (clause 2.5.1.2); none where
    there is one warehouse. ``of_lines``: another share, of a client that differs in it.
    """
    try:
        with closing(engine.connect()) as connection:
            lines, remote_lines = _counts(connection.execute(_LINES))
            payments, remote_payments = _counts(connection.execute(_PAYMENTS))
    except HarnessError as error:
        return Check("remote", "unknown", f"the query failed: {error}")
    payments -= _LOADED_HISTORY * warehouses
    share = 1.0 if warehouses > 1 else 0.0
    wrong = [
        describe_outlier("remote order lines", remote_lines, lines, share * of_lines),
        describe_outlier("remote payments", remote_payments, payments, share * _REMOTE_PAYMENTS),
    ]
    if not any((lines, payments, remote_lines, remote_payments)):
        return Check("remote", "unknown", f"there are {lines} order lines, {payments} payments")
    return checked("remote", wrong, f"{lines} order lines and {payments} payments")


_LINES = f"""
SELECT count(*), sum(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END)
FROM order_line WHERE ol_o_id > {_LOADED_ORDERS}
"""
_PAYMENTS = """
SELECT count(*), sum(CASE WHEN h_c_w_id <> h_w_id THEN 1 ELSE 0 END) FROM history
"""


def _counts(result: SqlResult) -> tuple[int, int]:
    ((count, remote),) = result.rows
    return int(str(count)), int(str(remote or 0))


@dataclass(frozen=True)
class Traces:
    """The numbers of New-Orders and Payments so far, as the data count them."""

    new_order: int
    payment: int


def loaded_traces(warehouses: int) -> Traces:
    """Return the traces of loaded data: 3,000 orders of each district, one payment a customer."""
    return Traces(new_order=3_001 * 10 * warehouses, payment=30_000 * warehouses)


def read_traces(engine: Engine) -> Traces:
    """Return the traces of the data as they are now; RunFailed where they cannot be read."""
    with closing(engine.connect()) as connection:
        sums = {name: connection.execute(sql).rows[0][0] for name, sql in _SUMS.items()}
    return Traces(**{name: int(str(value or 0)) for name, value in sums.items()})


def check_population(warehouses: int, engine: Engine) -> Check:
    """Check that no row is missing of those that were loaded and that no transaction removes."""
    wrong = []
    try:
        with closing(engine.connect()) as connection:
            for table, expected in row_counts(warehouses).items():
                if table in _SHRINK:
                    continue
                rows = int(str(connection.execute(f"SELECT count(*) FROM {table}").rows[0][0]))
                if rows < expected or (rows > expected and table not in _GROW):
                    wrong.append(f"{table} has {rows:,} rows, expected {expected:,}")
    except HarnessError as error:
        return Check("population", "unknown", f"the query failed: {error}")
    return checked("population", wrong)


def check_counted(
    committed: Mapping[str, int], before: Traces, engine: Engine, under_way: int
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
