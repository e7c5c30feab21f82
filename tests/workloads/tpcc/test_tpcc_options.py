"""Parameters of the TPC-C workload."""

import pytest

from harness.errors import UsageError
from harness.workloads.parameters import duration_ns
from harness.workloads.tpcc.options import normalise, shares


def test_defaults_are_written_out_and_stay_as_they_are():
    params = normalise({})
    assert params["warehouses"] == 10
    assert params["users"] == params["connections"] == 8
    assert (params["ramp_up"], params["duration"]) == ("2m", "3m")
    assert (params["home"], params["mix"], params["rate_per_s"]) == ("all", "deck", None)
    assert normalise(params) == params


def test_users_that_think_are_ten_a_warehouse_at_home_and_share_connections():
    params = normalise({"warehouses": 1000, "think_time": True})
    assert (params["users"], params["home"]) == (10_000, "fixed")
    assert params["connections"] == 32
    assert normalise(params) == params


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
    params = normalise({"duration": given})
    assert params["duration"] == kept
    assert duration_ns(params, "duration") == nanoseconds


def test_no_ramp_up_at_all():
    assert normalise({"ramp_up": 0})["ramp_up"] == "0s"
    assert normalise({"ramp_up": "0s"})["ramp_up"] == "0s"


def test_the_deck_has_ten_ten_one_one_one():
    assert shares("deck") == {
        "new_order": 10 / 23,
        "payment": 10 / 23,
        "order_status": 1 / 23,
        "delivery": 1 / 23,
        "stock_level": 1 / 23,
    }


def test_weights_are_of_their_sum():
    mix = normalise({"mix": {"new_order": 3, "payment": 1}})["mix"]
    assert shares(mix) == {
        "new_order": 0.75,
        "payment": 0.25,
        "order_status": 0,
        "delivery": 0,
        "stock_level": 0,
    }


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"scale": 1}, ["'scale'", "did you mean 'warehouses'"]),
        ({"streams": 4}, ["did you mean 'users'"]),
        ({"warehuoses": 1}, ["did you mean 'warehouses'"]),
        ({"queries": "1"}, ["not a parameter of tpcc"]),
        ({"warehouses": 0}, ["warehouses 0", "out of range"]),
        ({"warehouses": 1.5}, ["warehouses 1.5", "not a whole number"]),
        ({"users": True}, ["users True"]),
        ({"duration": "3"}, ["duration", "not a duration"]),
        ({"duration": "0s"}, ["out of range", "from 1s to 168h"]),
        ({"duration": "999ms"}, ["out of range", "from 1s to 168h"]),
        ({"duration": "900h"}, ["out of range", "from 1s to 168h"]),
        ({"ramp_up": "900h"}, ["out of range", "from 0s to 168h"]),
        ({"rate_per_s": 0}, ["nothing would be offered"]),
        ({"rate_per_s": 10, "think_time": True}, ["leave one of the two out"]),
        ({"home": "away"}, ["home 'away'", "all, fixed"]),
        ({"mix": "dekc"}, ["neither the deck nor weights"]),
        ({"mix": {"neworder": 45}}, ["did you mean 'new_order'"]),
        ({"mix": {"new_order": -1}}, ["-1 is no weight"]),
        ({"mix": {"new_order": 0}}, ["all weights are 0"]),
        ({"users": 4, "connections": 5}, ["5 connections for 4 users"]),
        ({"users": 4, "clients": 5}, ["every event loop needs a connection"]),
        ({"test": "durabilty"}, ["did you mean 'durability'"]),
    ],
)
def test_what_is_refused_says_what_is_right(params, words):
    with pytest.raises(UsageError) as error:
        normalise(params)
    text = " ".join((error.value.problem, error.value.context, error.value.hint))
    for word in words:
        assert word in text


def test_a_stall_timeout_is_a_parameter_where_it_is_given():
    assert "stall_timeout" not in normalise({})
    assert normalise({"stall_timeout": "90s"})["stall_timeout"] == "90s"


def test_an_isolation_level_is_one_that_every_engine_has():
    assert "isolation" not in normalise({})
    assert normalise({"isolation": "repeatable-read"})["isolation"] == "repeatable-read"
    with pytest.raises(UsageError, match="isolation"):
        normalise({"isolation": "snapshot"})
