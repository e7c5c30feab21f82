"""Answers of the 22 queries: their columns, their canonical form, and when two agree.

Clause 2.1.3.5 says how exact each value must be, by how it was computed. Exact
columns (keys, counts, dates, text, plain money columns, sums of quantities) are kept
as one digest over the canonical values in row order; sums, averages and ratios are
kept as numbers and compared within the clause's tolerances. Where ORDER BY leaves
rows tied, any order of them is right: the reference knows the runs of tied rows, and
both sides are sorted within them.

A reference is made of rows once (:meth:`CanonicalAnswer.of`) and stored as JSON; a run's rows
are compared with it by :func:`compare`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from harness.engine import Scalar

Kind = Literal["integer", "date", "char", "text", "money", "sum", "average", "ratio", "sum-ratio"]
#: Kinds whose values are compared within a tolerance.
TOLERANT: frozenset[Kind] = frozenset({"sum", "average", "ratio", "sum-ratio"})
_CENT = Decimal("0.01")
_Row = tuple[Scalar, ...]


@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Shape:
    """Columns of an answer, the positions it is ordered by, and its row limit."""

    columns: tuple[AnswerColumn, ...]
    order: tuple[int, ...] = ()
    limit: int | None = None


def _shape(columns: str, order: tuple[int, ...] = (), limit: int | None = None) -> Shape:
    pairs = (item.split(":") for item in columns.split())
    return Shape(tuple(AnswerColumn(name, kind) for name, kind in pairs), order, limit)  # type: ignore[arg-type]


#: Clause 2.4.x.2 with the kinds of 2.1.3.5 (comments 1 to 4 decide queries 8, 12, 14, 15, 17
#: and the sums of l_quantity); fixed text is ``char``, variable text is ``text`` (clause 1.4.1).
SHAPES: Mapping[int, Shape] = {
    1: _shape(
        "l_returnflag:char l_linestatus:char sum_qty:money sum_base_price:sum sum_disc_price:sum"
        " sum_charge:sum avg_qty:average avg_price:average avg_disc:average count_order:integer",
        (0, 1),
    ),
    2: _shape(
        "s_acctbal:money s_name:char n_name:char p_partkey:integer p_mfgr:char s_address:text"
        " s_phone:char s_comment:text",
        (0, 2, 1, 3),
        100,
    ),
    3: _shape("l_orderkey:integer revenue:sum o_orderdate:date o_shippriority:integer", (1, 2), 10),
    4: _shape("o_orderpriority:char order_count:integer", (0,)),
    5: _shape("n_name:char revenue:sum", (1,)),
    6: _shape("revenue:sum"),
    7: _shape("supp_nation:char cust_nation:char l_year:integer revenue:sum", (0, 1, 2)),
    8: _shape("o_year:integer mkt_share:ratio", (0,)),
    9: _shape("nation:char o_year:integer sum_profit:sum", (0, 1)),
    10: _shape(
        "c_custkey:integer c_name:text revenue:sum c_acctbal:money n_name:char c_address:text"
        " c_phone:char c_comment:text",
        (2,),
        20,
    ),
    11: _shape("ps_partkey:integer value:sum", (1,)),
    12: _shape("l_shipmode:char high_line_count:integer low_line_count:integer", (0,)),
    13: _shape("c_count:integer custdist:integer", (1, 0)),
    14: _shape("promo_revenue:ratio"),
    15: _shape("s_suppkey:integer s_name:char s_address:text s_phone:char total_revenue:sum", (0,)),
    16: _shape("p_brand:char p_type:text p_size:integer supplier_cnt:integer", (3, 0, 1, 2)),
    17: _shape("avg_yearly:sum-ratio"),
    18: _shape(
        "c_name:text c_custkey:integer o_orderkey:integer o_orderdate:date o_totalprice:money"
        " sum_qty:money",
        (4, 3),
        100,
    ),
    19: _shape("revenue:sum"),
    20: _shape("s_name:char s_address:text", (0,)),
    21: _shape("s_name:char numwait:integer", (1, 0), 100),
    22: _shape("cntrycode:char numcust:integer totacctbal:sum", (0,)),
}


class MalformedAnswer(Exception):
    """A value, or a row, that cannot be what the query returns."""


class AmbiguousAnswer(Exception):
    """Rows tie across the row limit: more than one answer is right."""


def canonical(value: Scalar, kind: Kind) -> str | None:
    """The one text of a value of this kind, None for NULL; MalformedAnswer otherwise.

    Fixed text loses its padding, money has two places, other numbers all of theirs.
    """
    if value is None:
        return None
    try:
        if kind == "text":
            return _text(value)
        if kind == "char":
            return _text(value).rstrip(" ")
        if kind == "date":
            return _date(value)
        return _number(value, kind)
    except (ValueError, InvalidOperation):
        raise MalformedAnswer(f"{value!r} is not of kind {kind}") from None


def _text(value: Scalar) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _date(value: Scalar) -> str:
    if isinstance(value, str):
        return date.fromisoformat(value).isoformat()
    if isinstance(value, datetime):
        if (value.hour, value.minute, value.second, value.microsecond) != (0, 0, 0, 0):
            raise ValueError
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise ValueError


def _number(value: Scalar, kind: Kind) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError
    if kind == "integer":
        if number != number.to_integral_value():
            raise ValueError
        return str(int(number))
    if kind == "money":
        # A binary engine's 123.45 may be off in its last bit, a wrong cent may not.
        rounded = number.quantize(_CENT)
        if abs(number - rounded) > Decimal("1e-6"):
            raise ValueError
        return str(rounded + 0)  # + 0: no negative zero
    # 17 digits hold a double; an engine's longer quotients are cut to them.
    return format(Decimal(f"{number:.17g}").normalize() + 0, "f")


@dataclass(frozen=True)
class CanonicalAnswer:
    """An answer in canonical form.

    ``columns``: for each column its digest (exact kinds) or its values, in row order,
    tied rows sorted. ``ties``: (first row, length) of every run of tied rows.
    """

    rows: int
    columns: tuple[str | tuple[str | None, ...], ...]
    ties: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, shape: Shape, rows: Sequence[_Row]) -> CanonicalAnswer:
        """The answer that ``rows`` are; runs of tied rows are found in them.

        With one row more than the limit, AmbiguousAnswer says that the last row
        ties with the one after it.
        """
        table = [_canonical_row(shape, row) for row in rows]
        keys = [tuple(row[i] for i in shape.order) for row in table]
        if shape.limit is not None and len(table) > shape.limit:
            if keys[shape.limit - 1] == keys[shape.limit]:
                raise AmbiguousAnswer(f"rows {shape.limit} and {shape.limit + 1} tie")
            table, keys = table[: shape.limit], keys[: shape.limit]
        ties = _runs(keys) if shape.order else _runs([()] * len(table))
        return cls(len(table), _columns(shape, _sort_ties(shape, table, ties)), ties)

    def to_json(self, shape: Shape) -> dict[str, Any]:
        """Return the document that is shipped, cached and stored with a run."""
        columns = [
            {"name": column.name, "kind": column.kind}
            | ({"digest": stored} if isinstance(stored, str) else {"values": list(stored)})
            for column, stored in zip(shape.columns, self.columns, strict=True)
        ]
        return {"rows": self.rows, "columns": columns, "ties": [list(run) for run in self.ties]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CanonicalAnswer:
        columns = tuple(
            column["digest"] if "digest" in column else tuple(column["values"])
            for column in document["columns"]
        )
        return cls(document["rows"], columns, tuple((run[0], run[1]) for run in document["ties"]))


@dataclass(frozen=True)
class AnswerComparison:
    """The result of a comparison with the reference, and the first difference in words."""

    agrees: bool
    detail: str


def compare(
    shape: Shape, reference: CanonicalAnswer, rows: Sequence[_Row], sum_tolerance: Decimal
) -> AnswerComparison:
    """Compare a run's rows with the reference; the first difference is named."""
    if len(rows) != reference.rows:
        return AnswerComparison(False, f"row count: expected {reference.rows}, found {len(rows)}")
    try:
        table = [_canonical_row(shape, row) for row in rows]
    except MalformedAnswer as error:
        return AnswerComparison(False, str(error))
    table = _sort_ties(shape, table, reference.ties)
    largest = Decimal(0)
    for position, column in enumerate(shape.columns):
        values = tuple(row[position] for row in table)
        expected = reference.columns[position]
        if isinstance(expected, str):
            if (digest := _digest(values)) != expected:
                return AnswerComparison(False, _digest_detail(column, expected, digest, values))
            continue
        for number, (want, have) in enumerate(zip(expected, values, strict=True), 1):
            if not within(column.kind, want, have, sum_tolerance):
                return AnswerComparison(
                    False, f"{column.name}, row {number}: expected {want}, found {have}"
                )
            if column.kind == "sum" and want is not None and have is not None:
                largest = max(largest, abs(Decimal(want) - Decimal(have)))
    note = f"; largest difference of a sum {largest:.2g}" if largest else ""
    return AnswerComparison(True, f"{reference.rows} rows agree{note}")


