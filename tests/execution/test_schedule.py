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
