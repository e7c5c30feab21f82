"""Waits of the engine's sessions, by resource (harness.waits)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from harness.monitors import MonitorContext, SampledMonitor
from harness.waits import SampledWaits
from harness.warnings import RunWarning

#: A statement's first observations are closer: a short one would have too few. One that has ended
#: before the first could not have enough, and is left alone: observing takes a processor from it.
_FIRST_S, _CLOSEST_S, _WIDEST_S, _SHARE = 0.1, 0.02, 0.1, 0.05
#: A server that no longer answers does not hold up the end of its run.
_PATIENCE_S = 5.0


def pause_s(age_s: float) -> float:
    """The time to the next observation, when a query or window is so old."""
    return _FIRST_S - age_s if age_s < _FIRST_S else min(_WIDEST_S, max(_CLOSEST_S, age_s * _SHARE))


class WaitMonitor(SampledMonitor):
    """Observes the sessions ten times a second, and stores the sums once a second."""

    name: ClassVar[str] = "waits"
    cost: ClassVar[str] = "reads the engine's session states 10 times a second, at first 50"

    def __init__(self, context: MonitorContext) -> None:
        super().__init__(context)
        observer = context.waits() if context.waits is not None else None
        self._waits = SampledWaits(observer) if observer is not None else None
        self._failures = 0
        #: When the last interval to be accounted for began.
        self._began = time.monotonic()

    def preflight(self) -> RunWarning | None:
        """Return whether the engine accounts for its waits."""
        if self._context.waits is None or self._waits is not None:
            return None
        return RunWarning(
            "waits-not-reported",
            "the engine's waits are not known",
            "the engine does not report what its sessions wait for",
        )

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        if self._waits is not None and not self._thread.is_alive():
            self._waits.close()

    def totals(self) -> Mapping[str, float]:
        """Session times until now (harness.waits.WaitTotals)."""
        if self._waits is None:
            return {}
        totals = self.sample()  # an interval begins and ends at an observation
        self._began = time.monotonic()
        return totals

    def sample(self) -> Mapping[str, float]:
        """``wait_ns[resource=…], …``: session times until an observation now."""
        assert self._waits is not None
        self._observe()
        return self._waits.totals().counters()

    def series(self) -> Mapping[str, Any]:
        """In addition, ``events: {event: {…}}`` and ``failed_observations``."""
        events = self._waits.events() if self._waits is not None else {}
        return {**super().series(), "events": events, "failed_observations": self._failures}

    def _loop(self) -> None:
        stored = 0.0
        while not self._stopped.is_set():
            now = time.monotonic()
            age = now - self._began
            if now - stored >= self.interval_s:
                self._samples.append(self._stamped())
                stored = now
            elif age >= _FIRST_S:
                self._observe()
            self._stopped.wait(pause_s(age))
        self._append_last()

    def _observe(self) -> None:
        assert self._waits is not None
        try:
            self._waits.sample()
        except Exception:  # the server restarts, or is too busy to answer
            self._failures += 1


MONITOR = WaitMonitor
