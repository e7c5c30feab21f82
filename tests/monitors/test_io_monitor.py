"""The series of the I/O trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.iotrace.page import CELL_FIELDS, HEADS_AT, IoTrace
from harness.monitors import MonitorContext
from harness.monitors.io import IoMonitor

#: Of the page: the number of slots in use, and the first slot's counters of reads of data.
USED_AT, CELL_AT = 28, HEADS_AT + 64


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[IoTrace]:
    traced = IoTrace(tmp_path / "library", directories={"data": tmp_path})
    yield traced
    traced.page.close()


def test_durations_include_planted_delays(trace: IoTrace) -> None:
    counts = {"calls": 2, "bytes": 100, "ns": 30, "delay_ns": 4000}
    os.pwrite(trace.page.descriptor, (1).to_bytes(4, "little"), USED_AT)
    for field, value in counts.items():
        at = CELL_AT + 8 * CELL_FIELDS.index(field)
        os.pwrite(trace.page.descriptor, value.to_bytes(8, "little"), at)
    cell = "[operation=read,part=data,role=foreground]"
    assert IoMonitor(MonitorContext(io_trace=lambda: trace)).sample() == {
        f"calls_count{cell}": 2,
        f"bytes{cell}": 100,
        f"duration_ns{cell}": 4030,
    }
