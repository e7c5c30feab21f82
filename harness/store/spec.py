"""The spec of one run: everything that was decided before it started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from harness.experiment.placement import MemoryNodes, Placement, TierName
from harness.structs import Struct, whole, written

#: A JSON value: a document's, whose types are those of its schema.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
JsonObject: TypeAlias = Mapping[str, Json]

#: The version of run.json, its spec and its manifest. Runs of another version are not read.
RUN_SCHEMA = 3

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


_Name = Annotated[str, whole("[a-z][a-z0-9_]*")]
_Positive = Annotated[int, Meta(ge=1)]
_Natural = Annotated[int, Meta(ge=0)]
_Text = Annotated[str, Meta(min_length=1)]
_MODE = "(Default|AppDirect|Memory|Mixed)"


class RunSpec(Struct, frozen=True, tag_field="schema", tag=RUN_SCHEMA, omit_defaults=True):
    """One engine × workload × placement × parameters, once.

    ``placement`` is None for an external engine only; ``label`` then names what
    its owner set up, and else the arm of a command that the run belongs to.
    ``params`` are the workload's, as stored (harness.workloads.parameters);
    ``block`` is the number of the interleaved repeat block.
    ``emulate``: of the tiers that are emulated, those that the placement uses; ``models``: of
    those that are modelled, with their models (``fast=zero``).
    ``required_host_mode`` is None where any will do; ``Default|AppDirect``: one of them.
    A member that is no :func:`written` one is left out of documents where it has its default.
    """

    workload: _Name
    engine: _Name
    placement: Placement | None
    params: Mapping[str, Any]
    tuning: str = written("computed")
    settings: Mapping[str, str] = written({})
    engine_options: Mapping[str, Any] = written({})
    threads: _Positive | None = written(None)
    memory_limit_bytes: _Positive | None = written(None)
    emulate: tuple[TierName, ...] = written(())
    required_host_mode: (
        Annotated[str, whole(rf"{_MODE}([|]{_MODE})*", "one mode, or several joined by |")] | None
    ) = written(None)
    label: str | None = written(None)
    seed: _Natural = written(0)
    block: _Natural = written(0)
    driver: str = written(NATIVE)
    monitors: Annotated[
        tuple[str, ...], Meta(description="requested in addition to the defaults")
    ] = written(())
    no_monitors: Annotated[tuple[str, ...], Meta(description="excluded defaults")] = ()
    observe: Annotated[
        tuple[str, ...], Meta(description="observers, each of an untimed execution of its own")
    ] = ()
    cpus: Annotated[
        _Text | None,
        Meta(
            description="processors that the engine may run on, as given: 0-7,16-23, socket:0, "
            "node:0; null: all"
        ),
    ] = None
    memory: Annotated[
        MemoryNodes | None,
        Meta(
            description="memory nodes that the engine is bound to, as given; null: those of the "
            "placement"
        ),
    ] = None
    listen: Annotated[
        _Text | None,
        Meta(
            description="address of this host on which the server listens, with TLS, for clients "
            "on other hosts; null: it listens on no network"
        ),
    ] = None
    plant: Annotated[
        tuple[Annotated[str, Meta(pattern="^(data|wal|temp|index)[.](read|write|sync)=[+]")], ...],
        Meta(
            description="delays planted in the engine's file I/O: wal.sync=+200us, jittered "
            "+200us~50us, or levels +100us/200us/400us"
        ),
    ] = ()
    models: Annotated[
        tuple[Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*=.")], ...],
        Meta(description="modelled tiers with their models: fast=zero"),
    ] = ()
    env: Annotated[
        Mapping[str, str],
        Meta(description="variables of the environment of the engine's processes, as given"),
    ] = {}
    required_dimms: Annotated[
        Mapping[str, str],
        Meta(
            description="of tiers of persistent memory: one DIMM, or interleaved; checked before "
            "a run, whose manifest has the tier's facts, and stored with none"
        ),
    ] = {}

    def __post_init__(self) -> None:
        used = self.placement.tiers() if self.placement else ()
        force_setattr(self, "emulate", tuple(t for t in self.emulate if t in used))
        modelled = tuple(m for m in self.models if m.partition("=")[0] in used)
        force_setattr(self, "models", modelled)

    @property
    def checked(self) -> RunSpec:
        """The spec as it is stored: without what no run has after its check."""
        return replace(self, required_dimms={}) if self.required_dimms else self

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
        return content_hash(self.checked.to_json())

    def series(self) -> str:
        """Hash without the block: runs that repeat one another share it."""
        document = self.checked.to_json()
        return content_hash({k: v for k, v in document.items() if k != "block"})
