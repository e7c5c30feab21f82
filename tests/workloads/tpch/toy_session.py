"""A session of an engine that notes its ``calls``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.host.footprint import Footprint
from harness.workload import Clients, Moment, Session


@dataclass
class ToySession(Session):
    """Keeps the steps of a run; its counters count how often they are read."""

    engine: Any
    seed: int = 1
    reads: int = 0
    steps: dict[str, Any] = field(default_factory=dict)

    def cold_start(self, label: str) -> None:
        self.engine.calls.append(f"cold {label}")

    def counters(self, moment: Moment = "after") -> Mapping[str, float]:
        self.reads += 1
        return {"read_bytes": self.reads * 4096, "cpu_ns": self.reads, "faults": 0}

    def remember(self, step: str, document) -> None:
        self.steps[step] = json.loads(json.dumps(document))

    def recalled(self, step: str) -> Any | None:
        return self.steps.get(step)

    def measured(self) -> None:
        """Nothing of the engine runs inside a client."""

    def clients(self) -> Clients:
        raise AssertionError("this workload starts no client programs")

    def footprint(self) -> Footprint:
        return Footprint(lambda: [], lambda: [])  # it has neither files nor processes
