"""The waits monitor: it survives an engine that fails, hangs, or reports nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from patience import eventually

from harness.monitors import MonitorContext
from harness.monitors import waits as module
from harness.monitors.waits import WaitMonitor
from harness.waits import Observation, WaitObserver


class Engine(WaitObserver):
    """One session that waits for a lock; at times the engine fails or does not answer."""

    def __init__(self) -> None:
        self.events = {"row": "lock"}
        self.fails = self.hangs = self.closed = False
        self.observed = 0
        self.resumes = threading.Event()

    def observe(self) -> Sequence[Observation]:
        self.observed += 1
        if self.fails:
            raise OSError("the server restarts")
        if self.hangs:
            self.resumes.wait()
        return [Observation("waiting", "row")]

    def close(self) -> None:
        self.closed = True


def test_a_short_query_is_left_alone_and_a_young_one_observed_most_often():
    pauses = [module.pause_s(age) for age in (0.0, 0.03, 0.1, 1.0, 60.0)]
    assert pauses == pytest.approx([0.1, 0.07, 0.02, 0.05, 0.1])


def watched(engine: Engine) -> WaitMonitor:
    monitor = WaitMonitor(MonitorContext(waits=lambda: engine))
    assert monitor.preflight() is None
    monitor.start()
    return monitor


def test_its_totals_and_series_hold_what_was_observed():
    monitor = watched(engine := Engine())
    before = monitor.totals()
    assert eventually(lambda: engine.observed > 10)
    after = monitor.totals()
    monitor.stop()
    name = "wait_ns[resource=lock]"
    assert after[name] > before[name]
    assert engine.closed
    series = monitor.series()
    assert series["samples"][0].keys() >= {"monotonic_ns", name}
    assert series["events"]["row"]["resource"] == "lock"


def test_it_counts_failed_observations_and_continues():
    monitor = watched(engine := Engine())
    engine.fails = True
    assert eventually(lambda: monitor.series()["failed_observations"] > 2)
    engine.fails = False
    seen = engine.observed
    assert eventually(lambda: engine.observed > seen + 2)
    monitor.stop()
    assert monitor.series()["events"]["row"]["wait_ns"] > 0


def test_an_engine_that_does_not_answer_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    monitor = watched(engine := Engine())
    engine.hangs = True
    seen = engine.observed
    assert eventually(lambda: engine.observed > seen)
    monitor.stop()
    engine.resumes.set()
