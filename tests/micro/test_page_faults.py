"""Pages that were taken, protected or moved while they were measured: told with what it took."""

from __future__ import annotations

from typing import Any

from micro_suites import RANDOM, suite

from harness.micro.result_warnings import warnings_of
from harness.micro.spec import measurement_name

MS = 1_000_000


def _thread(faults: tuple[int, int], ran_ns: int = 100 * MS) -> dict[str, int]:
    minor, major = faults
    return {
        "cpu": 0, "cpu_ns": ran_ns, "begin_ns": 0, "end_ns": ran_ns,
        "minor_faults": minor, "major_faults": major,
    }  # fmt: skip


def _told(*threads: list[dict[str, int]]) -> list[str]:
    """Of configurations a, b, …, measured once, each with these threads."""
    mine = suite("".join(f"  {'abcdef'[n]}: {{{RANDOM}}}\n" for n in range(len(threads))))
    measured: list[dict[str, Any]] = [
        {
            "name": measurement_name(index, 0),
            "repeats": [{
                "stolen_ns": None, "core_hz": 0, "duration_ns": 100 * MS,
                "jobs": [{"kind": "latency", "durable": None, "threads": its}],
            }],
        }
        for index, its in enumerate(threads)
    ]  # fmt: skip
    result = {"cpu": {"stamp_step_ns": 0.4}, "targets": {}, "notes": [], "measurements": measured}
    found = warnings_of(mine.measurements, result, 1)
    return [one.context for one in found if one.code == "page-faults"]


def test_a_thread_that_faulted_for_a_part_of_its_time_is_told_by_its_configuration() -> None:
    # 40,000 times 250 ns, and 300 times 10 us, each of 100 ms; the worst thread counts.
    (found,) = _told(
        [_thread((0, 0)), _thread((40_000, 0))], [_thread((0, 300))], [_thread((0, 0))]
    )
    assert "in 2 of 3 measurements page faults took at least 0.5%" in found
    assert "the most in a (10%); b (3.0%)" in found


def test_a_few_faults_are_no_part_of_a_figure() -> None:
    assert _told([_thread((1_999, 0))], [_thread((0, 49))]) == []


def test_a_thread_that_hardly_ran_says_nothing_of_it() -> None:
    assert _told([_thread((1_000, 0), ran_ns=MS // 2)]) == []


def test_more_than_all_of_its_time_is_all_of_it() -> None:
    (found,) = _told([_thread((10_000_000, 0))])
    assert "a (100%)" in found
