"""Whether a measurement window holds the checkpoints that a long run has.

A checkpoint writes the pages changed since the one before, spread over most of its
interval, and makes the first change of each page after it log the whole page. So the rate
of both is that of a long run when a checkpoint has begun before the window, and the window
is a whole number of intervals long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.units import MIB, NS_PER_S, format_bytes
from harness.warnings import RunWarning

#: A window that logs less than a WAL segment has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: How far a rate may be off by what is missing of the last interval.
_OFF = 0.2
#: Share of the log above which full-page images are most of what a log tier is measured with.
_MOST = 0.5


def warnings(
    ramp_up: Mapping[str, float],
    window: Mapping[str, float],
    window_ns: int,
    *,
    interval_s: float,
    block_bytes: int,
) -> Iterator[RunWarning]:
    """``interval_s``: checkpoint_timeout; ``block_bytes``: block_size."""
    log = window.get("postgres_wal_written_bytes", 0.0)
    if log < _LITTLE_BYTES:
        return
    window_s = window_ns / NS_PER_S
    intervals = window_s / interval_s
    written = window.get("postgres_checkpoint_written_bytes", 0.0)
    counters = (
        f"{_begun(window):.0f} checkpoints began in the window of {window_s:.0f} s and "
        f"{_begun(ramp_up):.0f} before it; checkpoints wrote {format_bytes(written)} of data "
        f"pages, the log grew by {format_bytes(log)}"
    )
    shorter = (
        f"choose a --duration that is a multiple of checkpoint_timeout ({interval_s:.0f} s), or "
        "lower it with --set checkpoint_timeout=… (30 s at least)"
    )
    longer = f"raise --ramp-up above checkpoint_timeout ({interval_s:.0f} s)"
    # A window of one interval may begin right after a checkpoint has, and hold all its writes.
    if not _begun(window) and (intervals < 1 - _OFF or not written):
        yield RunWarning(
            "no-checkpoint-in-window",
            "no checkpoint began in the window",
            counters,
            f"{shorter}; {longer}",
        )
    elif not _begun(ramp_up):
        yield RunWarning(
            "no-checkpoint-in-ramp-up", "no checkpoint began in the ramp-up", counters, longer
        )
    elif _timed(window) and abs(intervals - round(intervals)) > _OFF * intervals:
        yield RunWarning(
            "checkpoint-cut-off",
            "the window is no multiple of the checkpoint interval",
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


def _begun(counters: Mapping[str, float]) -> float:
    requested = counters.get("postgres_checkpoints_requested_count", 0.0)
    return counters.get("postgres_checkpoints_timed_count", 0.0) + requested


def _timed(counters: Mapping[str, float]) -> bool:
    """Whether time, not the size of the log, spaces the checkpoints."""
    return not counters.get("postgres_checkpoints_requested_count")
