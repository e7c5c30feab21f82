"""The measured phase of one run: what the runner offers a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine import Engine
from harness.memory.cache import Residency, evict, residency
from harness.monitors.process import read_counters
from harness.progress import Progress

#: Above this share of pages still in the page cache a start is not called cold.
COLD_SHARE = 0.01


@dataclass
class RunSession:
    """Implements harness.workload.Session.

    ``residency``: one entry per cold start, measured with the engine stopped and
    its files evicted: what the next query found in the page cache.
    """

    engine: Engine
    progress: Progress
    source: Path | None
    drop_caches: bool
    residency: list[dict[str, Any]] = field(default_factory=list)
    #: The cold starts that were not cold although their files could be evicted.
    not_cold: list[str] = field(default_factory=list)

    def cold_start(self, label: str) -> None:
        """Stop, evict, measure residency, start. The engine's own cache goes with its process."""
        self.engine.stop()
        files = self.engine.files()
        evict(files)
        found = residency(files)
        note = found.note
        if self.drop_caches and not _cold(found):
            # fadvise leaves pages that are mapped or under way; only root may do more.
            # Not done at first: it slows the whole host and makes a binary's own pages cold.
            evict(files, drop=True)
            found = residency(files)
            note = "; ".join(text for text in (found.note, "drop_caches was needed") if text)
        self.residency.append(
            {
                "label": label,
                "resident_bytes": found.resident_bytes,
                "total_bytes": found.total_bytes,
                "note": note,
            }
        )
        if not _cold(found):
            self.not_cold.append(
                f"{label}: {found.resident_bytes} of {found.total_bytes} bytes resident"
            )
        self.engine.start()

    def counters(self) -> Mapping[str, float]:
        """The engine's own cumulative counters and the kernel's for its processes."""
        kernel = read_counters(self.engine.processes())
        kernel.pop("rss_bytes")  # a level, not a sum: its difference would mean nothing
        return {**kernel, **self.engine.counters()}


def _cold(found: Residency) -> bool:
    """Whether next to nothing that could be evicted is still resident (unknown: taken so)."""
    if found.resident_bytes is None:
        return True
    return found.resident_bytes - found.unevictable_bytes <= COLD_SHARE * found.total_bytes
