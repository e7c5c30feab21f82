"""Warnings about the numbers of a driven window, whatever the workload."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from idle_engine import IdleEngine

from harness.drivers import result as module
from harness.drivers.result import DriverResult, WindowCounters
from harness.drivers.validity import (
    Nouns,
    backlog,
    host_warnings,
    late_counters,
    load_warnings,
)
from harness.store.artifacts import SeriesPoint

S = 10**9
NOUNS = Nouns("operation", "user", "--users")


class Session:
    """Its engine is a server that does nothing."""

    engine = IdleEngine()

    def counters(self, moment: str = "after") -> dict[str, float]:
        return {"cpu_ns": 0}


SESSION: Any = Session()


@pytest.fixture
def clock(monkeypatch):
    """The instants in seconds, at which a clock will be read."""
    instants: list[float] = []
    reading = SimpleNamespace(monotonic_ns=lambda: round(instants.pop(0) * S))
    monkeypatch.setattr(module, "time", reading)
    return instants


def counted() -> WindowCounters:
    counters = WindowCounters(SESSION)
    counters.begin()
    counters.end()
    return counters


@pytest.mark.parametrize(
    ("seen", "inside", "told"),
    [
        ({"busiest_thread_share": 0.91}, False, True),
        (
            {"busiest_thread_share": 0.89, "client_cpu_ns": 40 * S, "client_threads": 4},
            False,
            False,
        ),
        ({"client_cpu_ns": 37 * S, "client_threads": 4}, False, True),
        ({"client_cpu_ns": 35 * S, "client_threads": 4}, False, False),
        ({"busiest_thread_share": 1.0}, True, False),
    ],
)
def test_a_client_without_time_to_wait_is_reported_but_with_the_engine_inside(seen, inside, told):
    driven = DriverResult("loadgen", "1", 10 * S, **seen)
    codes = [warning.code for warning in load_warnings(driven, NOUNS, closed=False, inside=inside)]
    assert ("client-saturated" in codes) == told


@pytest.mark.parametrize(
    ("began", "ended", "told"),
    [
        # each reading takes 0.3 s: what is between them is of the window's length all the same
        ((0.0, 0.3), (10.0, 10.3), ""),
        ((0.2, 0.3), (10.4, 10.7), ""),
        # the machine stood still before the second reading was begun, or while it was made
        ((0.0, 0.1), (11.5, 11.6), "1.5 s more"),
        ((0.0, 0.1), (10.0, 10.7), "600 ms more"),
        # and before the first
        ((2.0, 2.1), (10.0, 10.1), "2 s less"),
    ],
)
def test_counters_of_another_time_than_the_window_are_told(clock, began, ended, told):
    clock[:] = [*began, *ended]
    warnings = list(late_counters(DriverResult("loadgen", "1", 10 * S), counted()))
    assert [warning.code for warning in warnings] == ["window-counters-late"] * bool(told)
    assert told in "".join(warning.context for warning in warnings)


def test_what_a_driver_says_of_its_counters_is_told_instead(clock):
    clock[:] = [0, 0, 20, 20]
    late = DriverResult("ycsb", "1", 10 * S, counters_late_ns=round(1.83 * S))
    (finding,) = late_counters(late, counted())
    assert (finding.code, finding.context[:11]) == ("window-counters-late", "read 1.83 s")


def test_counters_that_were_not_read_twice_are_of_no_time_at_all():
    """A driver that does not tell the window's ends: what counts then says so by itself."""

    def told(counters: WindowCounters) -> Iterator[object]:
        return late_counters(DriverResult("loadgen", "1", 10 * S), counters)

    counters = WindowCounters(SESSION)
    assert not list(told(counters))
    counters.begin()
    assert not list(told(counters))


@pytest.mark.parametrize(
    ("begin", "end", "left_out", "codes"),
    [
        (0, 0, True, []),
        (1200, 1200, True, []),  # a hundredth of what was offered
        # The queue of the ramp-up, which the window does not have to do.
        (29_520, 0, True, ["backlog-at-window-start"]),
        (29_520, 29_520, True, ["backlog-at-window-start", "offered-rate-not-reached"]),
        # Another client does it in the window.
        (29_520, 29_520, False, ["backlog-at-window-start"]),
        (0, 60_000, True, ["offered-rate-not-reached"]),
    ],
)
def test_a_queue_at_either_end_of_the_window_is_reported(begin, end, left_out, codes):
    """Two thousand a second for a minute."""
    queued = DriverResult(
        "loadgen", "1", 60 * S, offered_count=120_000, backlog_count=(begin, end),
        backlog_left_out=left_out,
    )  # fmt: skip
    assert [finding.code for finding in backlog(queued, NOUNS)] == codes


@pytest.mark.parametrize(
    ("hosts", "offered", "codes"),
    [
        ((), 1000, []),
        (("a",), 1000, ["remote-clients"]),
        (("a", "b"), 1000, ["remote-clients", "queue-per-client"]),
        (("a", "a"), 1000, ["remote-clients", "queue-per-client"]),
        (("a", "b"), None, ["remote-clients"]),
    ],
)
def test_a_rate_of_several_hosts_has_several_queues(clock, hosts, offered, codes):
    clock[:] = [0, 0, 10, 10]
    driven = DriverResult("loadgen", "1", 10 * S, offered_count=offered)
    warnings = host_warnings(SESSION.engine, driven, counted(), hosts, "")
    assert [warning.code for warning in warnings] == codes


@pytest.mark.parametrize(
    ("done", "steady"),
    [
        ((2128, 1983, 1869, 1627, 1724, 807, 567, 452), False),
        ((1625, 337, 313, 326, 320, 346), False),  # the first second is of the ramp-up
        ((100, 100, 100, 100, 80), False),
        ((100, 100, 100, 80), True),  # too short
        ((425, 335, 412, 437, 404, 445, 390, 329), True),
        ((100, 70, 130, 70, 120), True),  # single seconds differ as much
        ((1900, 1900, 1900, 1800, 1800, 1800, 1750, 1750, 1750), True),
    ],
)
def test_a_short_window_is_steady_if_its_ends_differ_no_more_than_its_seconds(done, steady):
    series = [SeriesPoint(i * S, {"read": n}) for i, n in enumerate(done)]
    driven = DriverResult("loadgen", "1", len(done) * S, series=series)
    warnings = load_warnings(driven, NOUNS, closed=False)
    assert ("not-steady-state" in {warning.code for warning in warnings}) != steady
