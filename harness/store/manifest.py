"""What is needed to repeat a run (manifest.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.store.datasets import DatasetName
from harness.store.documents import members
from harness.store.spec import RUN_SCHEMA, JsonObject, RunSpec
from harness.tiers.linux.model import TierRecord


@dataclass(frozen=True)
class HarnessVersion:
    """``revision``: the commit of a checkout."""

    version: str
    revision: str | None = None


@dataclass(frozen=True)
class Program:
    """What was measured: an engine, or a microbenchmark's program."""

    name: str
    version: str
    build: str
    source: str
    kind: str = "managed"
    settings: Mapping[str, str] = field(default_factory=dict)
    effective_config: Mapping[str, str] = field(default_factory=dict)
    durability_settings: Sequence[str] = ()


@dataclass(frozen=True)
class MemoryLimit:
    """How a limit was enforced (``none``: it was not, or there was none)."""

    method: str
    limit_bytes: int | None


@dataclass(frozen=True)
class Manifest:
    """The document of schema manifest, which says what each member is."""

    run_id: str
    harness: HarnessVersion
    argv: tuple[str, ...]
    spec: RunSpec
    host: Mapping[str, Any]
    tiers: tuple[TierRecord, ...]
    engine: Program
    dataset: DatasetName | None
    restore_method: str
    memory_cap: MemoryLimit
    run_state: Mapping[str, str]
    clock: Mapping[str, int]
    tools: Mapping[str, str]
    conditions: JsonObject | None = None
    prices_per_gb: Mapping[str, float] = field(default_factory=dict)
    processors: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"schema": RUN_SCHEMA, **members(self)}
