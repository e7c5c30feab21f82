"""Order of the queries in each stream."""

import hashlib

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
