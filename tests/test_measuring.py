"""Two harnesses do not measure at the same time."""

from __future__ import annotations

import os
import threading
import time

from harness.measuring import one_at_a_time
from harness.progress import SilentProgress


class Told(SilentProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_the_second_waits_for_the_first_and_says_so():
    told, order = Told(), []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time(SilentProgress()):
            inside.set()
            leave.wait()
            order.append("first")

    def second() -> None:
        with one_at_a_time(told):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while not told.lines:
        time.sleep(0.01)
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]
    assert "waiting" in told.lines[0]
    assert f"process {os.getpid()}" in told.lines[0]  # who holds it
