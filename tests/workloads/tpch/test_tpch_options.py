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
        {"test": "power"},
        {"test": "both", "streams": 3, "refresh_batch_orders": 10, "cache": "warm"},
        {"test": "throughput", "refresh": False},
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
    assert refusal.value.hint


def test_a_refused_scale_names_one_that_works():
    with pytest.raises(UsageError) as refusal:
        WORKLOAD.normalise({"scale": 0.001})
    assert "0.0031" in refusal.value.hint
    assert WORKLOAD.normalise({"scale": 0.0031})["scale"] == 0.0031


@pytest.mark.parametrize("load_format", ["csv", "parquet"])
def test_the_estimate_grows_with_the_scale_and_names_every_directory_part(load_format):
    small = WORKLOAD.estimate_bytes(WORKLOAD.normalise({"scale": 1}), load_format)
    large = WORKLOAD.estimate_bytes(WORKLOAD.normalise({"scale": 100}), load_format)
    assert set(small) == {"data", "wal", "temp", "index"}
    assert large["data"] > 50 * small["data"]
    assert small["data"] > large["index"] / 100


def test_parameters_of_other_tests_do_not_change_what_a_run_of_queries_is_called():
    assert WORKLOAD.normalise({"test": "queries"}) == WORKLOAD.normalise({})


def test_power_is_one_stream_cold_per_query_with_refresh_functions():
    params = WORKLOAD.normalise({"test": "power"})
    assert (params["cache"], params["plans"], params["refresh"]) == ("cold-per-query", True, True)
    assert "streams" not in params


@pytest.mark.parametrize(("scale", "streams"), [(0.01, 2), (1, 2), (10, 3), (99, 4), (100, 5)])
def test_throughput_has_the_streams_of_its_scale_cold_once(scale, streams):
    params = WORKLOAD.normalise({"test": "throughput", "scale": scale})
    assert (params["streams"], params["cache"], params["plans"]) == (streams, "cold-per-run", False)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"test": "powr"}, "did you mean 'power'"),
        ({"test": "power", "queries": "1,6"}, "all 22 queries"),
        ({"test": "power", "streams": 2}, "one query stream"),
        ({"test": "throughput", "streams": 0}, "not a number of query streams"),
        ({"test": "throughput", "streams": 999}, "not a number of query streams"),
        ({"test": "throughput", "streams": True}, "not a number of query streams"),
        ({"test": "throughput", "streams": "2"}, "not a number of query streams"),
        ({"test": "both", "cache": "cold-per-query"}, "would stop the queries of all others"),
        ({"test": "throughput", "plans": True}, "beside others"),
        ({"test": "power", "refresh": "no"}, "neither true nor false"),
        ({"test": "power", "refresh_batch_orders": 0}, "not a number of orders"),
        ({"test": "power", "refresh": False, "refresh_batch_orders": 5}, "nothing to cut"),
        ({"streams": 2}, "one stream of queries"),
        ({"refresh": True}, "changes no data"),
    ],
)
def test_what_a_test_does_not_have_is_refused(params, says):
    with pytest.raises(UsageError) as refused:
        WORKLOAD.normalise(params)
    assert says in f"{refused.value.problem}: {refused.value.context}"
    assert refused.value.hint


@pytest.mark.parametrize("refresh", [True, False])
def test_refresh_functions_are_neither_asked_for_nor_refused_where_there_are_none(refresh):
    with pytest.raises(UsageError, match=r"refresh (True|False) with test queries"):
        WORKLOAD.normalise({"refresh": refresh})
