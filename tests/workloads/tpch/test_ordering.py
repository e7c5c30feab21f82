"""Order of the queries in each stream."""

import hashlib

import pytest

from harness.workloads.tpch.params import minimum_streams
from harness.workloads.tpch.statements import query_order

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
