"""Suites as files: the keys of a suite's YAML, with their types, bounds and help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from harness.structs import Struct, whole

_Program = Annotated[
    str, whole("[a-z]+", "what measures, where it is not microbench: fio or ioping")
]


class Powers(Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """The powers of a number between two values."""

    powers_of: Annotated[int, Meta(ge=2)]
    first: int | str
    last: int | str


_Matrix = Annotated[
    Mapping[str, Annotated[tuple[Any, ...], Meta(min_length=1)] | Powers],
    Meta(min_length=1, description="lists of values, or {powers_of, from, to}"),
]


class JobDocument(Struct, frozen=True):
    """One of several jobs that run at the same time."""

    matrix: _Matrix | UnsetType = UNSET
    args: Mapping[str, Any] | UnsetType = UNSET


class MeasurementDocument(Struct, frozen=True):
    """Matrix and args; or jobs that run at the same time, each with its own."""

    matrix: _Matrix | UnsetType = UNSET
    args: Mapping[str, Any] | UnsetType = UNSET
    jobs: (
        Annotated[
            Mapping[Annotated[str, whole("[a-z][a-z0-9_]*")], JobDocument], Meta(min_length=2)
        ]
        | UnsetType
    ) = UNSET
    requires: Annotated[
        Literal["memory"] | UnsetType,
        Meta(description="left out on tiers whose mapped files are the page cache"),
    ] = UNSET


class BlockProgram(Struct, frozen=True):
    """Program that measures instead on a tier that is a block device."""

    program: _Program
    params: Mapping[str, Any] | UnsetType = UNSET


class RepeatedFigures(Struct, frozen=True):
    """Figures of profiles/papers/PAPER/published.csv whose numbers a suite repeats."""

    paper: str
    figures: Annotated[tuple[str, ...], Meta(min_length=1)]


class SuiteDocument(Struct, frozen=True, tag_field="schema", tag=1):
    """A suite of microbenchmarks (profiles/micro/**.yml)."""

    documented = "docs/micro.md"
    name: Annotated[str, whole("[a-z0-9][a-z0-9-]*", "lower-case letters, digits and dashes")]
    description: Annotated[str, Meta(min_length=1)]
    published: Annotated[RepeatedFigures | UnsetType, Meta(description=RepeatedFigures.__doc__)] = (
        UNSET
    )
    repeats: Annotated[
        Annotated[int, Meta(ge=1)] | UnsetType,
        Meta(description="samples of each configuration unless --repeats gives another number"),
    ] = UNSET
    program: _Program | UnsetType = UNSET
    params: Annotated[
        Mapping[str, Any] | UnsetType, Meta(description="what goes to that program as it is")
    ] = UNSET
    block: Annotated[BlockProgram | UnsetType, Meta(description=BlockProgram.__doc__)] = UNSET
    defaults: Annotated[
        Mapping[str, Any] | UnsetType,
        Meta(description="keys of every measurement that does not set them (docs/micro.md)"),
    ] = UNSET
    measurements: (
        Annotated[
            Mapping[
                Annotated[str, whole("[a-z0-9][a-z0-9_]*")],
                Annotated[MeasurementDocument, Meta(description=MeasurementDocument.__doc__)],
            ],
            Meta(min_length=1),
        ]
        | UnsetType
    ) = UNSET
