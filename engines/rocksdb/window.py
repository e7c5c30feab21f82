"""Whether a measurement window flushes and compacts as a long run does.

Writes go to the log and a memtable; flushes and compactions write tables later, in steps of one
memtable and of several. So the rate of both is that of a long run if a window has many such steps
and does not postpone compactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.units import MIB, format_bytes
from harness.warnings import RunWarning

#: A window that writes less has next to nothing to flush.
_LITTLE_BYTES = 16 * MIB
#: Tolerated compaction backlog at the window's end, as a share of what compactions wrote: the
#: compaction due at that moment has several memtables and all that they overlap.
_BACKLOG = 0.5


def warnings(window: Mapping[str, float]) -> Iterator[RunWarning]:
    """``window``: increase of each ticker; empty if there are no statistics."""
    if (written := window.get("rocksdb_written_bytes", 0.0)) < _LITTLE_BYTES:
        return
    flushed = window.get("rocksdb_flush_write_bytes", 0.0)
    compacted = window.get("rocksdb_compact_write_bytes", 0.0)
    backlog = window.get("rocksdb_pending_compaction_bytes", 0.0)
    counters = (
        f"clients wrote {format_bytes(written)}, flushes {format_bytes(flushed)}, compactions "
        f"{format_bytes(compacted)}"
    )
    smaller = "raise --duration, or lower --set write_buffer_size=…"
    if not flushed:
        yield RunWarning(
            "no-flush-in-window", "no memtable was flushed in the window", counters, smaller
        )
    elif not compacted:
        yield RunWarning(
            "no-compaction-in-window", "no compaction ran in the window", counters, smaller
        )
    elif backlog > _BACKLOG * compacted:
        yield RunWarning(
            "compaction-backlog-grows",
            "compactions do not keep up, and writes slow down with the length of the window",
            f"{counters}; pending compactions grew by {format_bytes(backlog)}",
            "raise --ramp-up or max_background_jobs, or lower --rate",
        )
