"""Scores of models: how far runs on a modelled tier are from runs on the tier itself.

A score compares a tier that this host has with a model of it: the same workload on both, in paired
blocks. What a model predicts for a device that is not there can be trusted as far as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.documents import Document, DocumentStore
from harness.warnings import RunWarning

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
        if self.low is None or self.high is None:
            return False
        return self.low > 1 + CONTRADICTED or self.high < 1 / (1 + CONTRADICTED)


@dataclass(frozen=True)
class Score(Document):
    """One workload on both; ``metrics``: throughput first, then latencies, or query times."""

    schema = "model-score"
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

    @property
    def document_name(self) -> str:
        name = f"{self.model}-{self.tier}-{self.case}"
        return name.replace("/", "_").replace(" ", "-")


class ScoreStore(DocumentStore[Score]):
    """The scores of a results directory, one file for each model, tier and case."""

    kind, place = Score, "scores"
    unreadable = RunWarning("score-unreadable", "a score is left out", "")


def summary(scores: Sequence[Score], host_id: str) -> str:
    """Return how far models were from devices of this host, for a line of a report."""
    errors = [abs(s.metrics[0].error) for s in scores if s.host_id == host_id]
    if not errors:
        return "not scored on this host"
    within = sum(error <= 0.1 for error in errors)
    return (
        f"models of this host's own devices: median error {median(errors):.0%}, "
        f"within 10 % in {within} of {len(errors)} cases"
    )
