"""When an engine's rows agree with the expected ones."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from harness.workloads.sql.answers import agrees, compare_rows, read_answer


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("7", 7, True),
        ("7", Decimal("7.00"), True),
        ("7", 8, False),
        ("12345.67", Decimal("12345.67"), True),
        ("12345.67", Decimal("12345.66"), False),
        ("3.3333333333", Decimal("3.3333"), True),
        ("3.3333333333", 3.3333333333333335, True),
        ("3.33333", 3.5, False),
        ("7", "seven", False),
        ("x", 7, False),
        ("", None, True),
        ("0", None, False),
        ("", 0, False),
        ("Cork", "Cork  ", True),
        ("cork", "Cork", False),
        ("2025-01-02", date(2025, 1, 2), True),
        ("2025-01-02 03:04:05", datetime(2025, 1, 2, 3, 4, 5), True),
        ("2025-01-02T03:04:05", "2025-01-02 03:04:05", True),
        ("2025-01-02", date(2025, 1, 3), False),
        ("true", True, True),
    ],
)
def test_values(text: str, value: Any, same: bool) -> None:
    assert agrees(text, value) is same


def test_rows_may_come_in_any_order() -> None:
    expected = read_answer("a.csv", 'name,mean\n"b, c",1.25001\na,2.5\na,\n')
    rows = [("a", None), ("a", 2.5), ("b, c", 1.25)]
    assert compare_rows(expected, rows).agrees
    wrong = compare_rows(expected, [("a", None), ("a", 2.5), ("b, c", 1.5)])
    assert not wrong.agrees and "found (b, c, 1.5)" in wrong.detail


def test_numbers_of_rows_and_columns_count() -> None:
    assert "expected 1, found 0" in compare_rows([["1"]], []).detail
    assert "expected 1, found 2" in compare_rows([["1"]], [(1, 2)]).detail
    assert compare_rows([], []).agrees
