"""Canaries: microbenchmarks before and after an experiment, in ``<results>/canaries``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.errors import UsageError
from harness.store import schemas
from harness.store.documents import write_json_atomically
from harness.supervise.user_files import make_own
from harness.warnings import RunWarning, warn


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
class Canary:
    """Of one execution of an experiment; ``experiment``: hash of its plan."""

    experiment: str
    host_id: str
    began_unix_ns: int
    ended_unix_ns: int
    figures: tuple[Figure, ...]

    def to_json(self) -> dict[str, Any]:
        """As stored (schema canary)."""
        return {"schema": 1, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Canary:
        """The inverse of :meth:`to_json`."""
        fields = {name: value for name, value in document.items() if name != "schema"}
        figures = (
            Figure(**{**one, "before": tuple(one["before"]), "after": tuple(one["after"])})
            for one in document["figures"]
        )
        return cls(**{**fields, "figures": tuple(figures)})


class CanaryStore:
    """The canaries of a results directory."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "canaries"

    def write(self, canary: Canary) -> None:
        """Store it."""
        document = jsonfile.parse(json.dumps(canary.to_json()))  # lists in place of tuples
        schemas.validate(document, "canary", source="a canary")
        make_own(self.folder)
        write_json_atomically(self.folder / f"{canary.began_unix_ns}.json", document)

    def all(self) -> list[Canary]:
        """All that can be read, oldest first; warns of each other one."""
        found = []
        for path in self.folder.glob("[0-9]*.json"):
            try:
                found.append(Canary.from_json(schemas.read(path, "canary")))
            except (OSError, UsageError) as error:
                context = f"{path}: {error}"
                warn(RunWarning("canary-unreadable", "a canary is left out", context))
        return sorted(found, key=lambda one: one.began_unix_ns)
