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

A value that begins with ``=`` is arithmetic (harness.expression) over

- ``memory``: bytes: the run's memory cap if it has one, else the host's memory,
- ``cores``: the run's threads,
- ``scale``: the workload's scale; not there for workloads without one.

Which settings take a size, and in which form, the engine's folder says in
``setting_units.yml``; everything else is rendered as a plain number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness.engines
from harness.errors import UsageError, nearest
from harness.expression import evaluate, is_expression
from harness.units import GIB, KIB, MIB
from harness.yamlfile import Document, load_yaml

TUNING = Path(__file__).parent / "profiles" / "tuning"
_KEYS = ("schema", "name", "description", "engines")
_UNIT_BYTES = {"B": 1, "kB": KIB, "KiB": KIB, "MB": MIB, "MiB": MIB, "GiB": GIB}


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
    document = load_yaml(_find(tuning))
    _check(document)
    values: Mapping[str, Any] = (document.value["engines"] or {}).get(engine) or {}
    known = {name: value for name, value in variables.items() if not math.isnan(value)}
    units = _units(engine)
    rendered = {
        key: _render(value, units.get(key), known, document.at(("engines", engine, key)))
        for key, value in values.items()
    }
    return rendered | dict(overrides or {})


def _find(tuning: str | Path) -> Path:
    path = Path(tuning)
    if path.suffix in (".yml", ".yaml"):
        return path
    named = TUNING / f"{tuning}.yml"
    if named.exists():
        return named
    names = tunings()
    raise UsageError(
        f"tuning profile {str(tuning)!r}",
        f"no such profile{nearest(str(tuning), names)}",
        f"known: {', '.join(names)}; or name a file that ends in .yml",
    )


def _check(document: Document) -> None:
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("engines", {}), dict | None):
        raise UsageError(document.at(()), "not a tuning profile", "see profiles/tuning/")
    for key in value:
        if key not in _KEYS:
            raise UsageError(
                document.at((key,)),
                f"unknown key {key!r}{nearest(str(key), _KEYS)}",
                f"known: {', '.join(_KEYS)}",
            )
    for key in ("schema", "engines"):
        if key not in value:
            raise UsageError(document.at(()), f"the key {key!r} is missing", "add it")
    if value["schema"] != 1:
        raise UsageError(
            document.at(("schema",)), f"schema {value['schema']!r}", "this harness reads schema 1"
        )
    _check_engines(document)


def _check_engines(document: Document) -> None:
    from harness.registry import engines

    known = sorted(engines())
    for engine, settings in (document.value["engines"] or {}).items():
        if engine not in known:
            raise UsageError(
                document.at(("engines", engine)),
                f"unknown engine {engine!r}{nearest(str(engine), known)}",
                f"known: {', '.join(known)}",
            )
        if not isinstance(settings, dict | None):
            raise UsageError(
                document.at(("engines", engine)), "not a mapping of settings", "write name: value"
            )
        for key, value in (settings or {}).items():
            if not isinstance(value, str | int | float | bool):
                raise UsageError(
                    document.at(("engines", engine, key)),
                    f"{value!r} is not a setting's value",
                    "write a text, a number, or an expression that begins with =",
                )


def _units(engine: str) -> Mapping[str, str]:
    for root in harness.engines.__path__:
        path = Path(root) / engine / "setting_units.yml"
        if path.exists():
            document = load_yaml(path)
            _check_units(document)
            units: Mapping[str, str] = document.value["units"]
            return units
    return {}


def _check_units(document: Document) -> None:
    for key, unit in document.value["units"].items():
        if unit not in _UNIT_BYTES:
            raise UsageError(
                document.at(("units", key)), f"unknown unit {unit!r}",
                f"known: {', '.join(_UNIT_BYTES)}",
            )  # fmt: skip


def _render(value: Any, unit: str | None, variables: Mapping[str, float], source: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if not is_expression(value):
        return str(value)
    number = evaluate(value, variables, source)
    if unit is not None:
        return f"{int(number // _UNIT_BYTES[unit])}{unit}"
    return str(int(number)) if float(number).is_integer() else repr(round(float(number), 6))
