"""Scores of models: how far runs on a modelled tier are from runs on the tier itself.

A score compares a tier that this host has with a model of it: the same workload on the tier and on
the model, in blocks. What a model predicts for a device that is not there can be trusted as far as
that.

Throughput alone does not carry over: where an operation hardly waits for the device, any model of
it looks right. So the duration of the engine's calls is scored, each kind of call as often as on
the tier (DEVICE_TIME), and that of each kind alone: in the sum, others hide an error of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Annotated

from msgspec import Meta

from harness.store.documents import Document, DocumentStore
from harness.structs import Struct
from harness.warnings import RunWarning

#: An error beyond it, shown by the interval, contradicts the model.
CONTRADICTED = 0.25
#: The name of the scored metric of how long the engine's calls take.
DEVICE_TIME = "device_time"
#: A kind of call with less than this share of the device's time has no metric of its own.
LEAST_SHARE = 0.1
#: Warnings of runs in which the host, and not the model, decided how long calls took.
NOT_KEPT = ("model-not-kept", "other-load", "stolen-while-measuring")


def device_time_of(part: str, operation: str) -> str:
    """Return the name of the scored metric of how long the calls of a kind take."""
    return f"{DEVICE_TIME}_{part}_{operation}"


class ScoredMetric(Struct, frozen=True):
    """The ratio of a metric on the modelled tier to that on the tier itself, with its interval."""

    name: str
    ratio: Annotated[float, Meta(ge=0)]
    low: float | None
    high: float | None

    @property
    def error(self) -> float:
        """Relative error of the model: 0.1 is 10 % too much."""
        return self.ratio - 1

    @property
    def contradicted(self) -> bool:
        """Return whether even the near end of the interval is off by more than 25 %."""
        if self.low is None or self.high is None:
            return False
        return self.low > 1 + CONTRADICTED or self.high < 1 / (1 + CONTRADICTED)


class ScoredQuantity(Struct, frozen=True):
    """A quantity of one block: on the tier, and on its model."""

    name: str
    tier: float
    model: float


class Pair(Struct, frozen=True):
    """A block of a score; ``looks``: how often results may have decided on more of them."""

    run_ids: tuple[str, ...]
    looks: Annotated[int, Meta(ge=1)]
    measured: tuple[ScoredQuantity, ...]


class RefusedBlock(Struct, frozen=True):
    """A block that says nothing of the model, since other work disturbed its runs."""

    why: str
    runs: tuple[str, ...]


class Score(Document, frozen=True, tag_field="schema", tag=1):
    """How far runs on a modelled tier were from runs on the tier itself.

    One workload on both; ``pairs`` add up over commands, and none replaces another.

    ``metrics``: throughput first, then latencies, processor time and the time of calls, of all
    and by kind.
    """

    host_id: str
    model: str
    digest: str
    tier: str
    engine: str
    workload: str
    case: str
    unix_ns: Annotated[int, Meta(ge=0)]
    blocks: tuple[Pair, ...]
    metrics: tuple[ScoredMetric, ...]
    refused: tuple[RefusedBlock, ...] = ()

    @property
    def document_name(self) -> str:
        about = (self.model, self.digest[:8], self.tier, self.case, self.host_id[:6])
        name = "-".join(about)
        return name.replace("/", "_").replace(" ", "-")

    @property
    def pairs(self) -> int:
        return len(self.blocks)

    @property
    def contradicted(self) -> tuple[str, ...]:
        """Metrics that contradict the model; empty where none does."""
        return tuple(metric.name for metric in self.metrics if metric.contradicted)

    def metric(self, name: str) -> ScoredMetric | None:
        return next((metric for metric in self.metrics if metric.name == name), None)


class ScoreStore(DocumentStore[Score]):
    """The scores of a results directory, one file for each model, tier and case."""

    kind, place = Score, "scores"
    unreadable = RunWarning("score-unreadable", "a score is left out", "")

    def earlier(self, score: Score) -> Score | None:
        """Return the score of the same model, tier and case that is stored."""
        same = (score.document_name, score.host_id, score.digest)
        stored = (s for s in self.all() if (s.document_name, s.host_id, s.digest) == same)
        return next(stored, None)


def summary(scores: Sequence[Score], host_id: str) -> str:
    """Return how far models were from devices of this host, for a line of a report."""
    here = [score for score in scores if score.host_id == host_id and score.metrics]
    errors = [abs(score.metrics[0].error) for score in here]
    if not errors:
        return "not scored on this host"
    within = sum(error <= 0.1 for error in errors)
    pairs = sum(score.pairs for score in here)
    return (
        f"models of this host's own devices: median error {median(errors):.0%}, "
        f"within 10 % in {within} of {len(errors)} cases of {pairs} pairs"
    )
