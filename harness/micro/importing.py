"""A suite of ours from a workload file of PerMA-Bench or CXL-Bench.

A benchmark becomes one measurement where our keys are a cross product, too, and several where they
are not: an instruction there may be another kernel here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import yaml

from harness.errors import UsageError
from harness.micro.keys import KEYS
from harness.micro.perma import WARM_UP_NS, Configuration, job_of, parse_perma
from harness.micro.suite_document import SuiteDocument
from harness.structs import convert
from harness.units import GIB, KIB, MIB
from harness.yamlfile import YamlDocument

_SIZES = tuple(name for name, key in KEYS.items() if key.values == "size")
#: Keys by whose values a benchmark is divided first.
_DIVIDING = ("kind", "kernel", "atomic", "phase", "mode", "cpus")

_Keys = dict[str, Any]
#: The jobs of a configuration by name, each with its keys; ``duration`` is that of all.
_Point = dict[str, _Keys]


@dataclass(frozen=True)
class ImportedSuite:
    """A suite as YAML. ``configurations``: of the file it came from; ``device``: its raw device."""

    text: str
    configurations: int
    measurements: int
    device: str = ""


def import_suite(document: YamlDocument, name: str) -> ImportedSuite:
    """Return a file as a suite of ours; UsageError with line and key for what ours do not do."""
    configurations = parse_perma(document)
    for configuration in configurations:
        for part, config in zip(configuration.parts, configuration.configs, strict=True):
            job_of(part, config, configuration.origin)
    devices = _of_configs(configurations, "device_path", "")
    repeats = _of_configs(configurations, "replications", 1)
    for what, values in (("device_path", devices), ("replications", repeats)):
        if len(values) > 1:
            raise UsageError(
                document.at(()),
                f"{what} {', '.join(map(str, values))}",
                "a suite has one: divide the file",
            )
    measurements = dict(_measurements(configurations))
    (repeated,), (device,) = repeats or (1,), devices or ("",)
    content = {
        "schema": 1,
        "name": re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "imported",
        "description": f"Imported from {document.path.rpartition('/')[2]}",
        **({"repeats": repeated} if repeated > 1 else {}),
        "defaults": {"warm_up": f"{WARM_UP_NS // 10**6}ms"},
        "measurements": measurements,
    }
    convert(content, SuiteDocument, document.path)
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return ImportedSuite(text, len(configurations) * repeated, len(measurements), device)


def _of_configs(configurations: Sequence[Configuration], key: str, default: Any) -> list[Any]:
    every = [config for each in configurations for config in each.configs]
    return list(dict.fromkeys(getattr(config, key, default) for config in every))


class _Dumper(yaml.SafeDumper):
    """Writes lists, and mappings without others in them, on one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        return super().represent_sequence(tag, sequence, flow_style=True)

    def ignore_aliases(self, data: Any) -> bool:
        return True


# Measurements ------------------------------------------------------------------


def _measurements(configurations: Sequence[Configuration]) -> Iterator[tuple[str, _Keys]]:
    """Yield the measurements of each benchmark with their names, which are unique."""
    points: dict[str, list[_Point]] = {}
    for each in configurations:
        name = _identifier(each.name)
        run_time = max(config.run_time for config in each.configs)
        rated = {
            part: config.suite_keys() for part, config in zip(each.parts, each.configs, strict=True)
        }
        points.setdefault(name, []).append(_timed_alike(rated, run_time))
        if timed := each.timed():
            points.setdefault(f"{name}_dependent", []).append(_timed_alike(dict(timed), 0))
    for name, of_benchmark in points.items():
        for suffix, group in _divided(of_benchmark):
            yield name + suffix, _body(group)


def _timed_alike(jobs: Mapping[str, _Keys], run_time: int) -> _Point:
    duration = {"duration": f"{run_time}s"} if run_time else {}
    return {_identifier(name): {**_written(keys), **duration} for name, keys in jobs.items()}


def _identifier(name: str) -> str:
    words = re.sub("[^a-z0-9_]+", "_", name.lower()).strip("_") or "benchmark"
    return words if words[0].isalpha() else f"b_{words}"


def _written(keys: Mapping[str, Any]) -> _Keys:
    return {key: _size(value) if key in _SIZES else value for key, value in keys.items()}


def _size(size_bytes: int) -> int | str:
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes and size_bytes % size == 0:
            return f"{size_bytes // size}{unit}"
    return size_bytes


def _divided(points: list[_Point]) -> Iterator[tuple[str, list[_Point]]]:
    """Yield the points in groups that are cross products, each with what distinguishes it."""
    key = _dividing_key(points)
    if key is None:
        yield "", points
        return
    groups: dict[str, list[_Point]] = {}
    for point in points:
        value = point[key[0]].get(key[1])
        groups.setdefault(f"_{_identifier(f'{key[1]}_{value}')}", []).append(point)
    for suffix, group in groups.items():
        for more, part in _divided(group):
            yield suffix + more, part


def _dividing_key(points: list[_Point]) -> tuple[str, str] | None:
    """Return job and key to divide by; None where the points are a cross product as they are."""
    varying = _varying(points)
    durations = {job for job, key in varying if key == "duration"}
    count = prod(len(values) for values in varying.values())
    missing = [at for at, values in varying.items() if None in values]
    whole = count == len(points) and not missing and (len(points[0]) == 1 or not durations)
    if whole:
        return None
    candidates = missing or list(varying)
    first = [at for at in candidates if at[1] in (*_DIVIDING, "duration")]
    return (first or candidates)[0]


def _varying(points: list[_Point]) -> dict[tuple[str, str], list[Any]]:
    """Return the keys that are not the same everywhere, with their values; None: missing."""
    keys = {(job, key): None for point in points for job, keys in point.items() for key in keys}
    values = {at: [point[at[0]].get(at[1]) for point in points] for at in keys}
    return {
        at: list(dict.fromkeys(each)) for at, each in values.items() if len(dict.fromkeys(each)) > 1
    }


def _body(points: list[_Point]) -> _Keys:
    """Return a measurement of points that are a cross product."""
    varying = _varying(points)
    bodies = {}
    for job, keys in points[0].items():
        matrix = {key: values for (of, key), values in varying.items() if of == job}
        args = {key: value for key, value in keys.items() if key not in matrix}
        bodies[job] = {**({"matrix": matrix} if matrix else {}), "args": args}
    if len(bodies) == 1:
        return next(iter(bodies.values()))
    times = {body["args"].pop("duration") for body in bodies.values() if "duration" in body["args"]}
    return {**({"args": {"duration": times.pop()}} if times else {}), "jobs": bodies}
