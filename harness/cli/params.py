"""Workload parameters on the command line: each given once, and one of this workload's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness import registry
from harness.cli.common import key_values
from harness.errors import UsageError
from harness.workload import TellsParameters
from harness.yamlfile import scalar

#: Options that are not called as their parameter is.
_OPTIONS: Mapping[str, str] = {"query_timeout_s": "--query-timeout", "rate_per_s": "--rate"}


def option_of(name: str) -> str:
    """``--ramp-up`` of ``ramp_up``."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def workload_params(
    workload: str, options: Mapping[str, Any], param: Sequence[str] | None
) -> dict[str, Any]:
    """By name, from the options of that name (None where one was not given) and ``--param``.

    UsageError for what is given twice, or belongs to another workload; whatever else is
    wrong the workload itself will say.
    """
    given = {name: value for name, value in options.items() if value is not None}
    more = key_values(param, "--param")
    for name in given.keys() & more.keys():
        raise UsageError(
            f"{option_of(name)} {given[name]} and --param {name}={more[name]}",
            f"{name} is given twice",
            "leave one of the two out",
        )
    spelled = {name: option_of(name) for name in given} | {name: f"--param {name}" for name in more}
    _check_whose(workload, spelled, options)
    found = {**given, **more}
    return {name: scalar(v) if isinstance(v, str) else v for name, v in found.items()}


def _check_whose(workload: str, spelled: Mapping[str, str], options: Iterable[str]) -> None:
    """UsageError for a parameter that this workload has not, and another has."""
    known = {
        name: entry.parameters
        for name, entry in registry.workloads().items()
        if isinstance(entry, TellsParameters)
    }
    if workload not in known:
        return
    own = known[workload]
    for name, said in spelled.items():
        others = [other for other, names in known.items() if name in names]
        if name not in own and others:
            rest = ", ".join(name for name in own if name not in options)
            raise UsageError(
                f"{said} with {workload}",
                f"{said} is an option of {' and '.join(others)}",
                f"{workload} has {', '.join(option_of(name) for name in own if name in options)}"
                f"; and by --param {rest}",
            )