def within(kind: Kind, want: str | None, have: str | None, sum_tolerance: Decimal) -> bool:
    """Return whether ``have`` may stand for the reference value ``want`` (clause 2.1.3.5).

    Sums: within ``sum_tolerance``. Averages and ratios: within 1 % after rounding to
    1/100. The reference is not rounded, so 1 % of it is required too: of a market
    share of 0.034, rounding alone would let 0.026 pass.
    """
    if want is None or have is None:
        return want is None and have is None
    expected, actual = Decimal(want), Decimal(have)
    if kind in ("sum", "sum-ratio") and abs(actual - expected) > sum_tolerance:
        return False
    return kind == "sum" or _ratio_within(expected, actual)


def _ratio_within(expected: Decimal, actual: Decimal) -> bool:
    difference = abs(actual - expected)
    # Two engines' last digits may fall on either side of a rounding edge.
    if difference <= abs(expected) / 10_000:
        return True
    rounded = expected.quantize(_CENT)
    return (
        difference <= abs(expected) / 100
        and abs(actual.quantize(_CENT) - rounded) <= abs(rounded) / 100
    )


def _canonical_row(shape: Shape, row: _Row) -> tuple[str | None, ...]:
    if len(row) != len(shape.columns):
        raise MalformedAnswer(f"columns: expected {len(shape.columns)}, found {len(row)}")
    texts = []
    for value, column in zip(row, shape.columns, strict=True):
        try:
            texts.append(canonical(value, column.kind))
        except MalformedAnswer as error:
            raise MalformedAnswer(f"{column.name}: {error}") from None
    return tuple(texts)


