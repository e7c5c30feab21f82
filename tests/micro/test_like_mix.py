"""Whether a replayed suite made the calls of the run."""

from __future__ import annotations

from typing import Any

import pytest

from harness.micro.like import mix_warnings


def cell(operation: str, calls: int, bytes_: int = 0) -> dict[str, Any]:
    sizes = {str(bytes_): calls} if bytes_ else {}
    return {"part": "wal", "operation": operation, "role": "foreground", "calls": calls,
            "errors": 0, "bytes": calls * bytes_, "sizes": sizes}  # fmt: skip


@pytest.mark.parametrize(("syncs", "off"), [(36, False), (42, False), (43, True), (0, True)])
def test_a_rare_call_may_be_off_by_one_in_each_repeat(syncs: int, off: bool) -> None:
    """38 are due in four repeats: 9 or 10 in each."""
    trace = {"operations": [cell("write", 10_000), cell("sync", 38)]}
    executed = [cell("write", 10_000), cell("sync", syncs)]
    assert bool(list(mix_warnings(trace, executed, 4))) == off


def test_calls_and_sizes_that_are_not_rare_may_be_off_by_a_twentieth() -> None:
    trace = {"operations": [cell("write", 10_000, 8192), cell("sync", 10_000)]}
    for calls, bytes_, off in ((10_500, 8192, False), (11_500, 8192, True), (10_000, 9000, True)):
        executed = [cell("write", calls, bytes_), cell("sync", 10_000)]
        assert bool(list(mix_warnings(trace, executed, 4))) == off
