"""Workload parameters on the command line: each given once, and one of this workload's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from harness import registry
from harness.cli.common import key_values
from harness.errors import UsageError
from harness.workload import ReadsProperties, TellsParameters
from harness.yamlfile import scalar


def option_text(option: str) -> str:
    """``--ramp-up`` of ``ramp_up``."""
    return f"--{option.replace('_', '-')}"


def workload_params(
    workload: str,
    options: Mapping[str, Any],
    param: Sequence[str] | None,
    properties: Sequence[Path] | None = None,
) -> dict[str, Any]:
    """By name, from property files, and over these from options and ``--param``.

    ``options``: by the option's name, None where one was not given. UsageError for what is
    given twice, or belongs to another workload; whatever else is wrong the workload itself
    will say.
    """
    known = _known()
    own = known.get(workload)
    given = {option: value for option, value in options.items() if value is not None}
    more = _from_command_line(workload, key_values(param, "--param"))
    for option, value in given.items():
        if (name := _parameter(own, option)) in more:
            raise UsageError(
                f"{option_text(option)} {value} and --param {name}={more[name]}",
                f"{name} is given twice",
                "leave one of the two out",
            )
    if own is not None:
        _check_whose(workload, own, known, given, more, options)
    plain = {
        _parameter(own, option): scalar(value) if isinstance(value, str) else value
        for option, value in given.items()
    }
    return {**_from_files(workload, properties), **plain, **more}


def takes(workload: str, option: str) -> bool:
    """Whether an option that other workloads have no parameter for is one of this workload's."""
    entry = _known().get(workload)
    return entry is not None and option in entry.options


def _known() -> dict[str, TellsParameters]:
    return {
        name: entry
        for name, entry in registry.workloads().items()
        if isinstance(entry, TellsParameters)
    }


def _parameter(entry: TellsParameters | None, option: str) -> str:
    return option if entry is None else entry.options.get(option, option)


def has(entry: TellsParameters, option: str) -> bool:
    """Whether an option is for one of a workload's parameters."""
    return _parameter(entry, option) in entry.parameters


def _check_whose(
    workload: str,
    own: TellsParameters,
    known: Mapping[str, TellsParameters],
    given: Iterable[str],
    more: Iterable[str],
    options: Iterable[str],
) -> None:
    """UsageError for a parameter that this workload has not, and another has."""
    strange = {
        option_text(option): [name for name, entry in known.items() if has(entry, option)]
        for option in given
        if not has(own, option)
    } | {
        f"--param {name}": [other for other, entry in known.items() if name in entry.parameters]
        for name in more
        if name not in own.parameters
    }
    for said, others in strange.items():
        if others:
            mine = [option for option in options if has(own, option)]
            reached = {_parameter(own, option) for option in mine}
            rest = ", ".join(name for name in own.parameters if name not in reached)
            raise UsageError(
                f"{said} with {workload}",
                f"{said} is an option of {' and '.join(others)}",
                f"{workload} has {', '.join(map(option_text, mine))}; and by --param {rest}",
            )


def _from_files(workload: str, files: Sequence[Path] | None) -> dict[str, Any]:
    """What property files say; what of them is left out is told."""
    if not files:
        return {}
    entry = registry.workload(workload)
    if not isinstance(entry, ReadsProperties):
        raise UsageError(
            f"--properties {files[0]} with {workload}",
            "only the official YCSB client has property files",
            "use --param for parameters of this workload",
        )
    return _told(*entry.property_parameters(files))


def _from_command_line(workload: str, pairs: Mapping[str, str]) -> dict[str, Any]:
    """Values of ``--param``: as the official client reads them, where it has them."""
    entry = registry.workloads().get(workload)
    if isinstance(entry, ReadsProperties):
        return _told(*entry.given_parameters(pairs))
    return {name: scalar(value) for name, value in pairs.items()}


def _told(found: dict[str, Any], told: Iterable[str]) -> dict[str, Any]:
    for line in told:
        typer.echo(line, err=True)
    return found
