"""Profiles as files: the keys of an experiment's YAML, with their types, bounds and help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from harness.experiment.placement import MemoryNodes
from harness.structs import Misfit, Struct, whole

_Texts = tuple[str, ...]
_Names = Annotated[tuple[str, ...], Meta(min_length=1)]
_Values = Annotated[tuple[Any, ...], Meta(min_length=1)]
_Members = Annotated[Mapping[str, Any], Meta(min_length=1)]
_Mode = "(Default|AppDirect|Memory|Mixed)"
_HostMode = Annotated[
    str,
    whole(
        f"{_Mode}([|]{_Mode})*",
        "the mode the host must be in: Default, AppDirect, Memory, Mixed, or several joined by |",
    ),
]
_Plant = Annotated[
    tuple[str, ...],
    Meta(
        description="delays planted in the engine's file I/O, such as wal.sync=+200us, or levels "
        "+100us/200us/400us"
    ),
]
_Cpus = Annotated[
    str | int,
    Meta(description="processors the engine may run on: 0-7,16-23, socket:0, node:0"),
]
_Listen = Annotated[
    str | None,
    Meta(
        description="an IP address of this host, ADDRESS:PORT or [ADDRESS]:PORT: the server "
        "listens there, with TLS, for the hosts that client_hosts names; null: on no network, "
        "they come through ssh"
    ),
]
_Size = Annotated[
    str | int,
    Meta(description='a size with unit (4GiB) or an expression of size ("= 1.28 * GiB * size")'),
]
_Threads = Annotated[int, Meta(ge=1)]
_OPTIONS = "by engine name, then by option"
_ENV = "environment variables of the engine's processes: LD_PRELOAD, MALLOC_CONF"


class ConfigurationEntry(Struct, frozen=True):
    """An entry of the axis configuration: what goes together, several keys an entry."""

    label: Annotated[str, Meta(description="names the arm")] | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    params: _Members | UnsetType = UNSET
    settings: _Members | UnsetType = UNSET
    env: Annotated[_Members | UnsetType, Meta(description=_ENV)] = UNSET
    engine_options: Annotated[
        Annotated[Mapping[str, _Members], Meta(min_length=1)] | UnsetType,
        Meta(description=_OPTIONS),
    ] = UNSET
    placement: str | UnsetType = UNSET
    tuning: str | UnsetType = UNSET
    driver: str | UnsetType = UNSET
    host_mode: _HostMode | UnsetType = UNSET
    memory_limit: _Size | UnsetType = UNSET
    threads: _Threads | UnsetType = UNSET
    cpus: _Cpus | UnsetType = UNSET
    listen: _Listen | UnsetType = UNSET
    plant: _Plant | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse an entry that sets nothing."""
        if all(value is UNSET for value in asdict(self).values()):
            raise Misfit("the entry sets nothing", "write engine, placement, params or another key")


class Axes(Struct, frozen=True):
    """Axes that vary: each a list of values."""

    engine: _Names | UnsetType = UNSET
    placement: _Names | UnsetType = UNSET
    tuning: _Names | UnsetType = UNSET
    driver: Annotated[
        _Names | UnsetType, Meta(description="what offers the load: loadgen, hammerdb")
    ] = UNSET
    configuration: Annotated[
        Annotated[tuple[ConfigurationEntry, ...], Meta(min_length=1)] | UnsetType,
        Meta(
            description="what goes together, several keys an entry: a placement and the host "
            "mode it needs, say"
        ),
    ] = UNSET
    host_mode: Annotated[tuple[_HostMode, ...], Meta(min_length=1)] | UnsetType = UNSET
    cpus: Annotated[tuple[_Cpus, ...], Meta(min_length=1)] | UnsetType = UNSET
    listen: Annotated[tuple[_Listen, ...], Meta(min_length=1)] | UnsetType = UNSET
    memory_limit: Annotated[tuple[_Size, ...], Meta(min_length=1)] | UnsetType = UNSET
    threads: Annotated[tuple[_Threads, ...], Meta(min_length=1)] | UnsetType = UNSET
    params: Mapping[str, _Values] | UnsetType = UNSET
    settings: Mapping[str, _Values] | UnsetType = UNSET
    env: Annotated[Mapping[str, _Values] | UnsetType, Meta(description=_ENV)] = UNSET
    engine_options: Annotated[
        Mapping[str, Annotated[Mapping[str, _Values], Meta(min_length=1)]] | UnsetType,
        Meta(description=_OPTIONS),
    ] = UNSET

    def __post_init__(self) -> None:
        """Refuse a name that an axis of names has twice."""
        for key in ("engine", "placement", "tuning", "driver"):
            names = getattr(self, key)
            if names is not UNSET and len(set(names)) < len(names):
                raise Misfit("a name is given twice", "name each once", key)


