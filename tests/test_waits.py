"""Time of operations by resource, from observations of sessions and from counters."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from narrowed import present

from harness.counters import counter_metrics, difference, labelled, split, unit_of
from harness.host.threads import KeptFiles, Thread
from harness.waits import (
    LEAST_SAMPLES,
    Observation,
    SampledWaits,
    WaitObserver,
    WaitTotals,
    explain,
    explain_alone,
    take,
    unaccounted,
)

S = 1_000_000_000
SYNC, LOCKED = Observation("waiting", "sync"), Observation("waiting", "row")


class Sessions(WaitObserver):
    """An engine's answers, observation by observation; an exception is raised."""

    def __init__(self, *answers: Sequence[Observation] | Exception) -> None:
        self.events = {"sync": "log sync", "row": "lock", "unknown": "other"}
        self.answers = list(answers)

    def observe(self) -> Sequence[Observation]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def totals(*answers: Sequence[Observation] | Exception) -> WaitTotals:
    """Return the totals of observations one second apart."""
    clock = iter(range(0, 100 * S, S))
    waits = SampledWaits(Sessions(*answers), lambda: next(clock))
    for answer in answers:
        if isinstance(answer, Exception):
            with pytest.raises(type(answer)):
                waits.sample()
        else:
            waits.sample()
    return waits.totals()


def seen(
    lock: float = 0, running: float = 0, idle: float = 0, cpu: float = 0, queued: float = 0
) -> WaitTotals:
    """Make totals of seconds, with enough observations."""
    return WaitTotals({"lock": lock * S}, running * S, idle * S, cpu * S, queued * S, samples=100)


def test_a_task_in_the_background_is_no_session() -> None:
    seen_totals = totals([], [SYNC, Observation("background", "checkpoint")])
    assert seen_totals.background == {"checkpoint": S}
    assert seen_totals.samples == 1
    assert sum(seen_totals.waits.values()) == S
    assert seen_totals.counters()["wait_background_ns[task=checkpoint]"] == S


def test_an_observation_stands_for_the_time_since_the_last():
    seen_totals = totals([], [SYNC, LOCKED], [SYNC, Observation("running")], [Observation("idle")])
    assert seen_totals.waits == {"log sync": 2 * S, "lock": S, "other": 0}
    assert (seen_totals.running_ns, seen_totals.idle_ns, seen_totals.samples) == (S, S, 4)


def test_moments_of_unequal_length_are_as_precise_as_fewer_equal_ones():
    """Three moments of 1 s are three; of 1, 1 and 4 s they are 36/18."""
    equal, unequal = (
        WaitTotals(elapsed_ns=sum(lengths), elapsed_squares=sum(length**2 for length in lengths))
        for lengths in ([1.0, 1.0, 1.0], [1.0, 1.0, 4.0])
    )
    assert (equal.moments, unequal.moments, WaitTotals().moments) == (3, 2, 0)
    assert totals([], [SYNC, SYNC], [Observation("background")], [SYNC]).moments == 2


def test_a_failed_observation_leaves_a_gap():
    assert totals([], [SYNC], OSError("restarts"), [SYNC], [SYNC]).waits["log sync"] == 2 * S


def test_totals_survive_their_way_through_counters():
    seen_totals = totals([], [SYNC, Observation("idle")])
    assert take({**seen_totals.counters(), "cpu_ns": 1.0}) == (seen_totals, {"cpu_ns": 1.0})
    assert take({"cpu_ns": 1.0}) == (None, {"cpu_ns": 1.0})


def test_processor_time_is_that_of_the_threads_that_were_seen():
    thread = Thread(os.getpid(), os.getpid())
    waits = SampledWaits(Sessions([Observation("running", thread=thread)]))
    waits.sample()
    deadline = time.thread_time_ns() + S // 20
    while time.thread_time_ns() < deadline:
        pass
    seen_totals = waits.totals()
    assert S // 20 <= seen_totals.cpu_ns < 100 * S
    assert 0 <= seen_totals.queued_ns < 100 * S


def test_time_in_the_run_queue_is_apart(monkeypatch):
    thread = Thread(os.getpid(), os.getpid())
    texts = iter(["10 5 1", "30 105 2"])
    monkeypatch.setattr(KeptFiles, "read", lambda *_: next(texts))
    waits = SampledWaits(Sessions([Observation("running", thread=thread)]))
    waits.sample()
    seen_totals = waits.totals()
    assert (seen_totals.cpu_ns, seen_totals.queued_ns) == (20, 100)


def test_parts_of_a_mean_latency_add_up_to_it():
    parts = present(explain(seen(3, running=6, idle=1, cpu=4, queued=1), 10.0 * S, 10))
    assert parts.parts_ns == {
        "lock": 0.3 * S,
        "client": 0.1 * S,
        "processor": 0.5 * S,
        "other": 0.1 * S,
    }
    assert parts.accounted_share == pytest.approx(0.9)
    assert not parts.why


def test_a_session_between_operations_is_in_none_of_an_open_loop():
    parts = present(explain(seen(0, running=8, idle=4, cpu=8), 10.0 * S, 10, closed=False))
    assert parts.parts_ns == {"lock": 0, "processor": 0.8 * S, "other": 0.2 * S}
    (warning,) = unaccounted({"": parts})
    assert warning.code == "waits-unaccounted"


@pytest.mark.parametrize(("latency_ns", "count"), [(0, 10), (10.0 * S, 0)])
def test_without_an_operation_there_is_nothing_to_divide(latency_ns, count):
    assert explain(WaitTotals(), latency_ns, count) is None


