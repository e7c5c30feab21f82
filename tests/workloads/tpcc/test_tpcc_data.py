"""What is known of the population beforehand."""

from harness.workloads.tpcc.data import row_counts


def test_rows_are_those_of_clause_4_3_3_1():
    assert row_counts(7) == {
        "warehouse": 7,
        "district": 70,
        "customer": 210_000,
        "history": 210_000,
        "orders": 210_000,
        "new_order": 63_000,
        "stock": 700_000,
        "item": 100_000,
    }
