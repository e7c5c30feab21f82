"""The steps of the clock that stamps single operations: told where percentiles show them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.micro.result_warnings import warnings_of

SECOND = {"duration_ns": 1_000_000_000}


def told(step_ns: float, *jobs: tuple[str, str | None]) -> list[str]:
    """What is found of a measurement of these kinds, each with its histogram or none."""
    result: dict[str, Any] = {
        "cpu": {"stamp_step_ns": step_ns},
        "targets": {},
        "notes": [],
        "measurements": [
            {
                "name": "0",
                "repeats": [
                    {
                        "core_hz": 0,
                        "jobs": [
                            {"kind": kind, "latency_hdr": hdr, "threads": [], "window": SECOND}
                            for kind, hdr in jobs
                        ],
                    }
                ],
            }
        ],
    }
    found = warnings_of([], result, 0)
    return [one.context for one in found if one.code == "coarse-time-stamps"]


@pytest.mark.parametrize("kind", ["latency", "chain", "log", "page"])
def test_steps_are_told_where_operations_were_timed_one_by_one(kind: str) -> None:
    (found,) = told(10.015, ("throughput", None), (kind, "HISTFAAA"))
    assert "steps of 10.0 ns" in found


def test_rates_and_means_over_many_loads_have_no_steps() -> None:
    assert told(10.015, ("throughput", None), ("log", None), ("chase", "HISTFAAA")) == []


def test_a_clock_that_counts_its_cycles_has_none_worth_telling() -> None:
    assert told(0.385, ("latency", "HISTFAAA")) == []
