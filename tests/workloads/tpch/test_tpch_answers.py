"""A deviation in any single value is found; what the specification allows is not one."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from harness.workloads.tpch.answers import (
    SHAPES,
    TOLERANT,
    AmbiguousAnswer,
    Answer,
    MalformedAnswer,
    canonical,
    compare,
    within,
)
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import Answered, check_answers, shipped, sum_tolerance
from harness.workloads.tpch.source_database import open_views, rows_of
from harness.workloads.tpch.statements import Statement, query_sql

SCALE = 0.01


@pytest.fixture(scope="module")
def answers(sources, tmp_path_factory):
    connection = open_views(sources["parquet"], tmp_path_factory.mktemp("spill"))
    return {
        query: rows_of(connection, query_sql(query, parameters(query, None, SCALE)))
        for query in QUERIES
    }


def agrees(query, rows, reference=None):
    reference = reference or shipped(SCALE)[query]
    return compare(SHAPES[query], reference, rows, sum_tolerance(SCALE))


@pytest.mark.parametrize("scale", [0.01, 0.1, 1])
def test_references_are_shipped_for_every_query(scale):
    assert set(shipped(scale)) == set(QUERIES)


def test_shipped_row_counts_at_scale_1_are_the_specifications():
    rows = {query: answer.rows for query, answer in shipped(1).items()}
    assert rows == {
        1: 4, 2: 100, 3: 10, 4: 5, 5: 5, 6: 1, 7: 4, 8: 2, 9: 175, 10: 20, 11: 1048,
        12: 2, 13: 42, 14: 1, 15: 1, 16: 18314, 17: 1, 18: 57, 19: 1, 20: 186, 21: 100, 22: 7,
    }  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_the_right_answer_agrees(answers, query):
    assert agrees(query, answers[query]).agrees


#: The nearest value that the specification calls wrong, by kind.
WRONG = {
    "char": lambda value: value[:-1] + ("x" if value[-1] != "x" else "y"),
    "text": lambda value: value[:-1] + ("x" if value[-1] != "x" else "y"),
    "date": lambda value: value + timedelta(days=1),
    "integer": lambda value: value + 1,
    "money": lambda value: value + Decimal("0.01"),
    "sum": lambda value: value + Decimal("1.01"),
    "sum-ratio": lambda value: value + 1.01,
    "average": lambda value: value * 1.011,
    "ratio": lambda value: value * 1.011 or 0.01,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_change_of_any_single_value_is_found(answers, query):
    rows = answers[query]
    for number in {0, len(rows) // 2, len(rows) - 1} if rows else ():
        for position, column in enumerate(SHAPES[query].columns):
            row = list(rows[number])
            value = row[position]
            row[position] = 1 if value is None else WRONG[column.kind](value)
            changed = [*rows[:number], tuple(row), *rows[number + 1 :]]
            found = agrees(query, changed)
            assert not found.agrees
            assert column.name in found.detail or column.kind not in TOLERANT


@pytest.mark.parametrize("query", QUERIES)
def test_null_instead_of_any_value_is_found(answers, query):
    for position, _ in enumerate(SHAPES[query].columns):
        for number, row in enumerate(answers[query][:1]):
            changed = list(answers[query])
            nulled = None if row[position] is not None else 0
            changed[number] = (*row[:position], nulled, *row[position + 1 :])
            assert not agrees(query, changed).agrees


@pytest.mark.parametrize("query", QUERIES)
def test_a_missing_a_repeated_and_an_added_row_are_found(answers, query):
    rows = answers[query]
    extra = rows[-1] if rows else tuple([None] * len(SHAPES[query].columns))
    assert "row count" in agrees(query, [*rows, extra]).detail
    if rows:
        assert "row count" in agrees(query, rows[:-1]).detail
    if len(rows) > 1:
        assert not agrees(query, [rows[0], rows[0], *rows[2:]]).agrees


@pytest.mark.parametrize("query", QUERIES)
def test_rows_in_another_order_are_found_unless_they_tie(answers, query):
    rows = answers[query]
    order = SHAPES[query].order
    for first in range(min(len(rows) - 1, 30)):
        swapped = [*rows[:first], rows[first + 1], rows[first], *rows[first + 2 :]]
        tied = all(rows[first][i] == rows[first + 1][i] for i in order)
        assert agrees(query, swapped).agrees is tied


def test_tied_rows_may_come_in_any_order_and_are_still_compared():
    shape = SHAPES[11]  # ordered by value only
    rows = [(7, Decimal(9)), (3, Decimal(5)), (1, Decimal(5)), (2, Decimal(5)), (4, Decimal(1))]
    reference = Answer.of(shape, rows)
    assert reference.ties == ((1, 3),)
    assert agrees(11, [rows[0], rows[3], rows[1], rows[2], rows[4]], reference).agrees
    assert not agrees(11, [rows[1], rows[0], rows[3], rows[2], rows[4]], reference).agrees
    assert not agrees(11, [rows[0], (8, Decimal(5)), *rows[2:]], reference).agrees


def test_a_tie_across_the_row_limit_has_no_single_answer():
    shape = SHAPES[3]
    rows = [(key, Decimal(100 - min(key, 10)), date(1995, 1, 1), 0) for key in range(1, 12)]
    with pytest.raises(AmbiguousAnswer, match="10 and 11"):
        Answer.of(shape, rows)
    assert Answer.of(shape, rows[:10]).rows == 10


def test_types_of_an_engine_do_not_matter_but_values_do():
    assert canonical("GERMANY   ", "char") == canonical("GERMANY", "char")
    assert canonical("text ", "text") != canonical("text", "text")
    assert canonical(Decimal("1995"), "integer") == canonical(1995, "integer") == "1995"
    assert canonical(123.45, "money") == canonical(Decimal("123.450"), "money") == "123.45"
    assert canonical("1995-03-05", "date") == canonical(date(1995, 3, 5), "date")
    assert canonical(Decimal("-0.00"), "sum") == canonical(0, "sum") == "0"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, "integer"),
        (0.001, "money"),
        (float("nan"), "sum"),
        ("05.03.1995", "date"),
    ],
)
def test_what_cannot_be_of_a_kind_is_malformed(value, kind):
    with pytest.raises(MalformedAnswer):
        canonical(value, kind)


@pytest.mark.parametrize(
    ("kind", "want", "have", "agree"),
    [
        ("sum", "1000000", "1000100", True),  # clause 2.1.3.5 c: within $100
        ("sum", "1000000", "1000100.01", False),
        ("average", "25.52", "25.774", True),  # d: within 1 %
        ("average", "25.52", "25.776", False),
        ("ratio", "0.0344", "0.0345", True),
        ("ratio", "0.0344", "0.0301", False),  # both round to 0.03, and are 12 % apart
        ("ratio", "0.034999999", "0.035000001", True),  # either side of a rounding edge
        ("sum-ratio", "5000", "5090", False),  # within $100, not within 1 %
        ("sum-ratio", "348406.05", "348506.06", False),  # within 1 %, not within $100
    ],
)
def test_tolerances_are_those_of_the_specification(kind, want, have, agree):
    assert within(kind, want, have, sum_tolerance(1)) is agree


def test_below_scale_1_a_sum_may_differ_by_less():
    assert sum_tolerance(0.01) == 1
    assert sum_tolerance(100) == 100


def test_a_check_that_breaks_is_unknown_and_never_passed(answers, monkeypatch, quiet):
    def broken(*_):
        raise ZeroDivisionError("in the checker")

    monkeypatch.setattr("harness.workloads.tpch.reference.compare", broken)
    answered = Answered(Statement(6, parameters(6, None, SCALE), ""), answers[6])
    (check,) = check_answers(SCALE, "postgres", None, [answered], quiet)
    assert (check.status, "ZeroDivisionError" in check.detail) == ("unknown", True)
