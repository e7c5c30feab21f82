"""What the observers of MySQL and MariaDB read, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from engines._innodb.waits import SessionObserver
from harness.engine import ProcessId


class Positions:
    """A connection to an idle server whose checkpoint is at these positions, reading by reading."""

    def __init__(self, *positions: int) -> None:
        self._positions = iter(positions)

    def run(self, sql: str) -> SimpleNamespace:
        status = sql.startswith("SHOW")
        return SimpleNamespace(rows=[("lsn", str(next(self._positions)))] if status else [])

    def close(self) -> None:
        pass


def test_the_checkpoint_is_read_once_a_second() -> None:
    times = iter((0.0, 0.5, 1.0, 1.5, 2.0))
    positions: Any = Positions(10, 10, 11)
    observer = SessionObserver(lambda: positions, "mysql", tuple, lambda: next(times))
    tasks = [[one.event for one in observer.observe()] for _ in range(5)]
    assert tasks == [[], [], [], [], ["checkpoint"]]


def test_the_server_is_looked_for_once_a_connection() -> None:
    """That takes milliseconds, and observations are made dozens of times a second."""
    looked: list[str] = []

    def processes() -> list[ProcessId]:
        looked.append("once")
        return [ProcessId(17, 0)]

    positions: Any = Positions(*range(9))
    observer = SessionObserver(lambda: positions, "mysql", processes)
    for _ in range(3):
        observer.observe()
    assert looked == ["once"]
    observer.close()
    observer.observe()
    assert looked == ["once", "once"]
