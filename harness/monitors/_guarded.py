"""A monitor that cannot fail the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric
from harness.warnings import RunWarning, unique

T = TypeVar("T")


class GuardedMonitor:
    """A monitor whose exceptions become warnings. Its functions are those of Monitor."""

    def __init__(self, kind: type[Monitor], context: MonitorContext) -> None:
        self.name: str = kind.name
        self.scope: Literal["engine", "host"] = kind.scope
        self._kind, self._context = kind, context
        self._monitor: Monitor
        self._warnings: list[RunWarning] = []

    def preflight(self) -> RunWarning | None:
        """Create the monitor; its problem, or its exception."""
        problem = self._guarded(self._created_preflight, None)
        return problem or (self._warnings[0] if self._warnings else None)

    def _created_preflight(self) -> RunWarning | None:
        self._monitor = self._kind(self._context)
        return self._monitor.preflight()

    def start(self) -> None:
        self._guarded(self._monitor.start, None)

    def stop(self) -> None:
        self._guarded(self._monitor.stop, None)

    def totals(self) -> Mapping[str, float]:
        """Its totals; nothing where it fails."""
        nothing: Mapping[str, float] = {}
        return self._guarded(self._monitor.totals, nothing)

    def series(self) -> Mapping[str, Any]:
        """Its samples; nothing where it fails."""
        nothing: Mapping[str, Any] = {}
        return self._guarded(lambda: _storable(self._monitor.series()), nothing)

    def metrics(self) -> Sequence[Metric]:
        """Its figures of the whole phase."""
        nothing: Sequence[Metric] = ()
        return self._guarded(
            lambda: [_storable_metric(metric) for metric in self._monitor.metrics()], nothing
        )

    def warnings(self) -> Sequence[RunWarning]:
        """Its own, and its first exception."""
        nothing: Sequence[RunWarning] = ()
        own = self._guarded(self._monitor.warnings, nothing)
        return unique([*own, *self._warnings[:1]])

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            context = f"{self.name}: {type(error).__name__}: {error}"
            self._warnings.append(
                RunWarning("monitor-failed", f"monitor {self.name} is incomplete", context)
            )
            return otherwise


def _storable(document: T) -> T:
    """The document; ValueError or TypeError if JSON cannot express it (a rate that is NaN)."""
    json.dumps(document, allow_nan=False)
    return document


def _storable_metric(metric: Metric) -> Metric:
    _storable(metric.to_json())
    return metric
