"""Parameters of the TPC-C workload, and the population that they mean."""

from harness.workloads.tpcc.params import TpccParams, row_counts, shares


def normalised(given):
    return TpccParams.from_mapping(given).to_json()


def test_users_that_think_are_ten_a_warehouse_at_home_and_share_connections():
    params = normalised({"warehouses": 1000, "think_time": True})
    assert (params["users"], params["home"]) == (10_000, "fixed")
    assert params["connections"] == 32
    assert normalised(params) == params


def test_the_deck_has_ten_ten_one_one_one():
    assert shares("deck") == {
        "new_order": 10 / 23,
        "payment": 10 / 23,
        "order_status": 1 / 23,
        "delivery": 1 / 23,
        "stock_level": 1 / 23,
    }


def test_weights_are_of_their_sum():
    mix = normalised({"mix": {"new_order": 3, "payment": 1}})["mix"]
    assert shares(mix) == {
        "new_order": 0.75,
        "payment": 0.25,
        "order_status": 0,
        "delivery": 0,
        "stock_level": 0,
    }


def test_the_native_client_is_told_what_transactions_depend_on():
    native = TpccParams.from_mapping({"warehouses": 3}).native_json()
    assert native == {"warehouses": 3, "home": "all", "mix": "deck", "data_seed": 1}


def test_an_isolation_level_is_one_that_every_engine_has():
    assert "isolation" not in normalised({})
    assert normalised({"isolation": "repeatable-read"})["isolation"] == "repeatable-read"


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
