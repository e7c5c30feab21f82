"""A thread that samples something at an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class Sampler:
    """Calls ``read`` every ``interval_s`` from ``start`` to ``stop``, and stores what it returns.

    An error of ``read`` is stored as the sample: the gap is visible and the run continues. A
    sample is stamped with the middle of its reading.
    """

    def __init__(self, read: Callable[[], Mapping[str, float]], interval_s: float) -> None:
        self._read = read
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._samples: list[dict[str, Any]] = []
        self._stamp_error_ns = 0
        self._thread = threading.Thread(target=self._loop, name="monitor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop it; no error when it was not started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def series(self) -> dict[str, Any]:
        """``{interval_s, clock, stamp_error_ns, samples: [{monotonic_ns, …}]}``.

        ``stamp_error_ns``: the farthest that any stamp can be from its reading.
        """
        return {
            "interval_s": self._interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self._stamp_error_ns,
            "samples": self._samples,
        }

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._samples.append(self._sample())
            now = time.monotonic()
            due = max(due + self._interval_s, now)  # a missed sample is not made up for
            self._stop.wait(due - now)

    def _sample(self) -> dict[str, Any]:
        begin = time.monotonic_ns()
        try:
            sample: dict[str, Any] = dict(self._read())
        except Exception as error:
            sample = {"error": f"{type(error).__name__}: {error}"}
        end = time.monotonic_ns()
        self._stamp_error_ns = max(self._stamp_error_ns, (end - begin + 1) // 2)
        return {"monotonic_ns": (begin + end) // 2, **sample}
