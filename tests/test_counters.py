"""Names of counters: labels go in and come out again, units are read from the name."""

from __future__ import annotations

import pytest

from harness.counters import counter_metrics, difference, labelled, split, unit_of


@pytest.mark.parametrize(
    ("name", "labels", "text"),
    [
        ("cpu_ns", {}, "cpu_ns"),
        ("tier_read_bytes", {"tier": "pmem"}, "tier_read_bytes[tier=pmem]"),
        ("tier_read_bytes", {"tier": "ssd+log"}, "tier_read_bytes[tier=ssd+log]"),
        ("x_count", {"b": "2", "a": "1"}, "x_count[a=1,b=2]"),
    ],
)
def test_a_name_with_labels_can_be_read_back(name: str, labels: dict[str, str], text: str):
    assert labelled(name, **labels) == text
    assert split(text) == (name, labels)


def test_the_unit_is_the_name_s_last_word():
    assert unit_of("tier_read_bytes[tier=pmem]") == "B"
    assert unit_of("cpu_ns") == "ns"
    assert unit_of("postgres_commits_count") == "1"


def test_only_what_was_read_twice_has_a_difference():
    assert difference({"a_bytes": 1, "b_bytes": 5}, {"a_bytes": 4, "c_bytes": 9}) == {"a_bytes": 3}


def test_labels_of_the_counter_join_those_of_the_query():
    [cpu, read] = counter_metrics(
        "query_", {"query": "6"}, {"tier_read_bytes[tier=pmem]": 4096.0, "cpu_ns": 1e7}
    )
    assert (cpu.name, cpu.unit, cpu.labels) == ("query_cpu_ns", "ns", {"query": "6"})
    assert (read.name, read.unit) == ("query_tier_read_bytes", "B")
    assert read.labels == {"query": "6", "tier": "pmem"}
    assert read.better == "none" and read.value == 4096.0
