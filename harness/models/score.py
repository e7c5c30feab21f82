"""Scores of models: how far runs on a modelled tier are from runs on the tier itself.

A score compares a tier that this host has with a model of it: the same workload on both, in paired
blocks. What a model predicts for a device that is not there can be trusted as far as that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store import schemas
from harness.store.documents import write_json_atomically
from harness.supervise.user_files import make_own
from harness.warnings import RunWarning, warn

#: An error beyond it, shown by the interval, contradicts the model.
CONTRADICTED = 0.25


@dataclass(frozen=True)
class ScoredMetric:
    """The ratio of a metric on the modelled tier to that on the tier itself, with its interval."""

    name: str
    ratio: float
    low: float | None
    high: float | None

    @property
    def error(self) -> float:
        """Relative error of the model: 0.1 is 10 % too much."""
        return self.ratio - 1

    @property
    def contradicted(self) -> bool:
        """Whether even the near end of the interval is off by more than 25 %."""
        low = self.ratio if self.low is None else self.low
        high = self.ratio if self.high is None else self.high
        return low > 1 + CONTRADICTED or high < 1 / (1 + CONTRADICTED)


@dataclass(frozen=True)
class Score:
    """One workload on both; ``metrics``: throughput first, then latencies, or query times."""

    host_id: str
    model: str
    digest: str
    tier: str
    engine: str
    workload: str
    case: str
    repeats: int
    unix_ns: int
    metrics: tuple[ScoredMetric, ...]
    run_ids: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As stored, and as in ``harness model list --json``."""
        lists = {"metrics": list(map(asdict, self.metrics)), "run_ids": list(self.run_ids)}
        return {"schema": 1, **asdict(self), **lists}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Score:
        """Return the score of a document that :meth:`to_json` made."""
        fields = {name: value for name, value in document.items() if name != "schema"}
        fields["metrics"] = tuple(ScoredMetric(**one) for one in document["metrics"])
        fields["run_ids"] = tuple(document["run_ids"])
        return cls(**fields)


class ScoreStore:
    """The scores of a results directory, one file for each model, tier and case."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "scores"

    def write(self, score: Score) -> None:
        """Store a score in place of an earlier one of the same case."""
        document = score.to_json()
        name = f"{score.model}-{score.tier}-{score.case}".replace("/", "_").replace(" ", "-")
        schemas.validate(document, "model-score", source=name)
        make_own(self.folder)
        write_json_atomically(self.folder / f"{name}.json", document)

    def all(self) -> list[Score]:
        """Return every readable score; warn about each unreadable file."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                found.append(Score.from_json(schemas.read(path, "model-score")))
            except (OSError, UsageError) as error:
                context = f"{path}: {error}"
                warn(RunWarning("score-unreadable", "a model's score is left out", context))
        return found


def summary(scores: Sequence[Score], host_id: str) -> str:
    """Return how far models were from devices of this host, for a line of a report."""
    errors = sorted(abs(s.metrics[0].error) for s in scores if s.host_id == host_id)
    if not errors:
        return "not scored on this host"
    median = errors[len(errors) // 2]
    within = sum(error <= 0.1 for error in errors)
    return (
        f"models of this host's own devices: median error {median:.0%}, "
        f"within 10 % in {within} of {len(errors)} cases"
    )


def now_ns() -> int:
    """Return the time that a score is dated with."""
    return time.time_ns()