def test_parallel_sessions_of_a_statement_are_scaled_to_its_time():
    """Three sessions in two seconds: each reads for half of it."""
    parts = present(explain_alone(seen(3, running=3, cpu=3), 2.0 * S))
    assert parts.parts_ns == {"lock": S, "processor": S, "other": 0}
    assert parts.sessions == 3


def test_time_in_which_no_processor_worked_is_not_the_processors():
    """Page faults of mapped files, for example: active, no wait event, no processor time."""
    parts = present(explain_alone(seen(0, running=2, cpu=0.5), 2.0 * S, 0.5 * S))
    assert parts.parts_ns == {"lock": 0, "processor": 0.5 * S, "other": 1.5 * S}
    assert parts.accounted_share == 0.25


@pytest.mark.parametrize("divide", [explain, explain_alone])
def test_a_session_in_the_run_queue_may_show_a_wait_that_is_over(divide):
    """Processes of PostgreSQL were seen to wait for 9 s, and were able to run for 5 s of these."""
    parts = present(divide(seen(9, running=1, cpu=1, queued=6), 10.0 * S))
    assert parts.parts_ns == {"lock": 9 * S, "processor": 6 * S, "other": 0}
    assert parts.accounted_share == 1.5
    (warning,) = unaccounted({"": parts})
    assert warning.code == "waits-unaccounted"
    assert "50%" in warning.context


@pytest.mark.parametrize("divide", [explain, explain_alone])
def test_computing_within_a_wait_is_part_of_the_wait(divide):
    """Copying from the page cache, for example."""
    parts = present(divide(seen(6, running=4, cpu=8, queued=2), 10.0 * S))
    assert parts.parts_ns == {"lock": 6 * S, "processor": 4 * S, "other": 0}
    assert not parts.why


@pytest.mark.parametrize("divide", [explain, explain_alone])
def test_what_was_seen_too_rarely_is_not_divided(divide):
    few = replace(seen(1, cpu=1), samples=LEAST_SAMPLES - 1)
    parts = present(divide(few, 1.0 * S))
    assert (parts.parts_ns, parts.accounted_share) == ({"other": S}, 0)
    assert parts.why


def test_a_short_statement_is_divided_by_what_was_counted():
    """Two threads computed 3 s, queued 1 s and were in calls for 4 s: twice the 4 s it took."""
    rare = replace(seen(cpu=3, queued=1), samples=1, io_ns={"data read": 4 * S, "log sync": 0})
    parts = present(explain_alone(rare, 4 * S))
    assert not parts.why
    assert parts.parts_ns == {"data read": 2 * S, "processor": 2 * S, "other": 0}
    assert (parts.sessions, parts.cpu_ns, parts.moments) == (2, 1.5 * S, 0)


def test_what_was_neither_observed_nor_counted_is_other():
    rare = replace(seen(cpu=1), samples=0, io_ns={"data read": S})
    parts = present(explain_alone(rare, 4 * S))
    assert parts.why
    assert parts.parts_ns == {"data read": S, "processor": S, "other": 2 * S}


def test_calls_of_the_trace_are_waits_for_resources():
    counters = {
        labelled("wait_io_ns", part=part, operation=operation): 1.0
        for part in ("data", "wal") for operation in ("read", "write", "sync")
    }  # fmt: skip
    totals, rest = take(seen(cpu=1).counters() | counters)
    assert not rest
    assert present(totals).io_ns == {"data read": 2, "data write": 2, "log write": 1, "log sync": 1}


def test_processor_time_is_reported_within_waits_too() -> None:
    """Sessions were seen running for 2 of 10 s; Linux counted 7 s, which latency may exceed."""
    parts = present(explain(seen(lock=8, running=2, cpu=7), 10 * S, count=5))
    (cpu,) = [m for m in parts.metrics() if m.name == "wait_cpu_ns"]
    assert (cpu.value, cpu.unit) == (7 * S / 5, "ns")
    parallel = present(explain_alone(seen(lock=8, running=12, cpu=14), 10 * S))
    assert parallel.cpu_ns == 14 * S / 2


# Names of counters ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels", "text"),
    [
        ("cpu_ns", {}, "cpu_ns"),
        ("tier_read_bytes", {"tier": "pmem"}, "tier_read_bytes[tier=pmem]"),
        ("tier_read_bytes", {"tier": "ssd+log"}, "tier_read_bytes[tier=ssd+log]"),
        ("x_count", {"b": "2", "a": "1"}, "x_count[a=1,b=2]"),
    ],
)
def test_a_name_with_labels_can_be_read_back(name: str, labels: dict[str, str], text: str):
    assert labelled(name, **labels) == text
    assert split(text) == (name, labels)


def test_the_unit_is_the_name_s_last_word():
    assert unit_of("tier_read_bytes[tier=pmem]") == "B"
    assert unit_of("cpu_ns") == "ns"
    assert unit_of("postgres_commits_count") == "1"


def test_only_what_was_read_twice_has_a_difference():
    assert difference({"a_bytes": 1, "b_bytes": 5}, {"a_bytes": 4, "c_bytes": 9}) == {"a_bytes": 3}


def test_labels_of_the_counter_join_those_of_the_query():
    [cpu, read] = counter_metrics(
        "query_", {"query": "6"}, {"tier_read_bytes[tier=pmem]": 4096.0, "cpu_ns": 1e7}
    )
    assert (cpu.name, cpu.unit, cpu.labels) == ("query_cpu_ns", "ns", {"query": "6"})
    assert (read.name, read.unit) == ("query_tier_read_bytes", "B")
    assert read.labels == {"query": "6", "tier": "pmem"}
    assert read.better == "none" and read.value == 4096.0
