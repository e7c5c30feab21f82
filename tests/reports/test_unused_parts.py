"""Parts that moved and were not used: a warning, and no verdict where nothing else moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_runs import interleaved, metric

from reports.compare import compare

TEMP_APART = "data=ssd,temp=pmem"
LOG_APART = "ssd-data-pmem-wal"


def traced(**sizes: float) -> list[dict[str, Any]]:
    """What the I/O trace saw of each part."""
    return [
        *(metric("io_bytes", size, part=part, operation="read", role="foreground")
          for part, size in sizes.items()),
        *(metric("io_trace_coverage_share", 1.0, part=part) for part in sizes),
    ]  # fmt: skip


def counted(tier: str, size: float) -> list[dict[str, Any]]:
    """What a tier's device moved."""
    names = ("query_tier_read_bytes", "query_tier_write_bytes")
    return [metric(name, size, query="1", tier=tier) for name in names]


SPILLED = metric("query_spilled_bytes", 0, query="1")
UNSEEN = metric("io_trace_coverage_share", 0.5, part="data")
CASES = {
    "nothing spilled": ("ssd-both", TEMP_APART, [SPILLED], ["temp"], True),
    "traced": ("ssd-both", TEMP_APART, traced(data=1e6), ["temp"], True),
    "spilled": ("ssd-both", TEMP_APART, traced(data=1e6, temp=4096), [], False),
    "spilled, not traced": ("ssd-both", TEMP_APART, [SPILLED | {"value": 4096}], [], False),
    "trace incomplete": ("ssd-both", LOG_APART, [UNSEEN], [], False),
    "no evidence": ("ssd-both", LOG_APART, [], [], False),
    "log not written": ("ssd-both", LOG_APART, traced(data=1e6), ["wal"], True),
    "another part used": ("ssd-both", "data=pmem,temp=dram", traced(data=1e6), ["temp"], False),
    "all on one tier": ("ssd-both", "pmem-both", traced(data=1e6), [], False),
    "idle device": (TEMP_APART, "data=ssd,temp=dram", counted("pmem", 0), ["temp"], True),
    "busy device": (TEMP_APART, "data=ssd,temp=dram", counted("pmem", 1), [], False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_part_that_moved_and_was_not_used_has_no_verdict(case: str, tmp_path: Path) -> None:
    first, second, more, unused, every = CASES[case]
    if case.endswith("device"):
        more = [*more, *counted("dram", 0)]
    a, b = interleaved(
        tmp_path,
        lambda _, k: [metric("query_duration_ns", 1e9 + k, "lower", query="1"), *more],
        places=(first, second),
        queries=(1,),
        spec_changes={"monitors": ("io",)},
    )
    (group,) = compare(a, b, ["placement"], force=True).groups
    warned = [one for one in group.warnings if one.code == "part-not-used"]
    assert [name for one in warned for name in ("temp", "wal") if name in one.context] == unused
    assert (group.verdict == "part not used") == every
    assert any(row.estimate for row in group.rows) == (not every)
