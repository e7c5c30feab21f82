"""What a dry run says a suite takes: what is asked for exactly, set-up about, counts not at all."""

from __future__ import annotations

from micro_suites import capacity, overrides, suite
from narrowed import present

from harness.micro.native import estimate
from harness.micro.protocol import Planned
from harness.micro.scaling import scale
from harness.units import NS_PER_S


def expected(measurements: str, repeats: int = 1) -> Planned:
    scaled = scale(suite(measurements), capacity(), overrides())
    return estimate(scaled.measurements, capacity(), repeats)


def setup_ns(measurements: str, repeats: int = 1) -> int:
    return present(expected(measurements, repeats).setup_ns)


def test_durations_are_told_exactly_for_all_repeats():
    told = expected(
        "  m: {matrix: {threads: [1, 2]}, args: {kernel: load, access: 64, pattern: random,"
        " warm_up: 500ms}}",
        repeats=3,
    )
    assert told.measuring_ns == 3 * 2 * 1.5 * NS_PER_S
    assert told.counted == 0


def test_a_chase_over_a_large_range_is_set_up_for_each_of_its_measurements():
    small, large = (
        setup_ns(f"  c: {{args: {{kind: chase, range: {size}}}}}", repeats=11)
        for size in ("64MiB", "4GiB")
    )
    loads = setup_ns("  m: {args: {kernel: load, access: 64, pattern: random, range: 4GiB}}")
    assert large > 10 * small
    assert large > 5 * loads


def test_what_ends_by_a_count_is_named_and_not_guessed():
    told = expected("  m: {args: {kind: latency, kernel: load, access: 64, pattern: random,"
                    " count: 1000}}")  # fmt: skip
    assert (told.counted, told.measuring_ns) == (1, 0)
