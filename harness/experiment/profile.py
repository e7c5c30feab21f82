"""Profiles: an experiment as axes over run parameters, expanded to run specs.

``expand`` is a pure function: the same profile gives the same specs in the same order with the
same hashes. The runs are the cross product of the axes (as the file orders them, the last
fastest), repeated in blocks. A block holds every run once, so block k of one placement is measured
next to block k of the other: these are the pairs that the statistics compare. Every second block
runs in reverse, so that a drift of the machine affects both sides.

Keys that belong together (a placement and the host mode it needs) form one axis,
``configuration``, whose entries set several keys each.
"""

from __future__ import annotations

import copy
import csv
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from harness import registry
from harness.errors import UsageError, unknown
from harness.experiment.placement import Placement, parse_placement
from harness.experiment.profile_document import Profile
from harness.experiment.profile_overrides import changed, resized, with_drivers, with_params
from harness.experiment.server_environment import parse_environment
from harness.host.listen_address import parse_listen
from harness.host.processors import parse_cpus
from harness.iotrace.page import parse_plant
from harness.models.tier import requested_model
from harness.paths import data_folder
from harness.store.documents import as_json
from harness.store.result import ClosedLoop, Experiment, LatencyTarget
from harness.store.spec import JsonObject, RunSpec, content_hash
from harness.structs import Where
from harness.units import MIB, parse_size
from harness.warnings import RunWarning, warn
from harness.workloads.parameters import ParameterError, Parameters
from harness.yamlfile import YamlDocument, evaluate, is_expression, load_yaml

#: A key of a point: ``("engine",)`` or ``("params", "scale")``.
_Key = tuple[str, ...]
#: How many keys lead to a value, where it is not one.
_DEPTHS = {"params": 2, "settings": 2, "env": 2, "engine_options": 3}

#: A paper's own numbers, next to its profiles.
PUBLISHED = "published.csv"
#: Folders of profiles/ that hold other things: hosts, settings, prices, microbenchmarks.
_NO_PROFILES = ("hosts", "tuning", "prices", "micro", "fidelity", "devices")
_FOLDER = data_folder("profiles")


#: No engine starts with less.
LEAST_MEMORY = 128 * MIB
#: Of the search for the smallest size of a profile.
_MOST_SIZE, _HALVINGS = 1e6, 12


@dataclass(frozen=True)
class Plan:
    """An expanded profile. ``hash`` covers all of its specs.

    ``emulate``: tiers that a tmpfs emulates, as requested (``pmem``, ``pmem=/path``); the specs
    hold the names only. Also modelled ones (``pmem=model:zero``). ``several_commands``: whether
    plans of other commands under the same name belong to the same experiment. ``looks``: how
    often at most results decide whether there are more repeats (harness.experiment.sequential).
    ``capacity``: what the rates follow from (harness.experiment.selection). ``target``: the
    latency that the load is searched for; results then add runs, and ``part_of`` is the hash of
    the plan that these belong to.
    """

    name: str
    description: str
    runs: tuple[RunSpec, ...]
    emulate: tuple[str, ...] = ()
    #: The paper's own figures next to the profile, if any, and those that it repeats (empty:
    #: all).
    published: Path | None = None
    figures: tuple[str, ...] = ()
    document: YamlDocument | None = field(default=None, repr=False, compare=False)
    several_commands: bool = False
    looks: int = 1
    capacity: ClosedLoop | None = None
    target: LatencyTarget | None = None
    part_of: str = ""

    @property
    def experiment(self) -> Experiment:
        """The entry ``experiment`` of each run's run.json."""
        return Experiment(
            self.name,
            self.hash,
            self.several_commands,
            max(1, self.looks),
            self.capacity,
            self.target,
        )

    @property
    def hash(self) -> str:
        """Content hash over the specs, in any order, and over the target."""
        target = [as_json(self.target)] if self.target else []
        return self.part_of or content_hash([*sorted(s.hash() for s in self.runs), *target])

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Add the line of the file to a UsageError that quotes a name or value of it.

        For checks that need the host and the engines: settings, tiers, options.
        """
        try:
            yield
        except UsageError as error:
            if self.document is None:
                raise
            where = _quoted(self.document, error)
            with nullcontext() if where is None else _blaming(self.document, where):
                if (smallest := _smallest_size(self.document)) is None:
                    raise
                raise _with_smallest_size(error, smallest) from error


def known_profiles() -> dict[str, Path]:
    """The installed profiles, by name (``demo``, ``papers/…``)."""
    return {
        str(path.relative_to(_FOLDER).with_suffix("")): path
        for path in sorted(_FOLDER.rglob("*.yml"))
        if path.relative_to(_FOLDER).parts[0] not in _NO_PROFILES
    }


def find_profile(name: str) -> Path:
    """A profile's file from its path, or its name under ``profiles/`` (``demo``, ``papers/…``)."""
    given = Path(name)
    if given.suffix in (".yml", ".yaml") or given.is_file():
        return given
    profiles = known_profiles()
    if name in profiles:
        return profiles[name]
    hint = "installed profiles: {}; or name a .yml file"
    raise unknown(f"profile {name!r}", "no such file and no such profile", name, profiles, hint)


