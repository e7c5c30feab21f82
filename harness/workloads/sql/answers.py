"""Expected rows of the user's queries, and when an engine's rows agree with them.

``answers/top.csv`` has the names of the columns in its first line, which are not compared, and a
line for each row. How a value is compared follows from what the engine returns:

=============================  =========================================================
text                           equal, but for spaces at its end: 007 is not 7
whole numbers, decimals        equal
floating point numbers         within 1e-9 of the larger one: sums depend on the order of rows
dates, times                   the same moment
NULL                           an empty field; an empty text is ""
a column headed ``mean ~0.5%`` numbers within half a per cent of the larger one
a column headed ``mean ~0.01`` numbers that differ by a hundredth at most
=============================  =========================================================

Rows may come in any order, unless the query itself has an ORDER BY (ordering.py). Then its keys
must come in the expected order, and rows of equal keys in any. Where a right answer may look
different (rows that tie across a LIMIT, keys that are not in the result, texts and NULL, which
engines sort in their own way), the check is *unknown*.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from harness.engine import Scalar
from harness.errors import UsageError
from harness.sql_values import decode, encode
from harness.store.result import CheckStatus
from harness.supervise.own_files import make_own, replacing
from harness.workloads.sql.folder import ANSWERS, SqlFolder
from harness.workloads.sql.ordering import Ordering

#: Rows of an answer that are compared: they are in memory.
MOST_ROWS = 100_000
_FIELD = re.compile(r'"(?P<quoted>[^"]*(?:""[^"]*)*)"|(?P<plain>[^",\r\n]*)')
_TOLERANT = re.compile(r".*?~\s*(?P<number>\d+(?:\.\d+)?(?:e-?\d{1,3})?)\s*(?P<relative>%?)", re.I)
_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
#: Decimals have any number of digits; a difference needs few.
_CONTEXT = Context(prec=60, traps=[])
_Value = Decimal | datetime | bool | str | None


@dataclass(frozen=True)
class Tolerance:
    """The largest difference: a share of the larger number where ``relative``, else itself."""

    difference: Decimal
    relative: bool

    def allows(self, expected: Decimal, actual: Decimal) -> bool:
        """Return whether both are the same number within this tolerance."""
        larger = max(abs(expected), abs(actual))
        limit = _CONTEXT.multiply(self.difference, larger) if self.relative else self.difference
        return abs(_CONTEXT.subtract(expected, actual)) <= limit


_ROUNDING = Tolerance(Decimal("1e-9"), relative=True)


@dataclass(frozen=True)
class ExpectedRows:
    """An answer's file: fields as texts, None for NULL; tolerances that its head states."""

    rows: Sequence[Sequence[str | None]]
    tolerances: Sequence[Tolerance | None]


@dataclass(frozen=True)
class RowsComparison:
    """``where``: what differs, without a value of the data; ``values``: the same with values."""

    status: CheckStatus
    where: str
    values: str = ""


def read_answer(path: str, text: str) -> ExpectedRows:
    """Return an answer's file; UsageError where a line has more or fewer fields, or it is long."""
    records = _records(path, text)
    _, head = next(records, (1, [None]))
    if head == [None]:
        raise UsageError(path, "no names of columns in the first line", "write them there")
    rows = []
    for line, row in records:
        if len(head) > 1 and row == [None]:  # an empty line; of one column it is NULL
            continue
        if len(row) != len(head):
            raise UsageError(
                f"{path}, line {line}", f"{len(row)} fields, not {len(head)}", "correct it"
            )
        rows.append(row)
        if len(rows) > MOST_ROWS:
            raise UsageError(path, f"more than {MOST_ROWS} rows", "sum up rows in the query")
    return ExpectedRows(rows, [_tolerance(name or "") for name in head])


