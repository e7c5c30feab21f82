"""Parameters of tpch, and the queries of each stream: order, values."""

import hashlib
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.workloads.tpch.params import TpchParams, minimum_streams
from harness.workloads.tpch.qgen import QUERIES, SEEDS, parameters
from harness.workloads.tpch.statements import (
    chosen_statements,
    power_statements,
    query_order,
    stream_seed,
    stream_statements,
)


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


# What each stream submits, and in which order ---------------------------------------

NOWHERE = Path("/nonexistent")


def test_seeds_are_those_of_clause_2_1_3_3():
    assert [stream_seed(7, stream) for stream in range(4)] == [7, 8, 9, 10]
    assert [stream_seed(None, stream) for stream in range(4)] == [None, 1, 2, 3]
    assert stream_seed(SEEDS[-1], 1) == SEEDS[0]  # qgen has no seed after its last


def test_a_power_test_is_stream_0_with_the_validation_values():
    statements = power_statements(TpchParams.from_mapping({"test": "power"}), NOWHERE)
    assert [s.query for s in statements] == list(query_order(0))
    assert all(s.values == parameters(s.query, None, 1) for s in statements)
    assert {tuple(s.labels) for s in statements} == {("query",)}


def test_every_stream_of_a_throughput_test_has_its_order_and_values():
    params = TpchParams.from_mapping({"test": "throughput", "query_seed": 100, "streams": 3})
    for stream in (1, 2, 3):
        statements = stream_statements(params, NOWHERE, stream)
        assert [s.query for s in statements] == list(query_order(stream))
        assert all(s.values == parameters(s.query, 100 + stream, 1) for s in statements)
        assert all(s.labels == {"query": str(s.query), "stream": str(stream)} for s in statements)


def test_chosen_queries_keep_their_order():
    assert [
        s.query for s in chosen_statements(TpchParams.from_mapping({"queries": "6,1"}), NOWHERE)
    ] == [6, 1]
    assert len(chosen_statements(TpchParams.from_mapping({}), NOWHERE)) == len(QUERIES)


# Their order -----------------------------------------------------------------------

#: SHA-256 of the 41 lists, numbers parted by blanks and lists by line ends, as they stand in
#: permute.h of the TPC's qgen 2.17.3 and in HammerDB's tpchcommon-1.0.tm (recorded of both).
QGEN_ORDERED_SETS = "148252e9215a408c09ec5a2ca433974a59834be293297958864645dc14413f4f"


def test_the_ordered_sets_are_those_of_qgen():
    lines = [" ".join(map(str, query_order(stream))) for stream in range(41)]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == QGEN_ORDERED_SETS


def test_after_the_last_ordered_set_the_first_comes_again():
    assert query_order(41) == query_order(0)
    assert query_order(83) == query_order(1)


@pytest.mark.parametrize(
    ("scale", "streams"),
    [(0.01, 2), (1, 2), (9.99, 2), (10, 3), (30, 4), (100, 5), (300, 6), (1000, 7), (100_000, 11)],
)
def test_larger_scales_ask_for_more_streams(scale, streams):
    assert minimum_streams(scale) == streams


# Parameters are the ones that qgen draws --------------------------------------------

RECORDING = Path(__file__).parent / "recordings" / "qgen-2.17.3.tsv"
RECORDED = [
    line.split("\t") for line in RECORDING.read_text().splitlines() if not line.startswith("#")
]


def flat(values):
    return [item for v in values.values() for item in (v if isinstance(v, list) else [v])]


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"seed{line[0]}-q{line[2]}")
def test_parameters_of_a_seed_are_those_of_qgen(line):
    seed, scale, query, *expected = line
    assert flat(parameters(int(query), int(seed), float(scale))) == expected


def test_the_fraction_of_query_11_follows_the_scale():
    assert parameters(11, None, 1)["fraction"] == "0.0001000000"
    assert parameters(11, None, 100)["fraction"] == "0.0000010000"


@pytest.mark.parametrize("seed", [0, 2**31 - 1, -1])
def test_a_fixed_point_of_the_generator_is_refused(seed):
    assert seed not in SEEDS
    with pytest.raises(UsageError, match="not a seed"):
        parameters(7, seed, 1)
