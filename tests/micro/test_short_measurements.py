"""Rates over so little time that starting and ending are a part of them."""

from __future__ import annotations

from typing import Any

from micro_suites import RANDOM, suite

from harness.micro.result_warnings import warnings_of
from harness.micro.spec import measurement_name

MS = 1_000_000


def told(*windows_ns: int, kind: str = "throughput") -> list[str]:
    """What is found of configurations a, b … whose threads ran together for so long."""
    names = "abcdef"[: len(windows_ns)]
    result: dict[str, Any] = {
        "cpu": {"stamp_step_ns": 0.4},
        "targets": {},
        "notes": [],
        "measurements": [
            {
                "name": measurement_name(index, 0),
                "repeats": [
                    {
                        "core_hz": 0,
                        "stolen_ns": None,
                        "duration_ns": window,
                        "jobs": [
                            {
                                "kind": kind,
                                "window": {"duration_ns": window},
                                "durable": None,
                                "threads": [],
                            }
                        ],
                    }
                ],
            }
            for index, window in enumerate(windows_ns)
        ],
    }
    mine = suite("".join(f"  {name}: {{{RANDOM}}}\n" for name in names)).measurements
    found = warnings_of(mine, result, 1)
    return [one.context for one in found if one.code == "short-measurements"]


def test_the_shortest_are_named() -> None:
    (found,) = told(900 * MS, 7_800, 9 * MS, 124_000, 3 * MS)
    assert found.startswith("4 configurations, the shortest ")
    assert "b (7.8 µs); d (124 µs); e (3 ms); …" in found


def test_latencies_and_measurements_of_10_ms_are_not() -> None:
    assert told(10 * MS, 2000 * MS) == []
    assert told(7_800, kind="latency") == []
