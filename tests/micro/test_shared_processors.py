"""Processors that other processes had while something was measured: told with what they had."""

from __future__ import annotations

from typing import Any

from micro_suites import RANDOM, suite

from harness.micro.result_warnings import warnings_of
from harness.micro.spec import measurement_name

MS = 1_000_000


def _result(ran: dict[tuple[int, int], float]) -> dict[str, Any]:
    """By configuration's number and block: the share of its 100 ms that the only thread ran."""
    measured = [
        {
            "name": measurement_name(index, block),
            "repeats": [{
                "stolen_ns": None, "core_hz": 0, "duration_ns": 100 * MS,
                "jobs": [{
                    "kind": "latency", "durable": None,
                    "threads": [
                        {"cpu": 0, "cpu_ns": share * 100 * MS, "begin_ns": 0, "end_ns": 100 * MS,
                         "minor_faults": 0, "major_faults": 0}
                    ],
                }],
            }],
        }
        for (index, block), share in ran.items()
    ]  # fmt: skip
    return {"cpu": {"stamp_step_ns": 0.4}, "targets": {}, "notes": [], "measurements": measured}


def _told(ran: dict[tuple[int, int], float], names: str) -> list[str]:
    mine = suite("".join(f"  {name}: {{{RANDOM}}}\n" for name in names.split())).measurements
    blocks = 1 + max(block for _, block in ran)
    return [
        one.context
        for one in warnings_of(mine, _result(ran), blocks)
        if one.code == "processors-shared"
    ]


def test_the_configurations_that_lost_most_are_named_with_their_worst_repeat() -> None:
    ran = {(0, 0): 1.0, (0, 1): 1.0, (1, 0): 0.9, (1, 1): 0.37, (2, 0): 0.99, (2, 1): 0.8}
    (found,) = _told(ran, "calm worst bad")
    assert "in 3 of 6 measurements" in found
    assert "the most in worst (63%); bad (20%)" in found
    assert "calm" not in found


def test_of_many_three_are_named() -> None:
    (found,) = _told({(n, 0): 0.9 - n / 10 for n in range(5)}, "a b c d e")
    assert "in 5 of 5 measurements" in found
    assert "e (50%); d (40%); c (30%); …" in found


def test_nothing_is_told_where_all_ran() -> None:
    assert _told({(0, 0): 1.0, (1, 0): 0.99}, "a b") == []
