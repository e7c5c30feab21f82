"""The twelve consistency conditions find what breaks them, on every engine."""

from contextlib import closing

import pytest

from harness.progress import SilentProgress
from harness.workloads.tpcc.consistency import (
    check_conditions,
    check_counted,
    check_population,
    check_remote,
    loaded_traces,
    read_traces,
)

#: By condition: what is planted, how it is taken back, and all conditions that it breaks.
PLANTED = {
    1: (
        "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
        "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 1",
        {1, 8},
    ),
    2: (
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 4",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_id = 4",
        {2},
    ),
    3: (
        "DELETE FROM new_order WHERE no_d_id = 5 AND no_o_id = 2500",
        "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (1, 5, 2500)",
        {3, 5, 11},
    ),
    4: (
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, "
        "ol_quantity, ol_amount, ol_dist_info) VALUES (1, 1, 9999, 1, 1, 1, 1, 1, 'x')",
        "DELETE FROM order_line WHERE ol_o_id = 9999",
        {4},
    ),
    5: (
        "UPDATE orders SET o_carrier_id = 1 WHERE o_d_id = 6 AND o_id = 2900",
        "UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 6 AND o_id = 2900",
        {5, 7},
    ),
    6: (
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + CASE o_id WHEN 7 THEN 1 ELSE -1 END "
        "WHERE o_d_id = 2 AND o_id IN (7, 8)",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - CASE o_id WHEN 7 THEN 1 ELSE -1 END "
        "WHERE o_d_id = 2 AND o_id IN (7, 8)",
        {6},
    ),
    7: (
        "UPDATE order_line SET ol_delivery_d = NULL "
        "WHERE ol_d_id = 3 AND ol_o_id = 100 AND ol_number = 1",
        "UPDATE order_line SET ol_delivery_d = '2020-01-01 00:00:00' "
        "WHERE ol_d_id = 3 AND ol_o_id = 100 AND ol_number = 1",
        {7},
    ),
    8: (
        "UPDATE history SET h_amount = h_amount + 1 WHERE h_c_d_id = 2 AND h_c_id = 77",
        "UPDATE history SET h_amount = h_amount - 1 WHERE h_c_d_id = 2 AND h_c_id = 77",
        {8, 9, 10},
    ),
    9: (
        "UPDATE history SET h_d_id = 3 WHERE h_c_d_id = 2 AND h_c_id = 77",
        "UPDATE history SET h_d_id = 2 WHERE h_c_d_id = 2 AND h_c_id = 77",
        {9},
    ),
    10: (
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 "
        "WHERE c_d_id = 9 AND c_id = 5",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1 "
        "WHERE c_d_id = 9 AND c_id = 5",
        {10},
    ),
    11: (
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_d_id = 9 AND c_id = 5",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt - 1 WHERE c_d_id = 9 AND c_id = 5",
        {11},
    ),
    12: (
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 9 AND c_id = 5",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_d_id = 9 AND c_id = 5",
        {12},
    ),
}


PLANTED_PAYMENT = (
    "UPDATE customer SET c_payment_cnt = c_payment_cnt + 1 WHERE c_d_id = 9 AND c_id = 5",
    "UPDATE customer SET c_payment_cnt = c_payment_cnt - 1 WHERE c_d_id = 9 AND c_id = 5",
)


def violated(engine) -> dict[int, str]:
    checks = check_conditions(engine, SilentProgress())
    assert [check.labels["condition"] for check in checks] == [str(n) for n in range(1, 13)]
    assert {check.status for check in checks} <= {"passed", "failed"}, checks
    return {int(c.labels["condition"]): c.detail for c in checks if c.status == "failed"}


def execute(engine, sql: str) -> None:
    with closing(engine.connect()) as connection:
        connection.execute(sql)


def test_the_loaded_data_hold_all_of_them(loaded):
    assert violated(loaded.engine) == {}


