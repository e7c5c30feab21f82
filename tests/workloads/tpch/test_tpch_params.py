"""What a user may ask of tpch, and what is refused before anything is done."""

import pytest

from harness.errors import UsageError
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.workload import WORKLOAD


def normalised(given):
    return TpchParams.from_mapping(given).to_json()


def test_defaults_are_scale_1_all_queries_each_cold():
    assert normalised({}) == {
        "scale": 1,
        "queries": list(range(1, 23)),
        "cache": "cold-per-query",
        "query_seed": None,
        "query_timeout": None,
        "plans": True,
        "warmups": 0,
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"queries": "6,1", "scale": 10.0, "cache": "warm"},
        {"queries": [22], "query_seed": 5, "query_timeout": 1.5, "plans": False},
        {"cache": "warm", "warmups": 3, "scale": 0.01},
        {"test": "power"},
        {"test": "both", "streams": 3, "refresh_batch_orders": 10, "cache": "warm"},
        {"test": "throughput", "refresh": False},
    ],
)
def test_what_was_normalised_stays_as_it_is(given):
    once = normalised(given)
    assert normalised(once) == once


def test_queries_keep_their_order_and_equal_scales_are_equal():
    assert normalised({"queries": " 6, 1"})["queries"] == [6, 1]
    assert normalised({"queries": 6})["queries"] == [6]
    assert repr(normalised({"scale": 1.0})["scale"]) == "1"
    assert normalised({"cache": "warm"})["warmups"] == 1


def test_a_refused_scale_names_one_that_works():
    with pytest.raises(UsageError) as refusal:
        normalised({"scale": 0.001})
    assert "0.0031" in refusal.value.hint
    assert normalised({"scale": 0.0031})["scale"] == 0.0031


@pytest.mark.parametrize("load_format", ["csv", "parquet"])
def test_the_estimate_grows_with_the_scale_and_names_every_directory_part(load_format):
    small = WORKLOAD.estimate_bytes(TpchParams.from_mapping({"scale": 1}), load_format)
    large = WORKLOAD.estimate_bytes(TpchParams.from_mapping({"scale": 100}), load_format)
    assert set(small) == {"data", "wal", "temp", "index"}
    assert large["data"] > 50 * small["data"]
    assert small["data"] > large["index"] / 100


def test_parameters_of_other_tests_do_not_change_what_a_run_of_queries_is_called():
    assert normalised({"test": "queries"}) == normalised({})


def test_power_is_one_stream_cold_per_query_with_refresh_functions():
    params = normalised({"test": "power"})
    assert (params["cache"], params["plans"], params["refresh"]) == ("cold-per-query", True, True)
    assert "streams" not in params


@pytest.mark.parametrize(("scale", "streams"), [(0.01, 2), (1, 2), (10, 3), (99, 4), (100, 5)])
def test_throughput_has_the_streams_of_its_scale_cold_once(scale, streams):
    params = normalised({"test": "throughput", "scale": scale})
    assert (params["streams"], params["cache"], params["plans"]) == (streams, "cold-per-run", False)