def _records(path: str, text: str) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the number of the line and the fields of each record."""
    begin = position = int(text.startswith("\ufeff"))
    line, row = 1, list[str | None]()
    while position < len(text):
        match = _FIELD.match(text, position)
        assert match is not None  # of no length at least
        quoted = match["quoted"]
        row.append(quoted.replace('""', '"') if quoted is not None else match["plain"] or None)
        position = match.end()
        if text.startswith(",", position):
            position += 1
            if position < len(text):
                continue
            row.append(None)
        elif text.startswith("\r\n", position):
            position += 2
        elif text.startswith(("\n", "\r"), position):
            position += 1
        elif position < len(text):
            raise UsageError(
                f"{path}, line {line}",
                "not CSV: a quotation mark inside of a field, or text after one",
                'put the whole field into quotation marks, and write "" for one in it',
            )
        yield line, row
        line, row = line + text.count("\n", begin, position), []
        begin = position


def _tolerance(name: str) -> Tolerance | None:
    match = _TOLERANT.fullmatch(name.strip())
    if match is None:
        return None
    number = Decimal(match["number"])
    return Tolerance(number / 100 if match["relative"] else number, bool(match["relative"]))


# Values ----------------------------------------------------------------------------

_Exact = tuple[object, ...]
_Approximate = tuple[Decimal, ...]


@dataclass(frozen=True)
class _ResultColumn:
    """``kind``: of the values found. ``tolerance``: of its numbers; None: they are equal."""

    kind: type
    tolerance: Tolerance | None

    @classmethod
    def of(cls, values: Sequence[Scalar], stated: Tolerance | None) -> _ResultColumn:
        """A column is text if a text is found in it."""
        kinds = {type(value) for value in values if value is not None}
        if str in kinds or not kinds:
            return cls(str, None)
        if kinds <= {date, datetime}:
            return cls(datetime, None)
        if kinds == {bool}:
            return cls(bool, None)
        return cls(Decimal, stated or (_ROUNDING if float in kinds else None))

    def expected(self, text: str | None) -> _Value:
        """Return what a field stands for in this column; a text where it is nothing of the kind."""
        if text is None or self.kind is str:
            return text if text is None else text.rstrip(" ")
        if self.kind is bool:
            return _TRUTHS.get(text.lower(), text)
        try:
            if self.kind is datetime:
                return _moment(datetime.fromisoformat(text))
            truth = {"true": "1", "false": "0"}.get(text.lower(), text)  # engines without BOOLEAN
            return _number(Decimal(truth))
        except (ValueError, InvalidOperation):
            return text

    def actual(self, value: Scalar) -> _Value:
        """Return a value of the engine in the same form."""
        if value is None or self.kind is bool:
            return None if value is None else bool(value)
        if isinstance(value, date):
            whole = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
            return _moment(whole) if self.kind is datetime else str(value)
        if self.kind is Decimal and not isinstance(value, str):
            return _number(Decimal(repr(value) if isinstance(value, float) else value))
        return str(value).rstrip(" ")


def _moment(value: datetime) -> datetime | str:
    try:
        return value.astimezone(UTC) if value.tzinfo else value
    except OverflowError:
        return str(value)


def _number(value: Decimal) -> Decimal | str:
    """Not-a-number is equal to itself here."""
    return str(value).lower().lstrip("-s") if value.is_nan() else value


@dataclass(frozen=True)
class _ResultRow:
    """``values``: of all columns, in their form; ``exact`` and ``approximate``: those compared so.

    ``place``: where it comes in its result.
    """

    place: int
    values: tuple[_Value, ...]
    exact: _Exact
    approximate: _Approximate


class _ComparableTable:
    """The columns of a result, and rows in a form that compares."""

    def __init__(self, columns: Sequence[_ResultColumn]) -> None:
        self.columns = columns

    def row(self, place: int, values: Sequence[_Value]) -> _ResultRow:
        exact: list[object] = []
        approximate: list[Decimal] = []
        for column, value in zip(self.columns, values, strict=True):
            if column.tolerance and isinstance(value, Decimal) and value.is_finite():
                exact.append(float)
                approximate.append(value)
            else:
                exact.append(value)
        return _ResultRow(place, tuple(values), tuple(exact), tuple(approximate))

    def same(self, left: _ResultRow, right: _ResultRow) -> bool:
        """Return whether two rows agree."""
        if left.exact != right.exact:
            return False
        stated = [c.tolerance for c, e in zip(self.columns, left.exact, strict=True) if e is float]
        pairs = zip(stated, left.approximate, right.approximate, strict=True)
        return all(tolerance and tolerance.allows(a, b) for tolerance, a, b in pairs)

    def keys_agree(self, left: _ResultRow, right: _ResultRow, columns: Sequence[int]) -> bool:
        """Return whether two rows have the same keys."""
        keys = _ComparableTable([self.columns[column] for column in columns])
        values, other = ([row.values[column] for column in columns] for row in (left, right))
        return keys.same(keys.row(0, values), keys.row(0, other))

    def unmatched(
        self, expected: Sequence[_ResultRow], actual: Sequence[_ResultRow]
    ) -> tuple[_ResultRow, ...]:
        """Return a row of each side that the other lacks, in this order; none if all agree."""
        groups: dict[_Exact, deque[_ResultRow]] = defaultdict(deque)
        for row in sorted(actual, key=lambda row: row.approximate):
            groups[row.exact].append(row)
        for row in sorted(expected, key=lambda row: row.approximate):
            candidates = groups[row.exact]
            index = next((i for i, c in enumerate(candidates) if self.same(row, c)), None)
            if index is None:
                left = [other for others in groups.values() for other in others]
                return row, min(left, key=lambda other: (other.exact != row.exact, other.place))
            del candidates[index]
        return ()


# Comparing -------------------------------------------------------------------------


def compare_rows(
    expected: ExpectedRows,
    names: Sequence[str],
    rows: Sequence[Sequence[Scalar]],
    ordering: Ordering,
) -> RowsComparison:
    """Compare all rows of an engine with the expected ones; ``names``: of its columns."""
    if len(rows) != len(expected.rows):
        counts = f"row count: expected {len(expected.rows)}, found {len(rows)}"
        return RowsComparison("failed", counts)
    if rows and len(rows[0]) != len(expected.tolerances):
        width = f"columns: expected {len(expected.tolerances)}, found {len(rows[0])}"
        return RowsComparison("failed", width)
    plain = [[plain_value(value) for value in row] for row in rows]
    columns = [
        _ResultColumn.of([row[index] for row in plain], tolerance)
        for index, tolerance in enumerate(expected.tolerances)
    ]
    table = _ComparableTable(columns)
    want = [
        table.row(place, [c.expected(text) for c, text in zip(columns, row, strict=True)])
        for place, row in enumerate(expected.rows)
    ]
    have = [
        table.row(place, [c.actual(value) for c, value in zip(columns, row, strict=True)])
        for place, row in enumerate(plain)
    ]
    agreement = RowsComparison("passed", f"{len(rows)} rows agree")
    if all(map(table.same, want, have)):
        return agreement
    keys, complete = ordering.columns(names)
    if not (different := table.unmatched(want, have)):
        order = _order(table, want, have, ordering, keys, complete) if ordering.keys else None
        return order or agreement
    where, values = _difference(expected, plain, *different)
    if _may_tie(table, want, have, ordering, keys):
        tie = "rows may tie across the LIMIT: order by a unique column, too"
        return RowsComparison("unknown", f"{where}, but {tie}", f"{values}, but {tie}")
    return RowsComparison("failed", where, values)


def _difference(
    expected: ExpectedRows, rows: Sequence[Sequence[Scalar]], want: _ResultRow, have: _ResultRow
) -> tuple[str, str]:
    differ = [
        str(number)
        for number, (a, b) in enumerate(zip(want.exact, have.exact, strict=True), 1)
        if a != b
    ]
    alike = sum(a == b for a, b in zip(want.exact, have.exact, strict=True))
    named = f" in column {', '.join(differ)}" if differ and alike else ""
    where = f"row {want.place + 1} of the answer is not among the rows found{named}"
    texts = ", ".join("NULL" if text is None else text for text in expected.rows[want.place])
    return where, f"{where}: expected ({texts}), found {shown(rows[have.place])}"


def _may_tie(
    table: _ComparableTable,
    want: Sequence[_ResultRow],
    have: Sequence[_ResultRow],
    ordering: Ordering,
    keys: Sequence[int],
) -> bool:
    """Return whether only rows differ that a LIMIT or OFFSET may choose among others."""
    if not ordering.limited or (ordering.limit is not None and len(have) < ordering.limit):
        return False
    ends = [want[-1]] + ([want[0]] if ordering.skips else [])
    sides = [
        [row for row in side if not any(table.keys_agree(row, end, keys) for end in ends)]
        for side in (want, have)
    ]
    return len(sides[0]) == len(sides[1]) and not table.unmatched(*sides)


def _order(
    table: _ComparableTable,
    want: Sequence[_ResultRow],
    have: Sequence[_ResultRow],
    ordering: Ordering,
    keys: Sequence[int],
    complete: bool,
) -> RowsComparison | None:
    """Compare the order of rows that are the same ones; None where it agrees."""
    for row, other in zip(want, have, strict=True):
        if table.keys_agree(row, other, keys):
            continue
        column = next(key for key in keys if not table.keys_agree(row, other, [key]))
        pair = {row.values[column], other.values[column]}
        where = f"row {row.place + 1}: the rows are the expected ones, in another order"
        if None in pair or any(isinstance(value, str) for value in pair):
            why = "engines sort texts and NULL in their own way"
            return RowsComparison("unknown", f"{where}; {why}")
        return RowsComparison("failed", f"{where} of column {column + 1}")
    if not complete:
        key = ordering.keys[len(keys)]
        why = f"{key!r} of its ORDER BY is not a column of the result"
        return RowsComparison(
            "unknown", f"the rows are the expected ones; their order is open: {why}"
        )
    return None


# Values in files -------------------------------------------------------------------


def plain_value(value: Any) -> Scalar:
    """Return a value of a driver as it is stored: a number, moment, truth or text."""
    plain: Scalar = decode(encode(value))
    return plain


def shown(row: Sequence[Any]) -> str:
    """Return a row for a message."""
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"


def write_answers(folder: SqlFolder, answers: Mapping[str, Any]) -> list[Path]:
    """Write a file for each query that has none, from the artifact ``answers`` of a run.

    UsageError for an answer that the run has not stored in full, before any is written.
    """
    texts: dict[Path, str] = {}
    for name, answer in answers.items():
        if name in folder.answers:
            continue
        rows = answer.get("rows", ())
        if answer["row_count"] > len(rows) or "columns" not in answer:
            raise UsageError(
                f"answer of {name}",
                f"the run has stored {len(rows)} of {answer['row_count']} rows",
                "run without --keep-answers, sum up rows in the query, or write the file yourself",
            )
        try:  # of an imported run, anybody wrote them
            text = answer_text(answer["columns"], [[decode(v) for v in row] for row in rows])
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UsageError(
                f"answer of {name}", f"damaged: {error}", "name another run"
            ) from error
        texts[folder.path / ANSWERS / f"{name}.csv"] = text
    try:
        if texts:
            make_own(folder.path / ANSWERS)
        for path, text in texts.items():
            with replacing(path) as stream:
                stream.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"answers in {folder.path}", error.strerror or str(error), "correct the folder"
        ) from error
    return list(texts)


def answer_text(names: Sequence[str], rows: Sequence[Sequence[Scalar]]) -> str:
    """Return the file of an answer; a name that would state a tolerance is replaced."""
    head = [
        f"column_{number}" if not name.strip() or _tolerance(name) else name
        for number, name in enumerate(names, 1)
    ]
    lines = [map(_field, head), *(map(_field, row) for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines)


def _field(value: Scalar) -> str:
    """Return a field: texts have quotation marks where they need them, or are empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    plain = value and _FIELD.fullmatch(value) and '"' not in value
    return value if plain else '"' + value.replace('"', '""') + '"'
