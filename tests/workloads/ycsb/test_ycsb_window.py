"""What makes the numbers of a window doubtful, and which of them are not told then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from idle_engine import IdleEngine

from harness.drivers.result import DriverResult, Operation
from harness.hdr import Histogram, Layout
from harness.store.result import Check
from harness.workload import Outcome
from harness.workloads.window import window_metrics
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.workload import DRIVERS, NOUNS, WORKLOAD

PARAMS = YcsbParams.from_mapping({"workload": "c", "duration": "10s"})


class Seen:
    """A driver that has seen what it is made with."""

    unseeded = None

    def __init__(self, driven: DriverResult) -> None:
        self.driven = driven

    def drive(self, session, drives):
        drives.on_measuring()
        drives.on_measured()
        return self.driven

    def warnings(self, engine):
        return ()

    def verify(self, session, driven):
        return [Check("records", "passed", "")]


class Session:
    """Its processes use up 200 ms from one reading to the next."""

    driver = "seen"
    engine = IdleEngine()
    cpu_ns = 0

    def counters(self, moment: str = "after") -> Mapping[str, float]:
        self.cpu_ns += 200_000_000
        return {"cpu_ns": self.cpu_ns}


def outcome_of(driven: DriverResult, params: YcsbParams = PARAMS) -> Outcome:
    with mock.patch.dict(DRIVERS, seen=lambda params: Seen(driven)):
        session: Any = Session()
        return WORKLOAD.measure(params, session)


def measured(window_ns: int = 10 * 10**9, **seen: Any) -> Outcome:
    reads = {"read": Operation(1000, not_found_count=0)}
    return outcome_of(DriverResult("ycsb", "", window_ns, reads, **seen))


def warning_codes(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.uncontrolled}


def test_a_window_with_counters_of_its_own_tells_them():
    outcome = measured()
    metrics = {metric.name: metric.value for metric in outcome.metrics}
    assert metrics["window_cpu_ns"] == 200_000_000
    assert metrics["server_cpu_per_operation_ns"] == 200_000
    assert "window-too-short" not in warning_codes(outcome)


def test_counters_that_were_read_too_late_are_told_nowhere_and_that_is_said():
    outcome = measured(counters_late_ns=1_830_000_000)
    names = {metric.name for metric in outcome.metrics}
    assert "operations_per_second" in names
    assert {name for name in names if name.startswith("window_")} == {"window_duration_ns"}
    assert "server_cpu_per_operation_ns" not in names
    assert "window-counters-late" in warning_codes(outcome)


def test_a_window_that_is_shorter_than_asked_for_is_told():
    assert "window-too-short" in warning_codes(measured(window_ns=8_300_000_000))


def test_operations_that_were_measured_at_different_times_are_told():
    for apart_ns, told_so in ((0, False), (200_000_000, False), (250_000_000, True)):
        codes = warning_codes(measured(ends_apart_ns=apart_ns))
        assert ("operation-windows-differ" in codes) == told_so


def histogram(count: int) -> str:
    layout = Layout(1, 3_600_000_000_000, 3)
    counts = np.zeros(layout.counters, dtype=np.int64)
    counts[50] = count
    return Histogram(layout, counts).encode()


def test_ages_of_operations_that_nobody_answered_are_told_as_such():
    """In the histogram they look like latencies; where there are no others it is left out."""
    for unfinished, named, has_latencies in (
        (0, "", True), (200, "above p80", True), (1000, "no read", False),
    ):  # fmt: skip
        reads = Operation(500, unfinished_count=unfinished, latency_hdr=histogram(1000))
        outcome = outcome_of(DriverResult("ycsb", "", 10**10, {"read": reads}))
        words = [f.context for f in outcome.uncontrolled if f.code == "unanswered-operations"]
        assert len(words) == bool(named)
        assert named in "".join(words)
        names = {metric.name for metric in outcome.metrics}
        assert ("operation_duration_ns" in names) == has_latencies


def test_operations_beyond_those_that_were_asked_for_are_told():
    asked = YcsbParams.from_mapping({"workload": "c", "operations": 10, "ramp_up": "3s"})
    for done, told_so in ((10, False), (18, True)):
        driven = DriverResult("loadgen", "", 10**7, {"read": Operation(done)})
        outcome = outcome_of(driven, asked)
        assert ("too-many-operations" in warning_codes(outcome)) == told_so


def test_processor_time_of_an_engine_inside_is_not_told_by_operation_where_starts_are_awaited():
    """With a rate the threads that work also wait, part of it computing."""
    seen = DriverResult("loadgen", "", 10**9, {"read": Operation(1000)}, client_cpu_ns=5_000_000)
    for inside, offered, told in (
        (True, None, {"process_cpu_per_operation_ns": 5000}),
        (True, 1000, {}),
        (False, 1000, {"client_cpu_per_operation_ns": 5000}),
    ):
        metrics = window_metrics(replace(seen, offered_count=offered), {}, NOUNS, [], inside)
        assert {m.name: m.value for m in metrics if "per_operation" in m.name} == told
