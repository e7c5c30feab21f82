"""A thread that samples something at an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class Sampler:
    """Calls ``read`` every ``interval_s`` from ``start`` to ``stop``, and stores what it returns.

    An error of ``read`` is stored as the sample: the gap is visible and the run continues.
    """

    def __init__(self, read: Callable[[], Mapping[str, float]], interval_s: float) -> None:
        self._read = read
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._samples: list[dict[str, Any]] = []
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
        """``{interval_s, clock: monotonic, samples: [{monotonic_ns, …}]}``."""
        return {"interval_s": self._interval_s, "clock": "monotonic", "samples": self._samples}

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                sample: dict[str, Any] = dict(self._read())
            except Exception as error:
                sample = {"error": str(error)}
            self._samples.append({"monotonic_ns": time.monotonic_ns(), **sample})
            self._stop.wait(self._interval_s)
