"""What must be known beside a query's bytes: who moved them, and what bounded them."""

from __future__ import annotations

from collections.abc import Mapping

from reports.query_breakdown import QueryAnatomy
from reports.series import Arm

#: Behind a number or a bar that must not be read alone.
MARK = "*"
#: Behind a percentile that a driver told ready-made.
TOLD_MARK = "‡"
#: What devices moved and what the kernel counted for the engine differ by more than this.
_DISAGREE = 0.25
#: And by more than this: journals and metadata of a file system are no other user.
_LEAST_OTHERS = 1 << 20
#: A query that used less of the limit was not bounded by it.
_NEAR = 0.5
#: The kernel reclaims in batches: a peak this near to the limit has reached it.
_REACHED = 0.99


def moved_by_others(moved: Mapping[str, float], own: float | None) -> bool:
    """Whether the tiers' devices moved far more bytes than the kernel counted for the engine."""
    total = sum(moved.values())
    return own is not None and total > own * (1 + _DISAGREE) and total > own + _LEAST_OTHERS


def bound_bytes(arm: Arm, one: QueryAnatomy) -> int | None:
    """The memory limit, where a run reached it and the working set is a good part of it.

    What the query touched beyond it was dropped again, and nothing tells how much it was.
    """
    held = one.size("working_set")
    peaks = arm.summaries("memory_cap_peak_bytes").values()
    tmpfs = arm.summaries("memory_cap_tmpfs_peak_bytes").values()
    limit = arm.runs[0].run["spec"]["memory_limit_bytes"]
    if held is None or not limit or held < _NEAR * limit:
        return None
    reached = _REACHED * limit + max((one.high for one in tmpfs), default=0)
    return int(limit) if any(peak.high >= reached for peak in peaks) else None


def file_pages_unknown(one: QueryAnatomy) -> bool:
    """Whether a working set stands on private memory alone."""
    return one.size("working_set") is not None and one.size("touched_file") is None
