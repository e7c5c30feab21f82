"""Runs the default monitors in one of two blocks, by turns: what they cost within one run.

Sessions are observed ten times a second from a block's beginning, as after a window's first
seconds.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from harness import registry
from harness.monitors import GuardedMonitor, Monitor, MonitorContext, waits

_BLOCK_S = float(os.environ.get("ALTERNATING_BLOCK_S", "4"))
_PAUSE_S = 0.1


def _pause_s(age_s: float) -> float:
    return _PAUSE_S


class Alternating(Monitor):
    """Pairs of blocks, whose order is drawn: with all default monitors, and with none."""

    name: ClassVar[str] = "alternating"
    cost: ClassVar[str] = "that of the default monitors, half of the time"
    default: ClassVar[bool] = False

    def __init__(self, context: MonitorContext) -> None:
        waits.pause_s = _pause_s
        super().__init__(context)
        self._kinds = [kind for kind in registry.monitors().values() if kind.default]
        self._blocks: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="alternating", daemon=True)

    def start(self) -> None:
        """Begin with the first pair."""
        self._thread.start()

    def stop(self) -> None:
        """End within a block."""
        self._stopped.set()
        with suppress(RuntimeError):  # it was not started
            self._thread.join()

    def totals(self) -> Mapping[str, float]:
        """Nothing is counted."""
        return {}

    def series(self) -> Mapping[str, Any]:
        """``{blocks: [{monitored, begin_ns, end_ns, cpu_ns}]}``, monotonic; two by two.

        ``cpu_ns``: processor time of the harness in it.
        """
        return {"blocks": self._blocks}

    def _loop(self) -> None:
        while not self._stopped.is_set():
            for monitored in random.sample([True, False], 2):
                started = self._started() if monitored else []
                begin_ns, began_cpu_ns = time.monotonic_ns(), time.process_time_ns()
                self._stopped.wait(_BLOCK_S)
                end_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns() - began_cpu_ns
                for monitor in started:
                    monitor.stop()
                self._blocks.append(
                    {
                        "monitored": monitored,
                        "begin_ns": begin_ns,
                        "end_ns": end_ns,
                        "cpu_ns": cpu_ns,
                    }
                )

    def _started(self) -> list[GuardedMonitor]:
        monitors = [GuardedMonitor(kind, self._context) for kind in self._kinds]
        available = [monitor for monitor in monitors if monitor.preflight() is None]
        for monitor in available:
            monitor.start()
        return available


MONITOR = Alternating
