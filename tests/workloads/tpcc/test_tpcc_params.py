"""Parameters of the TPC-C workload."""

import pytest

from harness.workloads.tpcc.params import TpccParams, shares


def normalised(given):
    return TpccParams.from_mapping(given).to_json()


def test_defaults_are_written_out_and_stay_as_they_are():
    params = normalised({})
    assert params["warehouses"] == 10
    assert params["users"] == params["connections"] == 8
    assert (params["ramp_up"], params["duration"]) == ("2m", "3m")
    assert (params["home"], params["mix"], params["rate"]) == ("all", "deck", None)
    assert normalised(params) == params


def test_users_that_think_are_ten_a_warehouse_at_home_and_share_connections():
    params = normalised({"warehouses": 1000, "think_time": True})
    assert (params["users"], params["home"]) == (10_000, "fixed")
    assert params["connections"] == 32
    assert normalised(params) == params


@pytest.mark.parametrize(
    ("given", "kept", "nanoseconds"),
    [
        ("90s", "90s", 90 * 10**9),
        ("1.5m", "90s", 90 * 10**9),
        ("180s", "3m", 180 * 10**9),
        ("2500ms", "2500ms", 2500 * 10**6),
        ("1000ms", "1s", 10**9),
        ("1.5s", "1500ms", 1500 * 10**6),
    ],
)
def test_a_duration_has_one_form(given, kept, nanoseconds):
    params = TpccParams.from_mapping({"duration": given})
    assert params.to_json()["duration"] == kept
    assert params.duration.ns == nanoseconds


def test_no_ramp_up_at_all():
    assert normalised({"ramp_up": 0})["ramp_up"] == "0s"
    assert normalised({"ramp_up": "0s"})["ramp_up"] == "0s"


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


def test_runs_without_hosts_keep_their_hash():
    assert "client_hosts" not in normalised({})
    assert normalised(normalised({"client_hosts": "a,b"}))["client_hosts"] == ["a", "b"]
    assert normalised({"client_hosts": "a,b,c"})["clients"] == 3


def test_the_native_client_is_told_what_transactions_depend_on():
    native = TpccParams.from_mapping({"warehouses": 3}).native_json()
    assert native == {"warehouses": 3, "home": "all", "mix": "deck", "data_seed": 1}


def test_a_stall_timeout_is_a_parameter_where_it_is_given():
    assert "stall_timeout" not in normalised({})
    assert normalised({"stall_timeout": "90s"})["stall_timeout"] == "90s"


def test_an_isolation_level_is_one_that_every_engine_has():
    assert "isolation" not in normalised({})
    assert normalised({"isolation": "repeatable-read"})["isolation"] == "repeatable-read"