class FixedValues(Struct, frozen=True):
    """Settings that do not vary."""

    engine: str | UnsetType = UNSET
    placement: str | UnsetType = UNSET
    tuning: str | UnsetType = UNSET
    host_mode: _HostMode | UnsetType = UNSET
    cpus: _Cpus | UnsetType = UNSET
    memory: Annotated[
        MemoryNodes | UnsetType,
        Meta(
            description="memory nodes of all placements, none of which has memory of its own: "
            "socket:0, node:0 or socket:data"
        ),
    ] = UNSET
    listen: _Listen | UnsetType = UNSET
    memory_limit: _Size | UnsetType = UNSET
    threads: _Threads | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    driver: str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    dimms: Annotated[
        Annotated[Mapping[str, Literal["one", "interleaved"]], Meta(min_length=1)] | UnsetType,
        Meta(
            description="what a tier of persistent memory must be: one DIMM, or several interleaved"
        ),
    ] = UNSET
    emulate: _Texts | UnsetType = UNSET
    monitors: Annotated[
        _Texts | UnsetType, Meta(description="requested in addition to the defaults")
    ] = UNSET
    plant: _Plant | UnsetType = UNSET
    observe: Annotated[
        _Texts | UnsetType, Meta(description="observers of untimed second executions")
    ] = UNSET
    no_monitors: Annotated[_Texts | UnsetType, Meta(description="excluded")] = UNSET
    params: Mapping[str, Any] | UnsetType = UNSET
    settings: Mapping[str, Any] | UnsetType = UNSET
    env: Annotated[Mapping[str, Any] | UnsetType, Meta(description=_ENV)] = UNSET
    engine_options: Annotated[
        Mapping[str, Mapping[str, Any]] | UnsetType, Meta(description=_OPTIONS)
    ] = UNSET


class Profile(Struct, frozen=True, tag_field="schema", tag=1):
    """An experiment as axes over run parameters."""

    name: Annotated[str, whole("[a-z0-9][a-z0-9-]*", "lower-case letters, digits and dashes")]
    description: Annotated[str, Meta(min_length=1)]
    workload: str
    axes: Annotated[
        Axes,
        Meta(
            description="what varies: each axis a list of values; the runs are the cross product, "
            "last axis fastest"
        ),
    ]
    fixed: Annotated[FixedValues, Meta(description="what does not vary")] = FixedValues()
    size: Annotated[
        Annotated[float, Meta(gt=0)] | UnsetType,
        Meta(
            description="the one number that scales data, buffer pool and memory cap together: "
            "'size' in params and memory_limit stands for it"
        ),
    ] = UNSET
    published: Annotated[
        Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)] | UnsetType,
        Meta(description="the figures of published.csv, next to the profile, that it repeats"),
    ] = UNSET
    repeats: Annotated[
        int,
        Meta(
            ge=1,
            le=10000,
            description="how many blocks, 10000 at most; each block has every run once",
        ),
    ] = 1

    def __post_init__(self) -> None:
        """Refuse a figure that is named twice."""
        figures = self.published
        if figures is not UNSET and len(set(figures)) < len(figures):
            raise Misfit("a figure is given twice", "name each once", "published")