def published_of(experiment: str) -> tuple[Path | None, tuple[str, ...]]:
    """The paper's numbers that an installed profile repeats: file and figures.

    None and an empty tuple for other experiments.
    """
    for path in known_profiles().values():
        try:
            profile = load_yaml(path).to(Profile)
        except UsageError as error:
            warn(RunWarning("profile-unreadable", "a profile is left out", str(error), error.hint))
            continue
        if profile.name == experiment and profile.published is not UNSET:
            return path.with_name(PUBLISHED), profile.published
    return None, ()


def load_profile(
    path: Path,
    emulate: tuple[str, ...] = (),
    size: float | None = None,
    params: JsonObject | None = None,
    repeats: int | None = None,
    monitors: Sequence[str] = (),
    drivers: Sequence[str] = (),
) -> Plan:
    """Read, validate and expand a profile file.

    ``emulate`` and ``monitors`` add to the profile's own; ``size``, ``params`` and ``repeats``
    override them, and ``drivers`` a fixed driver.
    """
    document = load_yaml(path)
    document.to(Profile)
    if size is not None:
        document = resized(document, size)
    if params:
        document = with_params(document, params)
    if drivers:
        document = with_drivers(document, drivers)
    if repeats is not None:
        document = replace(document, value={**document.value, "repeats": repeats})
    if monitors:
        fixed = document.value.get("fixed", {})
        added = list(dict.fromkeys((*fixed.get("monitors", ()), *monitors)))
        fixed = {**fixed, "monitors": added}
        document = changed(document, {**document.value, "fixed": fixed})
    published = path.with_name(PUBLISHED)
    try:
        return expand(document, published if published.exists() else None, emulate)
    except UsageError as error:
        if (smallest := _smallest_size(document)) is None:
            raise
        raise _with_smallest_size(error, smallest) from error


def _with_smallest_size(error: UsageError, smallest: float) -> UsageError:
    context = f"{error.context}; the smallest --size is {smallest:g}"
    return UsageError(error.problem, context, error.hint)


