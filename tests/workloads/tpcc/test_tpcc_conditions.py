"""The twelve consistency conditions find what breaks them, on every engine."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from lab import execute

from harness.progress import SilentProgress
from harness.workloads.tpcc.consistency import (
    check_conditions,
    check_counted,
    check_population,
    check_remote,
    loaded_traces,
    read_traces,
)


def moved(table: str, column: str, where: str, by: str = "1") -> tuple[str, ...]:
    """Return statements that add to a column, and take it off again."""
    return tuple(f"UPDATE {table} SET {column} = {column} {s} {by} WHERE {where}" for s in "+-")


def changed(table: str, column: str, where: str, *values: str) -> tuple[str, ...]:
    """Return statements that give a column the first value, and the second one, that it had."""
    return tuple(f"UPDATE {table} SET {column} = {value} WHERE {where}" for value in values)


ONE_LINE = "ol_d_id = 3 AND ol_o_id = 100 AND ol_number = 1"
PAID = "h_c_d_id = 2 AND h_c_id = 77"
CUSTOMER = "c_d_id = 9 AND c_id = 5"
OPPOSITE = "CASE o_id WHEN 7 THEN 1 ELSE -1 END"

#: By condition: what is planted and how it is taken back, and all conditions that it breaks.
PLANTED = {
    1: (moved("warehouse", "w_ytd", "w_id = 1"), {1, 8}),
    2: (moved("district", "d_next_o_id", "d_id = 4"), {2}),
    3: (
        (
            "DELETE FROM new_order WHERE no_d_id = 5 AND no_o_id = 2500",
            "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (1, 5, 2500)",
        ),
        {3, 5, 11},
    ),
    4: (
        (
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, "
            "ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) "
            "VALUES (1, 1, 9999, 1, 1, 1, 1, 1, 'x')",
            "DELETE FROM order_line WHERE ol_o_id = 9999",
        ),
        {4},
    ),
    5: (changed("orders", "o_carrier_id", "o_d_id = 6 AND o_id = 2900", "1", "NULL"), {5, 7}),
    6: (moved("orders", "o_ol_cnt", "o_d_id = 2 AND o_id IN (7, 8)", OPPOSITE), {6}),
    7: (changed("order_line", "ol_delivery_d", ONE_LINE, "NULL", "'2020-01-01 00:00:00'"), {7}),
    8: (moved("history", "h_amount", PAID), {8, 9, 10}),
    9: (changed("history", "h_d_id", PAID, "3", "2"), {9}),
    10: (
        tuple(
            f"UPDATE customer SET c_balance = c_balance {up}, c_ytd_payment = c_ytd_payment {down} "
            f"WHERE {CUSTOMER}"
            for up, down in (("+ 1", "- 1"), ("- 1", "+ 1"))
        ),
        {10},
    ),
    11: (moved("customer", "c_delivery_cnt", CUSTOMER), {11}),
    12: (moved("customer", "c_ytd_payment", CUSTOMER), {12}),
}


def violated(engine) -> dict[int, str]:
    checks = check_conditions(engine, SilentProgress())
    assert [check.labels["condition"] for check in checks] == [str(n) for n in range(1, 13)]
    assert {check.status for check in checks} <= {"passed", "failed"}, checks
    return {int(c.labels["condition"]): c.detail for c in checks if c.status == "failed"}


@contextmanager
def planted(engine, *pairs: tuple[str, ...]) -> Iterator[None]:
    execute(engine, *(plant for plant, _ in pairs))
    try:
        yield
    finally:
        execute(engine, *(restore for _, restore in pairs))


def test_the_loaded_data_hold_all_of_them(loaded):
    assert violated(loaded.engine) == {}


def together() -> list[list[int]]:
    """All of what can be planted, in as few groups as break different conditions."""
    groups: list[tuple[list[int], set[int]]] = []
    for number, (_, breaks) in PLANTED.items():
        for numbers, broken in groups:
            if not broken & breaks:
                numbers.append(number)
                broken.update(breaks)
                break
        else:
            groups.append(([number], set(breaks)))
    return [numbers for numbers, _ in groups]


def is_found(engine, numbers: list[int]) -> None:
    """Plant errors; check that exactly their conditions are violated, each with its rows."""
    with planted(engine, *(PLANTED[number][0] for number in numbers)):
        violations = violated(engine)
    assert set(violations) == set().union(*(PLANTED[number][1] for number in numbers))
    for number in numbers:
        assert number in PLANTED[number][1]
        assert f"clause 3.3.2.{number} does not hold: " in violations[number]
        assert "d_id=" in violations[number] or number in (1, 8)


@pytest.mark.parametrize("numbers", together())
def test_every_condition_finds_what_is_planted_on_every_engine(loaded, numbers):
    is_found(loaded.engine, numbers)


def test_all_of_it_was_taken_back(loaded):
    assert violated(loaded.engine) == {}


def test_a_condition_that_cannot_be_asked_is_unknown(loaded):
    renamed = (
        "ALTER TABLE history RENAME TO history_elsewhere",
        "ALTER TABLE history_elsewhere RENAME TO history",
    )
    with planted(loaded.engine, renamed):
        checks = check_conditions(loaded.engine, SilentProgress())
    unknown = {int(c.labels["condition"]) for c in checks if c.status == "unknown"}
    assert unknown == {8, 9, 10}
    assert {c.status for c in checks if int(c.labels["condition"]) not in unknown} == {"passed"}


def test_remote_lines_where_there_is_one_warehouse_are_found(loaded):
    assert check_remote(1, loaded.engine).status == "unknown"  # nobody has paid, nor ordered
    with planted(loaded.engine, changed("history", "h_c_w_id", PAID, "2", "1")):
        check = check_remote(1, loaded.engine)
    assert check.status == "failed"
    assert "remote payments: 1 of 0" in check.detail


def test_rows_that_are_gone_are_missed_although_the_conditions_hold(loaded):
    """None of the twelve conditions covers stock that nobody has ordered from."""
    assert check_population(1, loaded.engine).status == "passed"
    columns = "s_i_id, s_w_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, " + ", ".join(
        f"s_dist_{n:02}" for n in range(1, 11)
    )
    copy = f"CREATE TABLE kept AS SELECT {columns} FROM stock WHERE s_i_id = 1"
    execute(loaded.engine, copy, "DELETE FROM stock WHERE s_i_id = 1")
    check = check_population(1, loaded.engine)
    restore = f"INSERT INTO stock ({columns}) SELECT {columns} FROM kept"
    execute(loaded.engine, restore, "DROP TABLE kept")
    assert check.status == "failed"
    assert check.detail == "stock has 99,999 rows, expected 100,000"


def test_transactions_that_the_data_lack_or_have_twice_are_found(loaded):
    before = loaded_traces(1)
    assert read_traces(loaded.engine) == before
    for pair in (PLANTED[2][0], moved("customer", "c_payment_cnt", CUSTOMER)):
        checks = {}
        with planted(loaded.engine, pair):
            grown = read_traces(loaded.engine)
            for off in (-1, 0, 1, 2):
                counted = {
                    name: getattr(grown, name) - getattr(before, name) - off
                    for name in ("new_order", "payment")
                }
                checks[off] = check_counted(counted, before, loaded.engine, 1).status
        assert checks == {-1: "failed", 0: "passed", 1: "passed", 2: "failed"}
    assert read_traces(loaded.engine) == before
