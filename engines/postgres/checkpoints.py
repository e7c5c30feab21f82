"""Return whether a measurement window has as many checkpoints as a long run.

A checkpoint writes the pages changed since the previous one, spread over most of its interval, and
makes the first change of each page after it log the whole page. So the rate of both is that of a
long run if a checkpoint has started before the window and the window is a whole number of intervals
long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.units import MIB, NS_PER_S, format_bytes
from harness.warnings import RunWarning

#: A window that logs less than a WAL segment has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: Tolerated error of a rate due to an incomplete last interval.
_TOLERANCE = 0.2
#: Share of the log above which full-page images dominate the load on a log tier.
_MOST = 0.5


def write_back_warnings(
    ramp_up: Mapping[str, float],
    window: Mapping[str, float],
    window_ns: int,
    *,
    interval_s: float,
    block_bytes: int,
) -> Iterator[RunWarning]:
    """Warn about a window without the checkpoints of a long run.

    ``interval_s``: checkpoint_timeout. ``block_bytes``: block_size.
    """
    log = window.get("postgres_wal_written_bytes", 0.0)
    if log < _LITTLE_BYTES:
        return
    window_s = window_ns / NS_PER_S
    intervals = window_s / interval_s
    written = window.get("postgres_checkpoint_written_bytes", 0.0)
    counters = (
        f"{_started(window):.0f} checkpoints started in the window of {window_s:.0f} s and "
        f"{_started(ramp_up):.0f} before it; checkpoints wrote {format_bytes(written)} of data "
        f"pages, the log grew by {format_bytes(log)}"
    )
    shorter = (
        f"use a --duration that is a multiple of checkpoint_timeout ({interval_s:.0f} s), or "
        "lower that with --set checkpoint_timeout=… (at least 30 s)"
    )
    longer = f"raise --ramp-up above checkpoint_timeout ({interval_s:.0f} s)"
    # A window of one interval may start just after a checkpoint and contain all its writes.
    if not _started(window) and (intervals < 1 - _TOLERANCE or not written):
        yield RunWarning(
            "no-checkpoint-in-window",
            "no checkpoint started in the window",
            counters,
            f"{shorter}; {longer}",
        )
    elif not _started(ramp_up):
        yield RunWarning(
            "no-checkpoint-in-ramp-up", "no checkpoint started in the ramp-up", counters, longer
        )
    elif _timed(window) and abs(intervals - round(intervals)) > _TOLERANCE * intervals:
        yield RunWarning(
            "checkpoint-cut-off",
            "the window is not a multiple of the checkpoint interval",
            counters,
            shorter,
        )
    images = window.get("postgres_wal_full_page_images_count", 0.0)
    if images * block_bytes > _MOST * log:
        yield RunWarning(
            "full-page-images",
            "most of the log is full-page images; checkpoints further apart write fewer, and a "
            "faster log tier then gains less",
            f"up to {min(1.0, images * block_bytes / log):.0%} of {format_bytes(log)} "
            f"({images:,.0f} pages)",
            "raise checkpoint_timeout with --set, and --ramp-up and --duration with it",
        )


def _started(counters: Mapping[str, float]) -> float:
    requested = counters.get("postgres_checkpoints_requested_count", 0.0)
    return counters.get("postgres_checkpoints_timed_count", 0.0) + requested


def _timed(counters: Mapping[str, float]) -> bool:
    """Return whether checkpoints start by time, not by the size of the log."""
    return not counters.get("postgres_checkpoints_requested_count")
