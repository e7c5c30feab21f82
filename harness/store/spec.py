"""The spec of one run: everything that was decided before it started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from harness.experiment.placement import Placement, parse_placement
from harness.store import schemas

#: A JSON value: a document's, whose types are those of its schema.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
JsonObject: TypeAlias = Mapping[str, Json]

#: The version of run.json, its spec and its manifest. Runs of another version are not read.
RUN_SCHEMA: int = schemas.schema("run-spec")["properties"]["schema"]["const"]

#: Monitors that every run has where they work: to request one warns where it does not, and changes
#: nothing else. Reports know them from here.
DEFAULT_MONITORS = frozenset(
    {
        "block",
        "cxl",
        "dimm-media",
        "energy",
        "io",
        "memory-traffic",
        "others",
        "perf",
        "pressure",
        "process",
        "vm",
        "waits",
    }
)

#: Members of a spec that have been added later: specs without them keep their hashes.
_ONLY_WHERE_SET = ("no_monitors", "observe", "cpus", "listen", "plant", "models")
_LISTS = ("emulate", "models", "monitors", "no_monitors", "observe", "plant")

#: What of a host, by its name in a manifest, may be changed at any time and changes times.
HOST_STATE = (
    "governor",
    "turbo",
    "smt",
    "thp",
    "aslr",
    "prefetchers",
    "memory_speed",
    "uncore_frequency",
    "dimm_power_budget",
)

#: The driver of workloads that the harness itself offers, through one connection a stream.
NATIVE = "native"
#: The workload of suites of microbenchmarks: no engine has it.
MICRO = "micro"


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: the form that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def content_hash(value: Any) -> str:
    """First 16 hex digits of SHA-256 over the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class RunSpec:
    """One engine × workload × placement × parameters, once.

    ``placement`` is None for an external engine only; ``label`` then names what
    its owner set up, and else the arm of a command that the run belongs to.
    ``params`` are the workload's, as stored (harness.workloads.parameters);
    ``block`` is the number of the interleaved repeat block.
    ``emulate``: of the tiers that are emulated, those that the placement uses; ``models``: of
    those that are modelled, with their models (``fast=zero``).
    ``required_host_mode`` is None where any will do; ``Default|AppDirect``: one of them.
    """

    workload: str
    engine: str
    placement: Placement | None
    params: JsonObject
    tuning: str = "computed"
    settings: Mapping[str, str] = field(default_factory=dict)
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    memory_limit_bytes: int | None = None
    emulate: tuple[str, ...] = ()
    required_host_mode: str | None = None
    label: str | None = None
    seed: int = 0
    block: int = 0
    driver: str = NATIVE
    #: In addition to the default monitors, and without which of them.
    monitors: tuple[str, ...] = ()
    no_monitors: tuple[str, ...] = ()
    #: Observers, each of an untimed execution of its own.
    observe: tuple[str, ...] = ()
    #: Processors the engine may run on (harness.host.processors); None: all of them.
    cpus: str | None = None
    #: Where its server listens for clients on other hosts (host.listen_address); None: nowhere.
    listen: str | None = None
    #: Delays planted in its file I/O (harness.iotrace.page).
    plant: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    #: Of tiers of persistent memory, by name: ``one`` DIMM, or ``interleaved``. Checked before a
    #: run, whose manifest has the tier's facts.
    required_dimms: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        used = self.placement.tiers() if self.placement else ()
        object.__setattr__(self, "emulate", tuple(t for t in self.emulate if t in used))
        modelled = tuple(m for m in self.models if m.partition("=")[0] in used)
        object.__setattr__(self, "models", modelled)

    def to_json(self) -> dict[str, Any]:
        """As in spec.json, run.json and the manifest (schema run-spec)."""
        members = (field.name for field in fields(self) if field.compare)
        values = {name: getattr(self, name) for name in members}
        return {
            "schema": RUN_SCHEMA,
            **{n: _json(v) for n, v in values.items() if v or n not in _ONLY_WHERE_SET},
            "placement": self.placement.to_json() if self.placement else None,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunSpec:
        """The inverse of :meth:`to_json`, of a valid document; UsageError for a placement."""
        values = {k: v for k, v in document.items() if k != "schema"}
        placement = values["placement"]
        values["placement"] = parse_placement(placement["name"]) if placement else None
        return cls(**values | {name: tuple(values.get(name, ())) for name in _LISTS})

    @property
    def stand_ins(self) -> list[str]:
        """The tiers to emulate or to model, as they are requested (harness.models.tier)."""
        return [*self.emulate, *(model.replace("=", "=model:", 1) for model in self.models)]

    @property
    def added_monitors(self) -> tuple[str, ...]:
        """Monitors that runs do not have by default."""
        return tuple(name for name in self.monitors if name not in DEFAULT_MONITORS)

    @property
    def planted_mark(self) -> str:
        """``PLANTED wal.sync=+200us``; empty without planted delays."""
        return f"PLANTED {' '.join(self.plant)}" if self.plant else ""

    @property
    def where(self) -> str:
        """The placement's name (or the user's label) with the planted delays, for tables."""
        name = self.placement.name if self.placement else (self.label or "external")
        return f"{name} {self.planted_mark}".rstrip()

    @property
    def arm(self) -> str | None:
        """The name of its arm; None of a run that belongs to none."""
        return (self.label or None) if self.placement else None

    def runs_in(self, mode: str) -> bool:
        """Return whether this run can be made on a host in that mode.

        A run on an emulated or modelled tier needs no AppDirect mode: that tier replaces it.
        """
        if self.required_host_mode is None:
            return True
        allowed = set(self.required_host_mode.split("|"))
        if self.emulate or self.models:
            allowed |= {"Default"} if "AppDirect" in allowed else set()
        return mode in allowed

    def seed_of_block(self) -> int:
        """Return the seed of a workload's draws: runs of one block share it, repeats do not."""
        return int(content_hash({"seed": self.seed, "block": self.block})[:8], 16)

    def hash(self) -> str:
        """Content hash: equal specs, equal hash. A complete run of it is not run again."""
        return content_hash(self.to_json())

    def series(self) -> str:
        """Hash without the block: runs that repeat one another share it."""
        return content_hash({k: v for k, v in self.to_json().items() if k != "block"})
