"""The monitors of one run: selected, started, and kept from failing it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeVar

from harness import registry
from harness.errors import UsageError
from harness.monitors import Concludes, Monitor, MonitorContext, Warns
from harness.store.result import Metric
from harness.store.spec import RunSpec
from harness.warnings import RunWarning, unique

T = TypeVar("T")


def check_monitors(spec: RunSpec) -> None:
    """UsageError for an unknown monitor, and for one both requested and excluded."""
    known = registry.monitors()
    for name in (*spec.monitors, *spec.no_monitors):
        registry.named("monitor", name, known)
    for name in spec.monitors:
        if name in spec.no_monitors:
            raise UsageError(
                f"monitor {name!r}", "it is both requested and excluded", "remove one of the two"
            )


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
        """Start it."""
        self._guarded(self._monitor.start, None)

    def stop(self) -> None:
        """Stop it."""
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
        if isinstance(monitor := self._monitor, Concludes):
            return self._guarded(
                lambda: [_storable_metric(one) for one in monitor.metrics()], nothing
            )
        return nothing

    def warnings(self) -> Sequence[RunWarning]:
        """Its own, and its first exception."""
        own: Sequence[RunWarning] = ()
        if isinstance(self._monitor, Warns):
            own = self._guarded(self._monitor.warnings, ())
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


class RunMonitors:
    """The monitors of one run. ``started``: those that work here, once the run has begun."""

    def __init__(self, spec: RunSpec, context: MonitorContext) -> None:
        kinds = registry.monitors()
        selected = {
            name: kind
            for name, kind in kinds.items()
            if (kind.default or name in spec.monitors) and name not in spec.no_monitors
        }
        self._requested = frozenset(spec.monitors)
        context = replace(context, monitors=frozenset(selected))
        self._selected = [GuardedMonitor(kind, context) for kind in selected.values()]
        self._unavailable: list[RunWarning] = []
        self.started: list[GuardedMonitor] = []

    @contextmanager
    def running(self) -> Iterator[Sequence[GuardedMonitor]]:
        """Start those that can work; stop all of them however the measured phase ends."""
        try:
            for monitor in self._selected:
                problem = monitor.preflight()
                if problem is None:
                    self.started.append(monitor)
                    monitor.start()
                elif monitor.name in self._requested or problem.code == "monitor-failed":
                    self._unavailable.append(problem)
            yield self.started
        finally:
            for started in reversed(self.started):
                started.stop()

    def artifacts(self) -> dict[str, Any]:
        """The series of each, by the artifact's name."""
        return {f"monitor-{monitor.name}": monitor.series() for monitor in self.started}

    def metrics(self) -> list[Metric]:
        """Figures of the measured phase as a whole."""
        return [metric for monitor in self.started for metric in monitor.metrics()]

    def warnings(self) -> list[RunWarning]:
        """Of requested monitors that cannot work here, and of those that ran."""
        ran = [warning for monitor in self.started for warning in monitor.warnings()]
        return [*self._unavailable, *ran]
