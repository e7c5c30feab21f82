"""What a user may ask of tpch, and what is refused before anything is done."""

import math

import pytest

from harness.errors import UsageError
from harness.workloads.tpch import WORKLOAD


def test_defaults_are_scale_1_all_queries_each_cold():
    assert WORKLOAD.normalise({}) == {
        "scale": 1,
        "queries": list(range(1, 23)),
        "cache": "cold-per-query",
        "query_seed": None,
        "query_timeout_s": None,
        "plans": True,
        "warmups": 0,
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"queries": "6,1", "scale": 10.0, "cache": "warm"},
        {"queries": [22], "query_seed": 5, "query_timeout_s": 1.5, "plans": False},
        {"cache": "warm", "warmups": 3, "scale": 0.01},
    ],
)
def test_what_was_normalised_stays_as_it_is(given):
    once = WORKLOAD.normalise(given)
    assert WORKLOAD.normalise(once) == once


def test_queries_keep_their_order_and_equal_scales_are_equal():
    assert WORKLOAD.normalise({"queries": " 6, 1"})["queries"] == [6, 1]
    assert WORKLOAD.normalise({"queries": 6})["queries"] == [6]
    assert repr(WORKLOAD.normalise({"scale": 1.0})["scale"]) == "1"
    assert WORKLOAD.normalise({"cache": "warm"})["warmups"] == 1


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"scale": 0}, "out of range"),
        ({"scale": -1}, "out of range"),
        ({"scale": 1e9}, "out of range"),
        ({"scale": math.nan}, "not a number"),
        ({"scale": math.inf}, "not a number"),
        ({"scale": "1"}, "not a number"),
        ({"scale": "big"}, "not a number"),
        ({"scale": True}, "not a number"),
        ({"scale": None}, "not a number"),
        ({"scale": 0.001}, "same primary key twice"),
        ({"queries": "1,1"}, "named twice"),
        ({"queries": "0"}, "'0' is not a query"),
        ({"queries": "23"}, "'23' is not a query"),
        ({"queries": "one"}, "'one' is not a query"),
        ({"queries": "1,,2"}, "'' is not a query"),
        ({"queries": []}, "not a list"),
        ({"queries": {"1": 2}}, "not a list"),
        ({"queries": True}, "not a list"),
        ({"queries": [1.5]}, "'1.5' is not a query"),
        ({"cache": "cold"}, "not a cache mode"),
        ({"query_seed": 0}, "not a seed"),
        ({"query_seed": "7"}, "not a seed"),
        ({"query_seed": 2**31}, "not a seed"),
        ({"query_timeout_s": 0}, "not a time limit"),
        ({"query_timeout_s": "1s"}, "not a time limit"),
        ({"plans": "yes"}, "neither true nor false"),
        ({"warmups": 1}, "is not cold"),
        ({"warmups": -1, "cache": "warm"}, "not a count"),
        ({"scael": 1}, "did you mean 'scale'"),
    ],
    ids=str,
)
def test_nonsense_is_refused_with_what_is_allowed(params, says):
    with pytest.raises(UsageError, match=says) as refusal:
        WORKLOAD.normalise(params)
    assert refusal.value.do


def test_a_refused_scale_names_one_that_works():
    with pytest.raises(UsageError) as refusal:
        WORKLOAD.normalise({"scale": 0.001})
    assert "0.0031" in refusal.value.do
    assert WORKLOAD.normalise({"scale": 0.0031})["scale"] == 0.0031


@pytest.mark.parametrize("load_format", ["csv", "parquet"])
def test_the_estimate_grows_with_the_scale_and_names_every_directory_part(load_format):
    small = WORKLOAD.estimate_bytes(WORKLOAD.normalise({"scale": 1}), load_format)
    large = WORKLOAD.estimate_bytes(WORKLOAD.normalise({"scale": 100}), load_format)
    assert set(small) == {"data", "wal", "temp", "index"}
    assert large["data"] > 50 * small["data"]
    assert small["data"] > large["index"] / 100
