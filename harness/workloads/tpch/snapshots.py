"""Which states of the data a query may have seen while refresh functions ran concurrently."""

from __future__ import annotations

from collections.abc import Sequence

from harness.workloads.tpch.query_runs import Execution
from harness.workloads.tpch.refresh import Applied


def seen(
    execution: Execution, refresh: Sequence[Applied], before: int
) -> tuple[tuple[int, ...], bool]:
    """States (refresh functions applied) that ``execution`` may have seen, and whether it may
    have seen data between two of them.

    ``refresh``: the functions that ran in the test, in order, after ``before`` others. A
    statement reads one snapshot, taken after it was submitted and before it ended. Its
    snapshot has every transaction whose commit was done before, and none whose commit
    was not even sent at its end; of those in between it may have any leading part.
    """
    done = sent = transactions = 0
    states = {0: 0}  # functions that are whole after a number of transactions
    for applied in refresh:
        for commit_sent_ns, commit_done_ns in applied.commits:
            done += commit_done_ns <= execution.submitted_ns
            sent += commit_sent_ns <= execution.ended_ns
        transactions += len(applied.commits)
        states[transactions] = len(states)
    possible = range(done, sent + 1)
    whole = tuple(before + states[count] for count in possible if count in states)
    return whole, len(whole) < len(possible)
