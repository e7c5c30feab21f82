"""The engine's file I/O by part, operation and role (harness.iotrace)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.counters import labelled
from harness.iotrace.page import LIBRARY, OPERATIONS, ROLES, CounterCell, PageError, cells
from harness.monitors import MonitorContext, SampledMonitor
from harness.native_programs import find_native
from harness.waits import IO
from harness.warnings import RunWarning


class IoMonitor(SampledMonitor):
    """Reads the trace's page once a second, and at the ends of queries and windows."""

    name: ClassVar[str] = "io"
    cost: ClassVar[str] = "preloads a library into the engine: about 70 ns per file I/O"
    scope: ClassVar[Literal["engine", "host"]] = "engine"

    def __init__(self, context: MonitorContext) -> None:
        super().__init__(context)
        self._trace = context.io_trace() if context.io_trace is not None else None

    def preflight(self) -> RunWarning | None:
        """Return whether the library was built, and the engine is started with it."""
        context, hint = "", ""
        if find_native(LIBRARY) is None:
            context, hint = f"{LIBRARY} was not built", "install the harness again (make setup)"
        elif self._context.io_trace is not None and self._trace is None:
            context = "the harness does not trace this engine (docs/io-trace.md)"
        if not context:
            return None
        return RunWarning("io-not-traced", "the engine's I/O is not traced", context, hint)

    def totals(self) -> Mapping[str, float]:
        """Calls and bytes by part and operation until now, and the sessions' time in them; nothing
        from a damaged page.
        """
        if self._trace is None:
            return {}
        try:
            reading = self._trace.page.read(details=False)
        except PageError:
            return {}
        counters: dict[str, float] = {}
        for part in self._trace.directories:
            for operation in OPERATIONS:
                both = [CounterCell(part, operation, role) for role in ROLES]
                labels = {"part": part, "operation": operation}
                calls = sum(reading.value(cell, "calls") for cell in both)
                counters[labelled("io_calls_count", **labels)] = float(calls)
                foreground = CounterCell(part, operation, "foreground")
                spent_ns = reading.value(foreground, "ns") + reading.value(foreground, "delay_ns")
                counters[labelled(IO, **labels)] = float(spent_ns)
                if operation != "sync":
                    size = sum(reading.value(cell, "bytes") for cell in both)
                    counters[labelled("io_bytes", **labels)] = float(size)
        return counters

    def sample(self) -> Mapping[str, float]:
        """``calls_count[part=…,operation=…,role=…], …``, cumulative; durations have the planted
        delays, as the histograms do.
        """
        assert self._trace is not None
        reading = self._trace.page.read(details=False)
        counters: dict[str, float] = {}
        for cell in cells():
            if reading.value(cell, "calls"):
                for name, *fields in (
                    ("calls_count", "calls"),
                    ("bytes", "bytes"),
                    ("duration_ns", "ns", "delay_ns"),
                ):
                    counters[labelled(name, **self._trace.labels(cell))] = float(
                        sum(reading.value(cell, field) for field in fields)
                    )
        return counters


MONITOR = IoMonitor
