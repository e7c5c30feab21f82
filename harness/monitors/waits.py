"""What the engine's sessions wait for, by resource (harness.waits)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from harness.monitors import MonitorContext
from harness.waits import SampledWaits
from harness.warnings import RunWarning

#: A statement's first observations are closer: a short one would have too few.
_CLOSEST_S, _WIDEST_S, _SHARE = 0.02, 0.1, 0.05
_STORED_EVERY_S = 1.0
#: A server that no longer answers does not hold up the end of its run.
_PATIENCE_S = 5.0


class WaitMonitor:
    """Observes the sessions ten times a second, and stores the sums once a second."""

    name: ClassVar[str] = "waits"
    cost: ClassVar[str] = "reads the engine's session states 10 times a second, at first 50"
    default: ClassVar[bool] = True
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(self, context: MonitorContext) -> None:
        observer = context.waits() if context.waits is not None else None
        self._unknown_engine = context.waits is None
        self._waits = SampledWaits(observer) if observer is not None else None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="monitor-waits", daemon=True)
        self._samples: list[dict[str, Any]] = []
        self._failures = self._stamp_error_ns = 0
        #: When the last interval to be accounted for began.
        self._began = time.monotonic()

    def preflight(self) -> RunWarning | None:
        """Whether the engine accounts for its waits."""
        if self._unknown_engine or self._waits is not None:
            return None
        return RunWarning(
            "waits-not-reported",
            "the engine's waits are not known",
            "the engine does not report what its sessions wait for",
        )

    def start(self) -> None:
        """Start observing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop observing."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        if self._waits is not None and not self._thread.is_alive():
            self._waits.close()

    def totals(self) -> Mapping[str, float]:
        """Session times until now (harness.waits.WaitTotals)."""
        if self._waits is None:
            return {}
        self._sample()  # an interval begins and ends at an observation
        self._began = time.monotonic()
        return self._waits.totals().counters()

    def series(self) -> Mapping[str, Any]:
        """``samples: [{monotonic_ns, wait_ns[resource=…], …}], events: {event: {…}}``."""
        return {
            "interval_s": _STORED_EVERY_S,
            "clock": "monotonic",
            "stamp_error_ns": self._stamp_error_ns,
            "samples": self._samples,
            "events": self._waits.events() if self._waits is not None else {},
            "failed_observations": self._failures,
        }

    def _loop(self) -> None:
        assert self._waits is not None
        stored = 0.0
        while True:
            began_ns = time.monotonic_ns()
            self._sample()
            now = time.monotonic()
            if now - stored >= _STORED_EVERY_S:
                totals = self._waits.totals().counters()
                ended_ns = time.monotonic_ns()
                self._samples.append({"monotonic_ns": (began_ns + ended_ns) // 2, **totals})
                error_ns = (ended_ns - began_ns + 1) // 2
                self._stamp_error_ns = max(self._stamp_error_ns, error_ns)
                stored = now
            apart = min(_WIDEST_S, max(_CLOSEST_S, (now - self._began) * _SHARE))
            if self._stop.wait(apart):
                return

    def _sample(self) -> None:
        assert self._waits is not None
        try:
            self._waits.sample()
        except Exception:  # the server restarts, or is too busy to answer
            self._failures += 1


MONITOR = WaitMonitor
