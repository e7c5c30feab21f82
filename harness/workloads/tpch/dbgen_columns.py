"""Columns of orders as dbgen draws them, at any scale factor.

dbgen gives every column a stream of its own of Park and Miller's generator (CACM 10/1988) and
every row a fixed number of its draws, so that a stream can be set to any row. Customers, clerks,
parts and suppliers are drawn from ranges that grow with the scale factor, and prices follow from
the parts; all else that a row holds is the same at every scale (clause 4.2.3).
"""

from __future__ import annotations

from harness.workloads.tpch.tables import expected_rows

#: From here dbgen draws customers and parts from a generator of 64 bits.
WIDE_SCALE = 30_000
_MULTIPLIER = 16807
_MODULUS = 2**31 - 1
_MOST_LINES = 7
_CLERKS_PER_SCALE = 1000
_SUPPLIERS_PER_PART = 4
#: Every third customer has no orders.
_MORTALITY = 3


class _Stream:
    """The draws of one column from a row on, counted from 0."""

    def __init__(self, seed: int, draws_per_row: int, row: int) -> None:
        self._jump = pow(_MULTIPLIER, draws_per_row, _MODULUS)
        self._row_start = seed * pow(self._jump, row, _MODULUS) % _MODULUS

    def next_row(self, high: int, low: int = 1, draws: int = 1) -> list[int]:
        """The next row's first ``draws`` integers in [low, high]; in doubles, as dbgen's are."""
        state = self._row_start
        self._row_start = state * self._jump % _MODULUS
        span = float(high - low + 1)
        values = []
        for _ in range(draws):
            state = state * _MULTIPLIER % _MODULUS
            values.append(low + int(state / float(_MODULUS) * span))
        return values


class ScaledColumns:
    """The columns that depend on ``scale``, order by order from ``row`` (0: the first order)."""

    def __init__(self, scale: float, row: int) -> None:
        self._customers = _row_count("customer", scale)
        self._parts = _row_count("part", scale)
        self._suppliers = _row_count("supplier", scale)
        self._clerks = int(max(1, scale) * _CLERKS_PER_SCALE)
        self._customer = _Stream(851767375, 1, row)
        self._clerk = _Stream(1171034773, 1, row)
        self._part = _Stream(1808217256, _MOST_LINES, row)
        self._supplier = _Stream(2095021727, _MOST_LINES, row)

    def rewrite(self, order: str, lines: list[str], key: int) -> tuple[str, list[str]]:
        """The next order and its lines with ``key`` and the values of the scale.

        ``order`` and ``lines``: as dbgen's files hold the same row at another scale.
        """
        total = 0
        written = []
        parts = self._part.next_row(self._parts, draws=len(lines))
        choices = self._supplier.next_row(_SUPPLIERS_PER_PART - 1, 0, len(lines))
        for line, part, choice in zip(lines, parts, choices, strict=True):
            _, _, _, number, quantity, _, discount, tax, rest = line.split("|", 8)
            price = _retail_price(part) * int(quantity)
            total += price * (100 - _cents(discount)) // 100 * (100 + _cents(tax)) // 100
            supplier = self._supplier_of(part, choice)
            written.append(
                f"{key}|{part}|{supplier}|{number}|{quantity}|{_money(price)}"
                f"|{discount}|{tax}|{rest}"
            )
        _, _, status, _, date, priority, _, rest = order.split("|", 7)
        (clerk,) = self._clerk.next_row(self._clerks)
        return (
            f"{key}|{self._next_customer()}|{status}|{_money(total)}|{date}|{priority}"
            f"|Clerk#{clerk:09d}|{rest}",
            written,
        )

    def _next_customer(self) -> int:
        (customer,) = self._customer.next_row(self._customers)
        step = 1
        while customer % _MORTALITY == 0:
            customer = min(customer + step, self._customers)
            step = -step
        return customer

    def _supplier_of(self, part: int, choice: int) -> int:
        """One of the part's four suppliers (clause 4.2.3, PS_SUPPKEY)."""
        step = self._suppliers // _SUPPLIERS_PER_PART + (part - 1) // self._suppliers
        return (part + choice * step) % self._suppliers + 1


def order_key(row: int, gap: int) -> int:
    """Key of the order of ``row`` (0: the first): 8 of every 32 keys are in use.

    ``gap`` 0: the base's; 1 … 3: those of the refresh sets, between them (clause 4.2.3).
    """
    number = row + 1
    return number >> 3 << 5 | gap << 3 | number & 7


def row_of_key(key: int) -> tuple[int, int]:
    """The inverse of :func:`order_key`: (row, gap)."""
    return (key >> 5 << 3 | key & 7) - 1, key >> 3 & 3


def _row_count(table: str, scale: float) -> int:
    rows = expected_rows(table, scale)
    assert rows is not None
    return rows


def _retail_price(part: int) -> int:
    return 90_000 + part // 10 % 20_001 + part % 1000 * 100


def _cents(text: str) -> int:
    """``0.07`` as 7; dbgen writes two places always."""
    return int(text.replace(".", ""))


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
