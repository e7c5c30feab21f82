"""Expected rows of the user's queries, and when an engine's rows agree with them.

``answers/top.csv`` has names of columns in its first line, which are not compared, and a line for
each row. Rows may come in any order. Values are compared as those of TPC-H (clause 2.1.3.5):

============================  ==========================================================
whole numbers, dates, text    equal; of text without spaces at its end
numbers with up to two places equal, on both sides (amounts of money)
other numbers                 within 1 %, after rounding to 1/100, as averages and ratios
NULL                          an empty field
============================  ==========================================================
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from harness.engine import Scalar
from harness.errors import UsageError
from harness.sql_script import decode
from harness.supervise.user_files import make_own, open_regular
from harness.workloads.sql.folder import ANSWERS, SqlFolder
from harness.workloads.tpch.answers import Agreement, within

_Row = Sequence[Scalar]
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def read_answer(path: str, text: str) -> list[list[str]]:
    """Return the rows of an answer's file; UsageError where a line has more or fewer fields."""
    try:
        head, *rows = [
            row for row in csv.reader(text.splitlines(keepends=True), strict=True) if row
        ]
    except (ValueError, csv.Error) as error:
        raise UsageError(
            path, f"not CSV with names of columns in the first line: {error}", "correct it"
        ) from error
    for number, row in enumerate(rows, 2):
        if len(row) != len(head):
            raise UsageError(
                f"{path}, row {number}", f"{len(row)} fields, not {len(head)}", "correct it"
            )
    return rows


def compare_rows(expected: Sequence[Sequence[str]], found: Sequence[_Row]) -> Agreement:
    """Compare an engine's rows with the expected ones; the first difference is named."""
    if len(found) != len(expected):
        return Agreement(False, f"row count: expected {len(expected)}, found {len(found)}")
    if found and len(found[0]) != len(expected[0]):
        return Agreement(False, f"columns: expected {len(expected[0])}, found {len(found[0])}")
    if (agreement := _in_order(expected, found)).agrees:
        return agreement
    numbers = [_is_number([row[column] for row in found]) for column in range(len(found[0]))]
    return _in_order(
        sorted(expected, key=lambda row: _key([_read(v) for v in row], numbers)),
        sorted(found, key=lambda row: _key(row, numbers)),
    )


def _in_order(expected: Sequence[Sequence[str]], found: Sequence[_Row]) -> Agreement:
    for want, have in zip(expected, found, strict=True):
        for column, (text, value) in enumerate(zip(want, have, strict=True), 1):
            if not agrees(text, value):
                shown = ", ".join("NULL" if v is None else str(v) for v in have)
                return Agreement(
                    False, f"column {column}: expected ({', '.join(want)}), found ({shown})"
                )
    return Agreement(True, f"{len(found)} rows agree")


def agrees(text: str, value: Scalar) -> bool:
    """Return whether ``value`` may stand for the expected ``text``."""
    if value is None:
        return text in ("", "NULL")
    if isinstance(value, bool):
        return _TRUTH.get(text.lower()) is value
    if isinstance(value, int | float | Decimal):
        expected = _read(text)
        return isinstance(expected, Decimal) and _number_agrees(expected, value)
    moment = _moment(text)
    return text.rstrip() == str(value).rstrip() or (
        moment is not None and moment == _moment(str(value))
    )


def _number_agrees(expected: Decimal, value: int | float | Decimal) -> bool:
    if isinstance(value, int):
        return expected == value
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if not number.is_finite():
        return False
    if isinstance(value, Decimal) and all(_is_amount(one) for one in (expected, number)):
        return expected == number
    return within("ratio", str(expected), str(number), Decimal(0))


def _is_amount(number: Decimal) -> bool:
    return number == round(number, 2)


def _read(text: str) -> Scalar:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _is_number(values: Sequence[Scalar]) -> bool:
    return all(value is None or isinstance(value, int | float | Decimal) for value in values)


def _key(row: _Row, numbers: Sequence[bool]) -> tuple[list[str], list[float]]:
    """Sort by texts first: numbers may differ within a tolerance."""
    texts = [str(v).rstrip() for v, number in zip(row, numbers, strict=True) if not number]
    values = [v for v, number in zip(row, numbers, strict=True) if number]
    return texts, [float(v) if isinstance(v, int | float | Decimal) else 0.0 for v in values]


def write_answers(folder: SqlFolder, answers: Mapping[str, Any]) -> list[Path]:
    """Write a file for each query that has none, from the artifact ``answers`` of a run.

    UsageError for an answer that the run has not stored in full, before any is written.
    """
    texts: dict[Path, str] = {}
    for name, answer in answers.items():
        if name in folder.answers or name not in folder.queries:
            continue
        rows = answer["rows"]
        if answer["row_count"] > len(rows):
            raise UsageError(
                f"answer of {name}",
                f"the run has stored {len(rows)} of {answer['row_count']} rows",
                "sum up rows in the query, or write the file yourself",
            )
        texts[folder.path / ANSWERS / f"{name}.csv"] = _text(rows)
    try:
        if texts:
            make_own(folder.path / ANSWERS)
        for path, text in texts.items():
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(
            f"answers in {folder.path}", error.strerror or str(error), "correct the folder"
        ) from error
    return list(texts)


def _text(rows: list[list[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    width = len(rows[0]) if rows else 1
    writer.writerow(f"column_{number}" for number in range(1, width + 1))
    writer.writerows([decode(value) for value in row] for row in rows)
    return stream.getvalue()
