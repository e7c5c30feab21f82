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

- ``memory``: bytes: the run's memory cap if it has one, else the host's memory,
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
from typing import Any

from harness import registry
from harness.errors import UsageError, unknown
from harness.paths import data_folder
from harness.units import GIB, KIB, MIB
from harness.yamlfile import Document, evaluate, is_expression, load_yaml

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
    document = _read(tuning)
    based: dict[str, str] = {}
    if "base" in document.value:
        variables = {**variables, **_memory(document, variables)}
        based = _own(_base(document), engine, variables)
    return based | _own(document, engine, variables) | dict(overrides or {})


def _read(tuning: str | Path) -> Document:
    document = load_yaml(_find(tuning), "tuning")
    known = registry.engine_names()
    for engine in document.value.get("engines") or ():
        if engine not in known:
            where = document.at(("engines", engine))
            raise unknown(where, f"unknown engine {engine!r}", engine, known)
    return document


def _base(document: Document) -> Document:
    base = _read(str(document.value["base"]))
    if "base" in base.value:
        raise UsageError(
            document.at(("base",)), f"{document.value['base']!r} has a base itself", "name that one"
        )
    return base


def _memory(document: Document, variables: Mapping[str, float]) -> dict[str, float]:
    """What the profile computes from instead of the run's memory, in bytes."""
    if "memory" not in document.value:
        return {}
    where = document.at(("memory",))
    return {"memory": float(evaluate(document.value["memory"], variables, where))}


def _own(document: Document, engine: str, variables: Mapping[str, float]) -> dict[str, str]:
    """The settings that this file has for the engine."""
    values: Mapping[str, Any] = (document.value.get("engines") or {}).get(engine) or {}
    known = {name: value for name, value in variables.items() if not math.isnan(value)}
    units = _units(engine)
    return {
        key: _render(value, units.get(key), known, document.at(("engines", engine, key)))
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
