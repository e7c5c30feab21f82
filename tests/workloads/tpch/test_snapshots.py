"""Which data a query may have seen that ran while refresh functions committed.

RF1 commits from 10 to 20, RF2 from 30 to 40.
"""

import pytest

from harness.workloads.query_runs import Execution
from harness.workloads.tpch.refresh import Applied, seen
from harness.workloads.tpch.statements import Statement

PAIR = [Applied("RF1", 1, 5, 20, ((10, 20),)), Applied("RF2", 1, 20, 40, ((30, 40),))]


def between(submitted_ns, ended_ns):
    statement = Statement(6, {}, "select", 1)
    return Execution(statement, 1, submitted_ns=submitted_ns, ended_ns=ended_ns)


@pytest.mark.parametrize(
    ("start", "end", "states"),
    [
        (0, 9, (0,)),  # over before the first commit was sent
        (0, 10, (0, 1)),  # the commit may have been done at once
        (12, 14, (0, 1)),  # while it was under way
        (20, 29, (1,)),  # between the two
        (19, 31, (0, 1, 2)),
        (40, 99, (2,)),  # both were known to be done
        (0, 99, (0, 1, 2)),
    ],
)
def test_a_query_saw_a_state_between_its_submission_and_its_end(start, end, states):
    assert seen(between(start, end), PAIR, 0) == (states, False)


def test_functions_before_the_test_count():
    assert seen(between(20, 29), PAIR, 2) == ((3,), False)


def test_without_refresh_functions_all_queries_see_the_same():
    assert seen(between(0, 99), [], 0) == ((0,), False)


@pytest.mark.parametrize(
    ("start", "end", "states", "half"),
    [(0, 9, (0,), False), (0, 12, (0,), True), (16, 18, (), True), (16, 25, (1,), True),
     (26, 28, (1,), False)],
)  # fmt: skip
def test_half_a_function_is_a_state_that_nothing_can_be_compared_with(start, end, states, half):
    """RF1 in two transactions: 10 to 15 and 20 to 25."""
    function = [Applied("RF1", 1, 5, 25, ((10, 15), (20, 25)))]
    assert seen(between(start, end), function, 0) == (states, half)
