"""Whether a measurement window saves data as a long run does: with whole snapshots in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engines.voltdb.counters import SNAPSHOTS
from harness.units import NS_PER_S
from harness.warnings import RunWarning


def warnings(
    window: Mapping[str, float], settings: Mapping[str, str], window_ns: int
) -> Iterator[RunWarning]:
    """``window``: what it added to the counters; ``settings``: of the run."""
    if (ended := window.get(SNAPSHOTS)) is None or ended > 0:
        return
    length = f"a window of {window_ns / NS_PER_S:g} s"
    if settings["snapshot_enabled"] != "true":
        yield RunWarning(
            "no-snapshots",
            "automatic snapshots are off: the data tier is not written to",
            length,
            "turn them on: --set snapshot_enabled=true",
        )
        return
    yield RunWarning(
        "no-snapshot-in-window",
        "no snapshot ended in the window",
        f"{length}, a snapshot every {settings['snapshot_frequency']}",
        "raise --duration, or lower --set snapshot_frequency=…",
    )
