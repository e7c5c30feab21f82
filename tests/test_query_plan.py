"""A plan's times held against the measured time: what fits says nothing, what does not says why."""

from dataclasses import replace

from harness.query_plan import ExecutedPlan, Operator, account

MS = 1_000_000


def plan(
    scan: int, aggregate: int, duration: int, outside: int = 0, note: str = ""
) -> ExecutedPlan:
    """Times in milliseconds."""
    root = Operator(
        "aggregate", "Agg", 1, aggregate * MS, children=(Operator("scan", "Scan", 9, scan * MS),)
    )
    return ExecutedPlan(root, duration * MS, "{}", note=note, outside_ns={"planning": outside * MS})


def test_planning_is_other():
    assert plan(70, 20, 100, outside=8).time_by_kind_ns() == {
        "aggregate": 20 * MS, "scan": 70 * MS, "other": 8 * MS,
    }  # fmt: skip
    assert "other" not in plan(70, 20, 100).time_by_kind_ns()


LEFT = {"planning": 2 * MS, "no thread at work": 25 * MS, "client": 13 * MS, "executor": 0}


def test_what_was_left_over_does_not_make_a_plan_add_up():
    rest = replace(plan(50, 10, 100), outside_ns=LEFT)
    assert rest.time_by_kind_ns() == {
        "aggregate": 10 * MS, "scan": 50 * MS, "other": 2 * MS, "outside": 38 * MS,
    }  # fmt: skip
    coverage = account(rest, 100 * MS)
    assert (coverage.share, coverage.remainder_ns) == (
        0.62, {"no thread at work": 25 * MS, "client": 13 * MS},
    )  # fmt: skip
    assert "38 %" in coverage.why and coverage.why.endswith(" 25 %, client 13 %")


def test_operators_that_reach_the_measured_time_by_their_own_distortion_do_not_fit():
    rest = replace(plan(80, 18, 140), outside_ns=LEFT)
    coverage = account(rest, 100 * MS)
    assert coverage.share == 1.0
    assert "1.40 times" in coverage.why and "outside the operators" in coverage.why


def test_a_small_remainder_is_no_reason_and_a_missing_part_is_one_of_its_own():
    small = replace(plan(80, 12, 100), outside_ns={"client": 8 * MS})
    assert account(small, 100 * MS).why == ""
    both = replace(plan(40, 10, 100), outside_ns={"client": 20 * MS})
    outside, missing = account(both, 100 * MS).why.split("; ")
    assert outside.endswith(": client 20 %") and "50 %" in missing


def test_profiling_that_costs_processor_time_is_named():
    coverage = account(plan(150, 40, 200, outside=8), 100 * MS, cpu_ns=630e6, measured_cpu_ns=300e6)
    assert "2.00 times" in coverage.why
    assert "2.10 times its processor" in coverage.why


def test_a_slower_execution_with_the_same_work_is_not_blamed_on_profiling():
    coverage = account(plan(150, 40, 200, outside=8), 100 * MS, cpu_ns=297e6, measured_cpu_ns=300e6)
    assert "not profiling" in coverage.why
    assert "cost" not in coverage.why


def test_processor_times_of_a_few_ticks_tell_no_cause():
    coverage = account(plan(150, 40, 200, outside=8), 100 * MS, cpu_ns=20e6, measured_cpu_ns=10e6)
    assert "processor time" not in coverage.why