# Each run of a profile may be refused; the search expands the profile up to twenty times.
@lru_cache(maxsize=1)
def _smallest_size(document: YamlDocument) -> float | None:
    """The smallest size that fits; None where the profile's does, or none can be found."""
    size = document.value.get("size")
    if size is None or _fits(document):
        return None
    refused, fitting = float(size), float(size)
    while not _fits(resized(document, fitting)):
        refused, fitting = fitting, fitting * 2
        if fitting > _MOST_SIZE:
            return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(refused * fitting)
        refused, fitting = (
            (refused, middle) if _fits(resized(document, middle)) else (middle, fitting)
        )
    step = 10.0 ** (math.floor(math.log10(fitting)) - 1)
    rounded = (float(f"{count * step:.2g}") for count in (fitting // step, fitting // step + 1))
    return next((factor for factor in rounded if _fits(resized(document, factor))), fitting)


def _fits(document: YamlDocument) -> bool:
    """Return whether the data and memory sizes that follow from the profile's size are accepted."""
    try:
        once = {**document.value, "repeats": 1, "published": ()}
        runs = expand(replace(document, value=once)).runs
    except UsageError:
        return False
    limits = (spec.memory_limit_bytes for spec in runs)
    return all(limit is None or limit >= LEAST_MEMORY for limit in limits)


def expand(
    document: YamlDocument, published: Path | None = None, emulate: tuple[str, ...] = ()
) -> Plan:
    """The plan of a profile (see the module); UsageError names file and line."""
    profile: Mapping[str, Any] = document.value
    fixed: Mapping[str, Any] = profile.get("fixed", {})
    with _blaming(document, ("workload",)):
        parameters = registry.parameters(profile["workload"])
    _refuse_twice(document, profile["axes"], fixed)
    _check_engine_options(document, profile)
    requests = {_tier(request): request for request in (*fixed.get("emulate", ()), *emulate)}
    models = dict(filter(None, map(requested_model, requests.values())))
    specs = [
        msgspec.structs.replace(
            _spec(document, _point(document, profile, choice), parameters),
            emulate=tuple(tier for tier in requests if tier not in models),
            models=tuple(f"{tier}={model}" for tier, model in models.items()),
        )
        for choice in _choices(profile["axes"])
    ]
    specs = [*{spec.hash(): spec for spec in specs}.values()]  # 1024MiB and 1GiB are one value
    runs = tuple(
        msgspec.structs.replace(spec, block=block)
        for block in range(int(profile.get("repeats", 1)))
        for spec in (specs if block % 2 == 0 else specs[::-1])
    )
    requested = tuple(requests.values())
    figures = _figures(document, published)
    name, description = profile["name"], profile["description"]
    return Plan(name, description, runs, requested, published, figures, document)


def _figures(document: YamlDocument, published: Path | None) -> tuple[str, ...]:
    """The figures that a profile says it repeats, each of which must be in the file."""
    named = tuple(document.value.get("published", ()))
    if not named:
        return ()
    if published is None:
        raise UsageError(
            document.at(("published",)),
            "there is no published.csv next to the profile",
            "copy it along with the profile, or remove the line `published:`",
        )
    with published.open(newline="", encoding="utf-8") as stream:
        figures = list(dict.fromkeys(row.get("figure") or "" for row in csv.DictReader(stream)))
    for position, figure in enumerate(named):
        if figure not in figures:
            where = document.at(("published", position))
            context = f"no figure {figure!r} in {published.name}"
            raise unknown(where, context, figure, figures, "its figures: {}")
    return named


def _tier(request: str) -> str:
    """``pmem`` of ``pmem=/path``."""
    return request.partition("=")[0]


def _refuse_twice(
    document: YamlDocument, axes: Mapping[str, Any], fixed: Mapping[str, Any]
) -> None:
    seen: dict[_Key, Where] = {}
    for key, values in axes.items():
        if key == "configuration":
            continue
        for path, _ in _leaves((key,), values):
            seen[path] = ("axes", *path)
            if _is_in(fixed, path):
                raise UsageError(
                    document.at(("axes", *path)),
                    f"{path[-1]!r} is both an axis and fixed",
                    "keep one of them",
                )
    for position, entry in enumerate(axes.get("configuration", ())):
        for path, (_, where) in _configuration(position, entry).items():
            if path in seen or _is_in(fixed, path):
                raise UsageError(
                    document.at(where),
                    f"{path[-1]!r} is also {'an axis' if path in seen else 'fixed'}",
                    "keep one of them",
                )


def _is_in(fixed: Mapping[str, Any], path: _Key) -> bool:
    for key in path[:-1]:
        fixed = fixed.get(key, {})
    return path[-1] in fixed


def _leaves(path: _Key, value: Any) -> Iterator[tuple[_Key, Any]]:
    """A key with its value; of parameters, settings and engine options each one."""
    if len(path) < _DEPTHS.get(path[0], 1):
        for name, inner in value.items():
            yield from _leaves((*path, name), inner)
    else:
        yield path, value


def _check_engine_options(document: YamlDocument, profile: Mapping[str, Any]) -> None:
    fixed, axes = profile.get("fixed", {}), profile["axes"]
    together = [e["engine"] for e in axes.get("configuration", ()) if "engine" in e]
    engines = axes.get("engine") or together or [fixed.get("engine", "")]
    parts: dict[Where, Mapping[str, Any]] = {("fixed",): fixed, ("axes",): axes}
    for position, entry in enumerate(axes.get("configuration", ())):
        parts["axes", "configuration", position] = entry
    places = [
        (at, engine) for at, part in parts.items() for engine in part.get("engine_options", {})
    ]
    for at, engine in places:
        if engine not in engines:
            where = document.at((*at, "engine_options", engine))
            context = f"options of {engine!r}, which is no engine of this profile"
            raise unknown(where, context, engine, engines, "its engines: {}")


def _quoted(document: YamlDocument, error: UsageError) -> Where | None:
    """Place of the first key or value of ``axes`` or ``fixed`` that an error quotes."""
    context = error.context.partition("(did you mean")[0]
    for word in re.findall(r"""['"]([^'"]+)['"]""", f"{error.problem} {context}"):
        for where in document.lines:
            if where[:1] in (("axes",), ("fixed",)) and len(where) > 1:
                value = reduce(getitem, where, document.value)
                if word in (where[-1], value):
                    return where
    return None


def _choices(axes: Mapping[str, Any]) -> Iterator[dict[_Key, tuple[Any, Where]]]:
    """All combinations: value and place in the file by key."""
    axis: list[list[dict[_Key, tuple[Any, Where]]]] = []
    for key, given in axes.items():
        if key == "configuration":
            axis.append([_configuration(i, entry) for i, entry in enumerate(given)])
            continue
        for path, choices in _leaves((key,), given):
            axis.append([{path: (value, ("axes", *path, i))} for i, value in enumerate(choices)])
    for combination in itertools.product(*axis):
        yield dict(pair for choice in combination for pair in choice.items())


def _configuration(position: int, entry: Mapping[str, Any]) -> dict[_Key, tuple[Any, Where]]:
    """The keys that one entry of the axis sets together."""
    at: Where = ("axes", "configuration", position)
    leaves: dict[_Key, tuple[Any, Where]] = {}
    for key, value in entry.items():
        leaves |= {path: (inner, (*at, *path)) for path, inner in _leaves((key,), value)}
    return leaves


@dataclass(frozen=True)
class _RunValues:
    """One run's values, and the places of the axes' values in the file."""

    workload: str
    values: Mapping[str, Any]
    chosen: Mapping[_Key, Where]

    def where(self, *key: str) -> Where:
        """The place of a value, for errors."""
        return self.chosen.get(key, ("fixed", *key))


@contextmanager
def _blaming(document: YamlDocument, where: Where) -> Iterator[None]:
    """Add the line to a UsageError."""
    try:
        yield
    except UsageError as error:
        if not document.lines:  # not from a file
            raise
        problem = f"{document.at(where)}: {error.problem}"
        raise UsageError(problem, error.context, error.hint) from error


def _point(
    document: YamlDocument,
    profile: Mapping[str, Any],
    choice: Mapping[_Key, tuple[Any, Where]],
) -> _RunValues:
    """Fixed values and one choice of the axes, expressions of ``size`` evaluated."""
    values: dict[str, Any] = copy.deepcopy(dict(profile.get("fixed", {})))
    for path, (value, _) in choice.items():
        inner = values
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    chosen = {path: where for path, (_, where) in choice.items()}
    point = _RunValues(profile["workload"], values, chosen)
    variables = {"size": float(profile["size"])} if "size" in profile else {}

    def number(value: Any, where: Where) -> Any:
        if not is_expression(value):
            return value
        result = float(evaluate(value, variables, document.at(where)))
        return int(result) if result.is_integer() else result

    for name, value in values.get("params", {}).items():
        values["params"][name] = number(value, point.where("params", name))
    if is_expression(values.get("memory_limit")):
        values["memory_limit"] = int(number(values["memory_limit"], point.where("memory_limit")))
    return point


def _spec(document: YamlDocument, point: _RunValues, parameters: type[Parameters]) -> RunSpec:
    values = point.values
    engine = values.get("engine")
    if engine is None:
        raise UsageError(document.at(()), "no engine is given", "add it to axes or fixed")
    parsed: dict[str, Any] = {}
    for key, parse in _PARSED.items():
        if values.get(key) is not None:
            with _blaming(document, point.where(key)):
                parsed[key] = parse(values[key])
    params = _params(document, point, parameters)
    env = {}
    for name, value in values.get("env", {}).items():
        with _blaming(document, point.where("env", name)):
            env[name] = parse_environment(name, value)
    return RunSpec(
        workload=point.workload,
        engine=engine,
        placement=parsed.get("placement"),
        params=params.to_json(),
        tuning=values.get("tuning", "computed"),
        settings={key: _text(value) for key, value in values.get("settings", {}).items()},
        engine_options=values.get("engine_options", {}).get(engine, {}),
        threads=values.get("threads"),
        memory_limit_bytes=parsed.get("memory_limit"),
        required_host_mode=values.get("host_mode"),
        required_dimms=values.get("dimms", {}),
        label=values.get("label"),
        seed=int(values.get("seed", 0)),
        driver=values.get("driver") or next(iter(parameters.drivers)),
        monitors=tuple(values.get("monitors", ())),
        no_monitors=tuple(values.get("no_monitors", ())),
        cpus=parsed.get("cpus"),
        memory=_memory(document, values.get("memory"), parsed.get("placement")),
        listen=parsed.get("listen"),
        plant=parsed.get("plant", ()),
        observe=tuple(values.get("observe", ())),
        env=env,
    )


def _memory(document: YamlDocument, nodes: str | None, placement: Placement | None) -> str | None:
    """The nodes of a profile's memory; UsageError next to a placement with memory of its own."""
    if nodes is not None and placement is not None and placement.memory is not None:
        raise UsageError(
            f"{document.at(('fixed', 'memory'))}: memory {nodes}",
            f"the placement {placement.name!r} has memory of its own",
            "leave one of them out",
        )
    return nodes


def parse_memory_limit(text: str | int) -> int:
    """Bytes of a memory limit; UsageError for a small number whose unit is missing."""
    size_bytes = parse_size(text)
    if 0 < size_bytes < MIB and str(text).strip().isdigit():
        context = f"{size_bytes} bytes: the unit is missing"
        raise UsageError(f"memory limit {text}", context, f"did you mean {text}GiB?")
    return size_bytes


#: Values with a grammar of their own.
_PARSED: Mapping[str, Callable[[Any], Any]] = {
    "placement": parse_placement,
    "memory_limit": parse_memory_limit,
    "cpus": parse_cpus,
    "listen": lambda address: str(parse_listen(str(address))),
    "plant": lambda texts: tuple(str(parse_plant(text)) for text in texts),
}


def _params(document: YamlDocument, point: _RunValues, parameters: type[Parameters]) -> Parameters:
    """The workload's parameters, checked; an error names the line of the wrong one."""
    where: Where = ("fixed", "params")
    try:
        return parameters.from_mapping(point.values.get("params", {}))
    except UsageError as error:
        if isinstance(error, ParameterError):
            where = point.where("params", error.parameter)
        with _blaming(document, where):
            raise


def _text(value: Any) -> str:
    """A setting as the engine's configuration writes it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
