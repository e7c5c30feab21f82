"""What a user may ask of tpch, and what is refused before anything is done."""

import pytest

from harness.workloads.tpch.params import TpchParams


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


def test_power_is_one_stream_cold_per_query_with_refresh_functions():
    params = normalised({"test": "power"})
    assert (params["cache"], params["plans"], params["refresh"]) == ("cold-per-query", True, True)
    assert "streams" not in params


@pytest.mark.parametrize(("scale", "streams"), [(0.01, 2), (1, 2), (10, 3), (99, 4), (100, 5)])
def test_throughput_has_the_streams_of_its_scale_cold_once(scale, streams):
    params = normalised({"test": "throughput", "scale": scale})
    assert (params["streams"], params["cache"], params["plans"]) == (streams, "cold-per-run", False)
