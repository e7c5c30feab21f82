"""Tuning profiles: an engine's settings computed from cores and memory.

``profiles/tuning/<name>.yml`` (or a file named by its path)::

    schema: 1
    name: computed
    description: …
    engines:
      postgres:
        shared_buffers: "= 0.25 * memory"      # bytes, rendered as 4194304kB
        max_parallel_workers: "= cores"
        checkpoint_timeout: 15min              # taken as it is

A value that begins with ``=`` is arithmetic (harness.yamlfile) over

- ``memory``: bytes: the run's memory cap if it has one, else the memory of the nodes that its
  placement binds to, else the host's,
- ``cores``: the run's threads,
- ``scale``: the workload's scale (TPC-C: warehouses); not there for workloads without one,
- ``connections``: those that the workload's clients hold; 0 where it names no number,
- ``window``: seconds of the measurement window; 60 where the workload sets no duration,
- ``data``: bytes of the records that are loaded (YCSB); 0 for other workloads.

A profile with ``base`` computes as that one does, from what ``memory`` says, and its own
settings replace those::

    base: paper
    memory: "= memory / 4"

Which settings take a size, and in which form, the engine's folder says in
``settings.yml``; everything else is rendered as a plain number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from harness import registry
from harness.errors import UsageError, unknown
from harness.paths import data_folder
from harness.structs import Misfit, Struct
from harness.units import GIB, KIB, MIB
from harness.yamlfile import YamlDocument, evaluate, is_expression, load_yaml

TUNING = data_folder("profiles") / "tuning"
_UNIT_BYTES = {
    "B": 1,
    "K": KIB,
    "kB": KIB,
    "KiB": KIB,
    "M": MIB,
    "MB": MIB,
    "MiB": MIB,
    "GiB": GIB,
}


def tunings() -> list[str]:
    """Names of the profiles that come with the harness."""
    return sorted(path.stem for path in TUNING.glob("*.yml"))


_Setting = Annotated[
    str | bool | int | float,
    Meta(description="a text, a number, or an expression that begins with ="),
]


class Tuning(Struct, frozen=True, tag_field="schema", tag=1):
    """Engines' settings, computed from cores and memory."""

    documented = "docs/tuning.md"
    name: str = ""
    description: str = ""
    base: Annotated[str | None, Meta(description="the profile whose settings these replace")] = None
    memory: (
        Annotated[
            str,
            Meta(
                pattern=r"^\s*=",
                description="what the base computes from instead of the run's memory: "
                '"= memory / 4", say',
            ),
        ]
        | None
    ) = None
    engines: (
        dict[str, Annotated[dict[str, _Setting] | None, Meta(description="settings by name")]]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Check that there is something to compute, and a base that computes from the memory."""
        if self.base is None and self.engines is None:
            raise Misfit("neither base nor engines", "write the settings below engines")
        if self.memory is not None and self.base is None:
            raise Misfit(
                "there is no base that would compute from it", "name one: base: computed", "memory"
            )


def settings_for(
    tuning: str | Path,
    engine: str,
    variables: Mapping[str, float],
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The settings of ``engine`` as text, the overrides (``--set``) on top.

    A profile that says nothing of an engine leaves it at its defaults. UsageError
    names file, line and nearest key.
    """
    document, profile = _read(tuning)
    based: dict[str, str] = {}
    if profile.base is not None:
        base_document, base = _read(profile.base)
        if base.base is not None:
            raise UsageError(
                document.at(("base",)), f"{profile.base!r} has a base itself", "name that one"
            )
        if profile.memory is not None:
            in_bytes = float(evaluate(profile.memory, variables, document.at(("memory",))))
            variables = {**variables, "memory": in_bytes}
        based = _settings(base_document, base, engine, variables)
    return based | _settings(document, profile, engine, variables) | dict(overrides or {})


def _read(tuning: str | Path) -> tuple[YamlDocument, Tuning]:
    document = load_yaml(_find(tuning))
    profile = document.to(Tuning)
    engines = registry.engine_names()
    for engine in profile.engines or ():
        if engine not in engines:
            where = document.at(("engines", engine))
            raise unknown(where, f"unknown engine {engine!r}", engine, engines)
    return document, profile


def _settings(
    document: YamlDocument, profile: Tuning, engine: str, variables: Mapping[str, float]
) -> dict[str, str]:
    """The settings that this file has for the engine."""
    values = (profile.engines or {}).get(engine) or {}
    finite = {name: value for name, value in variables.items() if not math.isnan(value)}
    units = _units(engine)
    return {
        key: _render(value, units.get(key), finite, document.at(("engines", engine, key)))
        for key, value in values.items()
    }


def _find(tuning: str | Path) -> Path:
    path = Path(tuning)
    if path.suffix in (".yml", ".yaml"):
        return path
    named = TUNING / f"{tuning}.yml"
    if named.exists():
        return named
    name, hint = str(tuning), "known: {}; or name a file that ends in .yml"
    raise unknown(f"tuning profile {name!r}", "no such profile", name, tunings(), hint)


def _units(engine: str) -> Mapping[str, str]:
    path = registry.engine_files("settings.yml").get(engine)
    if path is None:
        return {}
    document = load_yaml(path)
    units: Mapping[str, str] = document.value.get("units", {})
    for key, unit in units.items():
        if unit not in _UNIT_BYTES:
            raise UsageError(
                document.at(("units", key)),
                f"unknown unit {unit!r}",
                f"known: {', '.join(_UNIT_BYTES)}",
            )
    return units


def _render(value: Any, unit: str | None, variables: Mapping[str, float], source: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if not is_expression(value):
        return str(value)
    number = evaluate(value, variables, source)
    if unit is not None:
        return f"{int(number // _UNIT_BYTES[unit])}{unit}"
    return str(int(number)) if float(number).is_integer() else repr(round(float(number), 6))
