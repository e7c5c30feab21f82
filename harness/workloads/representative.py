"""Warn where a measurement window leaves out what a long run writes back.

Commits write the log at once and data pages later. A window that ends before pages are
written, or in which they are written at another rate than later on, shows a data tier
without its writes and a log tier with more than its share. What "later on" means, the
engine knows: checkpoints, page flushing, compaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.drivers.result import DriverResult, WindowCounters
from harness.engine import ChecksWriteBack, Engine
from harness.warnings import RunWarning


def write_back_warnings(
    engine: Engine, driven: DriverResult, counted: WindowCounters
) -> Iterator[RunWarning]:
    """Those of the engine, where it has them and counters are the window's."""
    if not isinstance(engine, ChecksWriteBack) or driven.counters_late_ns is not None:
        return
    window = {**counted.counters, **driven.engine_counters}
    yield from engine.write_back_warnings(counted.ramp_up, window, driven.window_ns)
