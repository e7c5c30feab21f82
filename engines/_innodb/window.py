"""Whether InnoDB writes pages back in a measurement window as it does in a long run.

The redo log is reused when the pages that it describes are written: in a long run, its
checkpoint advances as fast as the log grows. Until then, a window writes fewer pages than it
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.units import MIB, format_bytes
from harness.warnings import RunWarning

#: A window that logs less has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: How far the checkpoint may lag or catch up, as a share of the log's growth.
_TOLERANCE = 0.2


def warnings(window: Mapping[str, float]) -> Iterator[RunWarning]:
    """``window``: increase of each counter; no warnings for releases without these counters."""
    redo = window.get("innodb_redo_bytes", 0.0)
    if redo < _LITTLE_BYTES:
        return
    advanced = window.get("innodb_redo_checkpointed_bytes", 0.0)
    pages = window.get("innodb_pages_written_count", 0.0)
    if abs(redo - advanced) > _TOLERANCE * redo:
        yield RunWarning(
            "redo-checkpoint-not-steady",
            f"{'fewer' if advanced < redo else 'more'} pages were written than in a long run",
            f"the redo log grew by {format_bytes(redo)}, its checkpoint advanced by "
            f"{format_bytes(advanced)} ({advanced / redo:.0%}); {pages:,.0f} pages were written",
            "raise --ramp-up, or have pages written sooner with a smaller redo log or a lower "
            "--set innodb_adaptive_flushing_lwm=…",
        )
