"""Time that other guests had while a suite was measured: when it is told, and how much."""

from __future__ import annotations

from typing import Any

import pytest

from harness.micro.model import Job, Measurement
from harness.micro.result_warnings import warnings_of
from harness.micro.spec import measurement_name

MS = 1_000_000
WARM_UP_NS = 500 * MS
STOLEN = "stolen-while-measuring"
RANDOM = Measurement(
    "random",
    (Job("random", "throughput", 2, 1 << 30),),
    duration_ns=500 * MS,
    warm_up_ns=WARM_UP_NS,
)


def told(*blocks: tuple[int, int | None], cpus: tuple[int, ...] = (0, 1)) -> str | None:
    """What is found where blocks took so many ms, of which so many (of all cpus) were stolen."""
    result: dict[str, Any] = {
        "cpu": {"stamp_step_ns": 0.4},
        "targets": {},
        "notes": [],
        "measurements": [
            {"name": measurement_name(0, block), "repeats": [_repeat(*times, cpus)]}
            for block, times in enumerate(blocks)
        ],
    }
    found = {one.code: one.context for one in warnings_of([RANDOM], result, len(blocks))}
    return found.get(STOLEN)


def _repeat(wall_ms: int, stolen_ms: int | None, cpus: tuple[int, ...]) -> dict[str, Any]:
    wall = wall_ms * MS
    ran = {"cpu_ns": wall, "begin_ns": 0, "end_ns": wall, "minor_faults": 0, "major_faults": 0}
    return {
        "duration_ns": wall,
        "stolen_ns": None if stolen_ms is None else stolen_ms * MS,
        "core_hz": 3e9,
        "jobs": [
            {"kind": "latency", "durable": None, "threads": [{"cpu": cpu, **ran} for cpu in cpus]}
        ],
    }


def test_a_tick_says_nothing_of_a_measurement_of_some_milliseconds() -> None:
    """Four ticks of 10 ms in 5.5 ms were once told as 730 %."""
    assert told((5, 40)) is None


def test_short_measurements_are_judged_together() -> None:
    assert told((100, 90), (100, 30)) == (
        "more than 1% of the processors' time went to other guests: 5% in 2 shorter ones together"
    )


def test_what_is_stolen_of_several_processors_is_a_share_of_all_their_time() -> None:
    """With the warm-up they had 2 s each."""
    assert told((1500, 400), cpus=(0, 1)).endswith(
        "in 1 of 1 measurements of 1 s or more, up to 10%"
    )
    assert told((1500, 400), cpus=(0, 0)).endswith("up to 20%")


@pytest.mark.parametrize("stolen_ms", [40_000, 4_000])
def test_it_is_never_more_than_all(stolen_ms: int) -> None:
    assert told((1500, stolen_ms), (1500, 0)).endswith(
        "in 1 of 2 measurements of 1 s or more, up to 100%"
    )


@pytest.mark.parametrize("stolen_ms", [0, 30, None])
def test_a_hundredth_is_not_told(stolen_ms: int | None) -> None:
    assert told((1500, stolen_ms)) is None
