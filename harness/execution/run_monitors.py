"""The monitors of a run: selected, started and stopped together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from harness import registry
from harness.errors import UsageError
from harness.monitors import GuardedMonitor, MonitorContext
from harness.store.result import (
    Metric,
)
from harness.store.spec import RunSpec
from harness.warnings import RunWarning


def check_monitors(spec: RunSpec) -> None:
    """UsageError for an unknown monitor, and for one both requested and excluded."""
    monitors = registry.monitors()
    for name in (*spec.monitors, *spec.no_monitors):
        registry.named("monitor", name, monitors)
    for name in spec.monitors:
        if name in spec.no_monitors:
            raise UsageError(
                f"monitor {name!r}", "it is both requested and excluded", "remove one of the two"
            )


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
        """Warnings of requested monitors that cannot work here, and of those that ran."""
        ran = [warning for monitor in self.started for warning in monitor.warnings()]
        return [*self._unavailable, *ran]
