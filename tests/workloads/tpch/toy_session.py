"""A session of an engine that notes its ``calls``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.host.working_set import Footprint


@dataclass
class ToySession:
    """Keeps the steps of a run; its counters count how often they are read."""

    engine: Any
    progress: Any
    source: Path | None = None
    changes: Path | None = None
    reads: int = 0
    steps: dict[str, Any] = field(default_factory=dict)

    def cold_start(self, label):
        self.engine.calls.append(f"cold {label}")

    def counters(self, moment="after"):
        self.reads += 1
        return {"read_bytes": self.reads * 4096, "cpu_ns": self.reads, "faults": 0}

    def remember(self, step, document):
        self.steps[step] = json.loads(json.dumps(document))

    def recalled(self, step):
        return self.steps.get(step)

    def footprint(self):
        return Footprint(lambda: [], lambda: [])  # it has neither files nor processes
