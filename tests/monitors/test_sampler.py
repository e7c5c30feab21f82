"""Monitors that sample at an interval."""

from __future__ import annotations

import time

import pytest
from patience import eventually

from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor


def test_the_last_sample_is_that_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "interval_s", 5)
    monitor = ProcessMonitor(MonitorContext())
    monitor.start()
    assert eventually(lambda: bool(monitor.series()["samples"]))
    time.sleep(0.7)
    stops_ns = time.monotonic_ns()
    monitor.stop()
    assert monitor.series()["samples"][-1]["monotonic_ns"] >= stops_ns


def test_there_is_no_sample_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "interval_s", 3600)
    monitor = ProcessMonitor(MonitorContext())
    monitor.start()
    assert eventually(lambda: bool(monitor.series()["samples"]))
    monitor.stop()
    assert len(monitor.series()["samples"]) == 1
