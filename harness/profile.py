"""Profiles: an experiment as axes over run parameters, expanded to run specs.

``expand`` is a pure function: the same profile gives the same specs in the same
order with the same hashes. The runs are the cross product of the axes (as the file
orders them, the last fastest), repeated in blocks. Within a block every run stands
once, so block k of one placement is measured next to block k of the other: these are
the pairs the statistics compare. Every second block runs in reverse, so that a drift
of the machine falls on both sides.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, nearest
from harness.expression import evaluate, is_expression
from harness.placement import parse_placement
from harness.spec import RunSpec, content_hash
from harness.units import parse_size
from harness.yamlfile import Document, load_yaml

#: Checks a workload's parameters and fills in defaults (pure).
Normalise = Callable[[str, Mapping[str, Any]], dict[str, Any]]

_FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class Plan:
    """An expanded profile. ``hash`` covers all of its specs."""

    name: str
    description: str
    runs: tuple[RunSpec, ...]
    #: The paper's own figures beside the profile, where it has them.
    published: Path | None = None

    @property
    def hash(self) -> str:
        """Content hash over the specs, in any order."""
        return content_hash(sorted(spec.hash() for spec in self.runs))


def known_profiles() -> dict[str, Path]:
    """The profiles that come along, by name (``demo``, ``papers/…``)."""
    return {
        str(path.relative_to(_FOLDER).with_suffix("")): path
        for path in sorted(_FOLDER.rglob("*.yml"))
        if path.parent.name not in ("hosts", "tuning", "prices")
    }


def find_profile(name: str) -> Path:
    """A profile's file from its path, or its name under ``profiles/`` (``demo``, ``papers/…``)."""
    given = Path(name)
    if given.suffix in (".yml", ".yaml") or given.is_file():
        return given
    known = known_profiles()
    if name in known:
        return known[name]
    raise UsageError(
        f"profile {name!r}",
        f"no such file and no such profile{nearest(name, list(known))}",
        f"profiles that come along: {', '.join(known) or 'none'}; or name a .yml file",
    )


def load_profile(path: Path, normalise: Normalise, emulate: tuple[str, ...] = ()) -> Plan:
    """Read, validate and expand a profile file; ``emulate`` adds to the profile's own."""
    document = load_yaml(path, "profile")
    published = path.with_name("published.csv")
    return expand(document, normalise, published if published.exists() else None, emulate)


def expand(
    document: Document,
    normalise: Normalise,
    published: Path | None = None,
    emulate: tuple[str, ...] = (),
) -> Plan:
    """The plan of a profile (see the module); UsageError names file and line."""
    profile: Mapping[str, Any] = document.value
    fixed: Mapping[str, Any] = profile.get("fixed", {})
    _refuse_twice(document, profile["axes"], fixed)
    points = [_point(document, profile, choice) for choice in _choices(profile["axes"])]
    for point in points:
        point["emulate"] = list(dict.fromkeys([*point.get("emulate", []), *emulate]))
    blocks = range(int(profile.get("repeats", 1)))
    runs = [
        _spec(document, profile, point, block, normalise)
        for block in blocks
        for point in _ordered(points, block, profile.get("order", "interleaved"), fixed)
    ]
    return Plan(profile["name"], profile["description"], tuple(runs), published)


def _refuse_twice(document: Document, axes: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for key, values in axes.items():
        nested = isinstance(values, Mapping)
        for name in values if nested else [key]:
            if name in (fixed.get(key, {}) if nested else fixed):
                where = ("axes", key, name) if nested else ("axes", key)
                raise UsageError(
                    document.at(where), f"{name!r} is both an axis and fixed", "keep one of them"
                )


def _choices(axes: Mapping[str, Any]) -> Iterator[dict[tuple[str, ...], Any]]:
    """Every combination: keys are ("engine",) or ("params", "scale")."""
    names: list[tuple[str, ...]] = []
    values: list[list[Any]] = []
    for key, given in axes.items():
        for name, choices in given.items() if isinstance(given, Mapping) else [(None, given)]:
            names.append((key,) if name is None else (key, name))
            values.append(list(choices))
    for combination in itertools.product(*values):
        yield dict(zip(names, combination, strict=True))


def _point(
    document: Document, profile: Mapping[str, Any], choice: Mapping[tuple[str, ...], Any]
) -> dict[str, Any]:
    """Fixed values and one choice of the axes, expressions of ``size`` evaluated."""
    point: dict[str, Any] = {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in profile.get("fixed", {}).items()
    }
    for path, value in choice.items():
        if len(path) == 1:
            point[path[0]] = value
        else:
            point.setdefault(path[0], {})[path[1]] = value
    variables = {"size": float(profile["size"])} if "size" in profile else {}

    def number(value: Any, where: tuple[str, ...]) -> Any:
        if not is_expression(value):
            return value
        result = evaluate(value, variables, document.at(where))
        return int(result) if float(result).is_integer() else result

    for name, value in point.get("params", {}).items():
        point["params"][name] = number(value, ("fixed", "params", name))
    if is_expression(point.get("memory_limit")):
        point["memory_limit"] = int(number(point["memory_limit"], ("fixed", "memory_limit")))
    return point


def _ordered(
    points: list[dict[str, Any]], block: int, order: str, fixed: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if order == "shuffled":
        shuffled = list(points)
        random.Random(f"{fixed.get('seed', 0)}/{block}").shuffle(shuffled)
        return shuffled
    return points if block % 2 == 0 else points[::-1]


def _spec(
    document: Document,
    profile: Mapping[str, Any],
    point: Mapping[str, Any],
    block: int,
    normalise: Normalise,
) -> RunSpec:
    engine = point.get("engine")
    if engine is None:
        raise UsageError(document.at(()), "no engine is named", "add it to axes or fixed")
    workload = profile["workload"]
    placement = point.get("placement")
    limit = point.get("memory_limit")
    return RunSpec(
        workload=workload,
        engine=engine,
        placement=parse_placement(placement) if placement is not None else None,
        params=normalise(workload, point.get("params", {})),
        tuning=point.get("tuning", "computed"),
        settings={key: _text(value) for key, value in point.get("settings", {}).items()},
        engine_options=point.get("engine_options", {}).get(engine, {}),
        threads=point.get("threads"),
        memory_limit_bytes=parse_size(limit) if limit is not None else None,
        emulate=tuple(point.get("emulate", ())),
        required_host_mode=point.get("host_mode"),
        label=point.get("label"),
        seed=int(point.get("seed", 0)),
        block=block,
        driver=point.get("driver", "native"),
        monitors=tuple(point.get("monitors", ("process",))),
    )


def _text(value: Any) -> str:
    """A setting as the engine's configuration writes it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
