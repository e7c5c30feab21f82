"""Canaries: microbenchmarks before and after an experiment, in ``<results>/canaries``."""

from __future__ import annotations

from dataclasses import dataclass

from harness.store.documents import Document, DocumentStore
from harness.warnings import RunWarning


@dataclass(frozen=True)
class Figure:
    """The bandwidth of one configuration of a tier; ``before``, ``after``: samples, bytes/s."""

    tier: str
    configuration: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What is the same in all canaries of a host."""
        return self.tier, self.configuration


@dataclass(frozen=True)
class Canary(Document):
    """The canary of one execution of an experiment; ``experiment``: hash of its plan."""

    schema = "canary"
    experiment: str
    host_id: str
    began_unix_ns: int
    ended_unix_ns: int
    figures: tuple[Figure, ...]

    @property
    def document_name(self) -> str:
        return str(self.began_unix_ns)


class CanaryStore(DocumentStore[Canary]):
    """The canaries of a results directory."""

    kind, place = Canary, "canaries"
    unreadable = RunWarning("canary-unreadable", "a canary is left out", "")
