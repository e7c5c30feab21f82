"""How long the runs of a command still take, by a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass

from harness.execution.schedule import Item, TimeLeft


@dataclass
class Clock:
    """Seconds, of which ``waited`` were spent waiting for another harness."""

    now: int = 0
    waited: int = 0


def time_left(clock: Clock, *items: Item) -> TimeLeft:
    return TimeLeft(list(items), lambda: clock.now, lambda: clock.now - clock.waited)


def run(key: str, expected: int | None) -> Item:
    return Item("run", key, expected)


def test_loading_and_runs_are_in_it():
    left = time_left(Clock(), Item("load", "data", 100), run("a", 10), run("b", 20))
    assert left.left_ns() == 130


def test_estimates_follow_what_runs_took_here():
    clock = Clock()
    left = time_left(clock, Item("load", "data", 100), run("a", 10), run("b", 20))
    with left.doing("load", "data") as done:
        clock.now += 50  # a load says nothing of runs
        done()
    assert left.left_ns() == 30
    with left.doing("run", "a") as done:
        clock.now += 15
        done()
    assert left.left_ns() == 30  # 1.5 times as long as expected
    with left.doing("run", "b"):
        clock.now += 20
        assert left.left_ns() == 10
        clock.now += 20
        assert left.left_ns() == 0
    assert left.left_ns() == 0


def test_without_an_estimate_nothing_is_known_until_a_run_has_ended():
    clock = Clock()
    left = time_left(clock, run("a", None), run("b", None), run("c", None))
    assert left.left_ns() is None
    with left.doing("run", "a") as done:
        clock.now += 30
        assert left.left_ns() is None
        done()
    assert left.left_ns() == 60


def test_waiting_for_another_harness_shortens_nothing_and_is_expected_again():
    clock = Clock()
    left = time_left(clock, run("a", 10), run("b", 10))
    with left.doing("run", "a") as done:
        clock.now, clock.waited = 30, 30
        assert left.left_ns() == 20
        clock.now += 10
        done()
    assert left.left_ns() == 40


def test_a_run_that_fails_says_nothing_of_the_others():
    clock = Clock()
    left = time_left(clock, run("a", 10), run("b", 10))
    with left.doing("run", "a"):
        clock.now += 1
    assert left.left_ns() == 10


def test_further_attempts_are_not_of_the_list():
    clock = Clock()
    left = time_left(clock, run("a", 10), run("a", 10))
    for _ in range(2):
        with left.doing("run", "a") as done:
            clock.now += 10
            done()
    with left.doing("run", "a"):
        assert left.left_ns() == 10
    assert left.left_ns() == 0