def together() -> list[list[int]]:
    """All of what can be planted, in as few groups as break different conditions."""
    groups: list[tuple[list[int], set[int]]] = []
    for number, (_, _, breaks) in PLANTED.items():
        for numbers, broken in groups:
            if not broken & breaks:
                numbers.append(number)
                broken.update(breaks)
                break
        else:
            groups.append(([number], set(breaks)))
    return [numbers for numbers, _ in groups]


def is_found(engine, numbers: list[int]) -> None:
    """What these break, and nothing else, each with its rows."""
    for number in numbers:
        execute(engine, PLANTED[number][0])
    try:
        found = violated(engine)
    finally:
        for number in numbers:
            execute(engine, PLANTED[number][1])
    assert set(found) == set().union(*(PLANTED[number][2] for number in numbers))
    for number in numbers:
        assert number in PLANTED[number][2]
        assert f"clause 3.3.2.{number} does not hold: " in found[number]
        assert "d_id=" in found[number] or number in (1, 8)


@pytest.mark.parametrize("numbers", together())
def test_every_condition_finds_what_is_planted_on_every_engine(loaded, numbers):
    is_found(loaded.engine, numbers)


def test_all_of_it_was_taken_back(loaded):
    assert violated(loaded.engine) == {}


def test_a_condition_that_cannot_be_asked_is_unknown(loaded):
    execute(loaded.engine, "ALTER TABLE history RENAME TO history_elsewhere")
    try:
        checks = check_conditions(loaded.engine, SilentProgress())
    finally:
        execute(loaded.engine, "ALTER TABLE history_elsewhere RENAME TO history")
    unknown = {int(c.labels["condition"]) for c in checks if c.status == "unknown"}
    assert unknown == {8, 9, 10}
    assert {c.status for c in checks if int(c.labels["condition"]) not in unknown} == {"passed"}


def test_remote_lines_where_there_is_one_warehouse_are_found(loaded):
    assert check_remote(1, loaded.engine).status == "unknown"  # nobody has paid, nor ordered
    plant = (
        "UPDATE history SET h_c_w_id = 2 WHERE h_c_d_id = 2 AND h_c_id = 77",
        "UPDATE history SET h_c_w_id = 1 WHERE h_c_d_id = 2 AND h_c_id = 77",
    )
    execute(loaded.engine, plant[0])
    found = check_remote(1, loaded.engine)
    execute(loaded.engine, plant[1])
    assert found.status == "failed"
    assert "remote payments: 1 of 0" in found.detail


def test_rows_that_are_gone_are_missed_although_the_conditions_hold(loaded):
    """Of stock that nobody has ordered from none of the twelve says anything."""
    assert check_population(1, loaded.engine).status == "passed"
    columns = "s_i_id, s_w_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, " + ", ".join(
        f"s_dist_{n:02}" for n in range(1, 11)
    )
    execute(loaded.engine, f"CREATE TABLE kept AS SELECT {columns} FROM stock WHERE s_i_id = 1")
    execute(loaded.engine, "DELETE FROM stock WHERE s_i_id = 1")
    found = check_population(1, loaded.engine)
    execute(loaded.engine, f"INSERT INTO stock ({columns}) SELECT {columns} FROM kept")
    execute(loaded.engine, "DROP TABLE kept")
    assert found.status == "failed"
    assert found.detail == "stock has 99,999 rows, expected 100,000"


def test_transactions_that_the_data_lack_or_have_twice_are_found(loaded):
    before = loaded_traces(1)
    assert read_traces(loaded.engine) == before
    for plant, restore in (PLANTED[2][:2], PLANTED_PAYMENT):
        execute(loaded.engine, plant)
        grown = read_traces(loaded.engine)
        new_orders, payments = (
            grown.new_order - before.new_order,
            grown.payment - before.payment,
        )
        counted = {"new_order": new_orders, "payment": payments}
        found = {
            off: check_counted(
                {name: count - off for name, count in counted.items()}, before, loaded.engine, 1
            ).status
            for off in (-1, 0, 1, 2)
        }
        execute(loaded.engine, restore)
        assert found == {-1: "failed", 0: "passed", 1: "passed", 2: "failed"}
    assert read_traces(loaded.engine) == before
