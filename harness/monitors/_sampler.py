"""The base of monitors that sample something at an interval."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.tiers.linux.kernel import LIVE, Kernel

#: Of the interval, the last sample is at least this long after the previous one.
_LEAST_SHARE = 0.1


class SampledMonitor(Monitor, ABC):
    """Calls ``sample`` every ``interval_s`` on a thread, at ``start``, and a last time at ``stop``.

    A kind adds ``name``, ``cost``, ``preflight`` and ``totals`` (harness.monitors.Monitor). An
    error of ``sample`` is stored as the sample: the gap is visible and the run continues. A sample
    is stamped with the middle of its reading.
    """

    interval_s: ClassVar[float] = 1.0

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context)
        self._kernel = kernel
        self._stopped = threading.Event()
        self._samples: list[dict[str, Any]] = []
        self._stamp_error_ns = 0
        self._thread = threading.Thread(target=self._loop, name="monitor", daemon=True)

    @abstractmethod
    def totals(self) -> Mapping[str, float]:
        """Return the cumulative counters at this moment."""

    def sample(self) -> Mapping[str, float]:
        return self.totals()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop it; no error when it was not started."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def series(self) -> Mapping[str, Any]:
        """``{interval_s, clock, stamp_error_ns, samples: [{monotonic_ns, …}]}``.

        ``stamp_error_ns``: the farthest that any stamp can be from its reading.
        """
        return {
            "interval_s": self.interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self._stamp_error_ns,
            "samples": self._samples,
        }

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self._samples.append(self._stamped())
            now = time.monotonic()
            due = max(due + self.interval_s, now)  # a missed sample is not made up for
            self._stopped.wait(due - now)
        self._append_last()

    def _append_last(self) -> None:
        """Take a last sample, but where rates since the previous one would be those of a moment."""
        passed_ns = time.monotonic_ns() - self._samples[-1]["monotonic_ns"] if self._samples else 0
        if passed_ns > _LEAST_SHARE * self.interval_s * 1e9:
            self._samples.append(self._stamped())

    def _stamped(self) -> dict[str, Any]:
        begin = time.monotonic_ns()
        try:
            sample: dict[str, Any] = dict(self.sample())
        except Exception as error:
            sample = {"error": f"{type(error).__name__}: {error}"}
        end = time.monotonic_ns()
        self._stamp_error_ns = max(self._stamp_error_ns, (end - begin + 1) // 2)
        return {"monotonic_ns": (begin + end) // 2, **sample}