def _runs(keys: Sequence[tuple[str | None, ...]]) -> tuple[tuple[int, int], ...]:
    """(start, length) of every run of two or more equal neighbours."""
    runs = []
    start = 0
    for end in range(1, len(keys) + 1):
        if end == len(keys) or keys[end] != keys[start]:
            if end - start > 1:
                runs.append((start, end - start))
            start = end
    return tuple(runs)


def _sort_ties(
    shape: Shape, table: list[tuple[str | None, ...]], ties: Sequence[tuple[int, int]]
) -> list[tuple[str | None, ...]]:
    """``table`` with each run of tied rows sorted by its exact columns."""
    exact = [i for i, column in enumerate(shape.columns) if column.kind not in TOLERANT]
    table = list(table)
    for start, length in ties:
        part = table[start : start + length]
        part.sort(key=lambda row: [(row[i] is not None, row[i] or "") for i in exact])
        table[start : start + length] = part
    return table


def _columns(
    shape: Shape, table: Sequence[tuple[str | None, ...]]
) -> tuple[str | tuple[str | None, ...], ...]:
    stored: list[str | tuple[str | None, ...]] = []
    for position, column in enumerate(shape.columns):
        values = tuple(row[position] for row in table)
        stored.append(values if column.kind in TOLERANT else _digest(values))
    return tuple(stored)


def _digest(values: Sequence[str | None]) -> str:
    """First 32 hex digits of SHA-256 over the JSON list of canonical values."""
    text = json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _digest_detail(
    column: AnswerColumn, expected: str, actual: str, values: Sequence[str | None]
) -> str:
    shown = ", ".join(repr(value) for value in values[:3])
    more = ", …" if len(values) > 3 else ""
    return (
        f"{column.name}: digest of {len(values)} values expected {expected[:12]}…, "
        f"found {actual[:12]}… ({shown}{more})"
    )
