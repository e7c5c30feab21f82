"""The measured phase of one run: what the runner offers a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine import Engine
from harness.memory.cache import evict, residency
from harness.monitors.process import read_counters
from harness.progress import Progress

#: Above this share of pages still in the page cache a start is not called cold.
COLD_RESIDENT_SHARE = 0.01


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

    def cold_start(self, label: str) -> None:
        """Stop, evict, measure residency, start. The engine's own cache goes with its process."""
        self.engine.stop()
        files = self.engine.files()
        evict(files, drop=self.drop_caches)
        found = residency(files)
        self.residency.append(
            {
                "label": label,
                "resident_bytes": found.resident_bytes,
                "total_bytes": found.total_bytes,
                "note": found.note,
            }
        )
        self.engine.start()

    def counters(self) -> Mapping[str, float]:
        """The engine's own counters and the kernel's for its processes."""
        return {**read_counters(self.engine.processes()), **self.engine.counters()}

    def not_cold(self) -> list[str]:
        """Labels of the cold starts that were not cold, with what was resident."""
        return [
            f"{entry['label']}: {entry['resident_bytes']} of {entry['total_bytes']} bytes resident"
            for entry in self.residency
            if entry["resident_bytes"] is not None
            and entry["resident_bytes"] > COLD_RESIDENT_SHARE * entry["total_bytes"]
        ]
