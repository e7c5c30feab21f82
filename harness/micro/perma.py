"""Workload files of PerMA-Bench and CXL-Bench, read as they are and turned into measurements.

::

    NAME: {matrix: {key: [value, …], …}, args: {key: value, …}}
    NAME: {parallel_benchmark: {A: {matrix, args}, B: {matrix, args}}}

As their documentation and their parsers have them (PVLDB 15(11), §3.2; PVLDB 18(9)), with their own
words for values. The cross product is in the file's order, the last key fastest; of parallel
benchmarks that of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from harness.errors import UsageError, unknown
from harness.micro.cxlbench_config import CXL_BENCH
from harness.micro.dialect import BenchmarkConfig, Dialect
from harness.micro.keys import built_job, read_key
from harness.micro.model import Axis, Job, Measurement
from harness.micro.perma_config import PERMA_BENCH, PermaConfig
from harness.structs import Where
from harness.units import NS_PER_S
from harness.yamlfile import YamlDocument

#: Before anything counts: the programs have no warm-up of their own.
WARM_UP_NS = 200_000_000


@dataclass(frozen=True)
class Configuration:
    """One of a benchmark's configurations: of a parallel one that of both its parts.

    ``name``: the benchmark's; ``parts``: their names, or that of the benchmark alone. ``axes``: the
    swept keys and their texts, in the order of the file.
    """

    name: str
    parts: tuple[str, ...]
    configs: tuple[BenchmarkConfig, ...]
    axes: tuple[Axis, ...]
    origin: str

    def timed(self) -> list[tuple[str, dict[str, Any]]] | None:
        """Return the parts' names and keys where chains are timed one by one; None: none is."""
        timed = [config.timed_keys() for config in self.configs]
        if all(keys is None for keys in timed):
            return None
        return [
            (name, {**config.suite_keys(), **(keys or {})})
            for name, config, keys in zip(self.parts, self.configs, timed, strict=True)
        ]


def is_perma(value: Any) -> bool:
    """Return whether a parsed file is one of these programs': ours says which schema it has."""
    return isinstance(value, dict) and "schema" not in value


def parse_perma(document: YamlDocument) -> list[Configuration]:
    """Return the configurations of a file in its order; UsageError has file and line."""
    if not isinstance(document.value, dict) or not document.value:
        raise UsageError(document.at(()), "no benchmark in it", "write NAME: {args: {…}}")
    dialect = dialect_of(document)
    return [
        configuration
        for name in document.value
        for configuration in _benchmark(document, name, dialect)
    ]


def dialect_of(document: YamlDocument) -> Dialect:
    """Return CXL-Bench's dialect for a file with a key that only this has, else PerMA-Bench's."""
    keys = {
        str(key)
        for where in _bodies(document.value)
        for part in ("args", "matrix")
        for key in _mapping(document.value, (*where, part))
    }
    perma = {*PERMA_BENCH.defaults, *PERMA_BENCH.other_names}
    of_cxl_bench = keys & {*CXL_BENCH.defaults, *CXL_BENCH.other_names} - perma
    return CXL_BENCH if of_cxl_bench else PERMA_BENCH


def _bodies(benchmarks: Mapping[str, Any]) -> Iterator[Where]:
    """Yield the place of each ``{matrix, args}`` of a file."""
    for name in benchmarks:
        parts = _mapping(benchmarks, (name, "parallel_benchmark"))
        yield from ((name, "parallel_benchmark", part) for part in parts)
        if not parts:
            yield (name,)


def _mapping(value: Any, where: Where) -> Mapping[Any, Any]:
    """Return the mapping at a place of a document; an empty one where there is none."""
    for key in where:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _benchmark(document: YamlDocument, name: Any, dialect: Dialect) -> Iterator[Configuration]:
    body = document.value[name]
    if not isinstance(body, dict):
        raise UsageError(document.at((name,)), f"{name!r} has no args", "write args: {…}")
    if "parallel_benchmark" not in body:
        for config, axes, at in _points(document, (name,), body, dialect):
            yield Configuration(str(name), (str(name),), (config,), axes, at)
        return
    parts = body["parallel_benchmark"]
    where: Where = (name, "parallel_benchmark")
    _check_keys(document, (name,), body, ("parallel_benchmark",))
    if not isinstance(parts, dict) or len(parts) != 2:
        problem = f"{len(parts)} parts" if isinstance(parts, dict) else "no parts"
        raise UsageError(document.at(where), problem, "a parallel benchmark has two")
    names = tuple(map(str, parts))
    swept = [_points(document, (*where, part), parts[part], dialect, str(part)) for part in parts]
    for (a, axes_a, at), (b, axes_b, _) in product(*swept):
        yield Configuration(str(name), names, (a, b), (*axes_a, *axes_b), at)


_Point = tuple[BenchmarkConfig, tuple[Axis, ...], str]


def _points(
    document: YamlDocument, where: Where, body: Any, dialect: Dialect, job: str = ""
) -> Iterator[_Point]:
    """Yield the configurations of ``{matrix, args}``."""
    if not isinstance(body, dict) or not isinstance(body.get("args"), dict):
        raise UsageError(document.at(where), "no args", "write args: {…}, with a matrix or alone")
    _check_keys(document, where, body, ("matrix", "args"))
    args = {
        dialect.name_of(str(key)): dialect.read_value(
            str(key), value, document.at((*where, "args", key))
        )
        for key, value in body["args"].items()
    }
    matrix = body.get("matrix", {})
    if not isinstance(matrix, dict):
        raise UsageError(document.at((*where, "matrix")), "not a mapping", "write key: [values]")
    swept = [
        list(_values(document, (*where, "matrix", key), matrix[key], dialect)) for key in matrix
    ]
    for chosen in product(*swept):
        values = {
            dialect.name_of(str(key)): value
            for key, (value, _, _) in zip(matrix, chosen, strict=True)
        }
        given = {**args, **values}
        if given.get("custom_operations"):
            given.setdefault("exec_mode", "custom")  # as in the paper's Listing 1
        config = dialect.config(**given)
        at = document.at(chosen[-1][2] if chosen else (*where, "args"))
        dialect.check(config, at)
        axes = tuple(
            Axis(job, str(k), text) for k, (_, text, _) in zip(matrix, chosen, strict=True)
        )
        yield config, axes, at


def _values(
    document: YamlDocument, where: Where, given: Any, dialect: Dialect
) -> Iterator[tuple[Any, str, Where]]:
    """Yield each value of a swept key, its text, and its place in the document."""
    key = str(where[-1])
    if not isinstance(given, list) or not given:
        raise UsageError(document.at(where), f"{key}: not a list", "write [a, b, c]")
    for position, value in enumerate(given):
        place = (*where, position)
        yield dialect.read_value(key, value, document.at(place)), str(value), place


def _check_keys(
    document: YamlDocument, where: Where, body: Mapping[str, Any], accepted: tuple[str, ...]
) -> None:
    for key in body:
        if key not in accepted:
            problem = f"unknown key {key!r}"
            raise unknown(document.at((*where, key)), problem, str(key), accepted, "known here: {}")


# Measurements ------------------------------------------------------------------


def measurements(configurations: Sequence[Configuration]) -> list[Measurement]:
    """Return the measurements; a chain with sampled latencies is measured twice.

    Independent chains overlap and give operations a second; in dependent ones each waits for
    the one before, which is what makes their time a latency. PerMA-Bench takes both from the
    same, overlapping chains.
    """
    return [
        measurement for configuration in configurations for measurement in _measured(configuration)
    ]


def _measured(configuration: Configuration) -> Iterator[Measurement]:
    configs = configuration.configs
    run_time = max(config.run_time for config in configs)
    parts = list(zip(configuration.parts, configs, strict=True))
    rated = Measurement(
        configuration.name,
        tuple(job_of(name, config, configuration.origin) for name, config in parts),
        configuration.axes,
        run_time * NS_PER_S if run_time else None,
        WARM_UP_NS,
        needed=True,
        source=configs if all(isinstance(config, PermaConfig) for config in configs) else (),
        origin=configuration.origin,
    )
    yield rated
    if (timed := configuration.timed()) is not None:
        jobs = tuple(_job(name, keys, configuration.origin) for name, keys in timed)
        axes = (
            *configuration.axes,
            Axis(configuration.axes[0].job if configuration.axes else "", "chain", "dependent"),
        )
        yield replace(rated, jobs=jobs, axes=axes, duration_ns=None)


def job_of(name: str, config: BenchmarkConfig, source: str = "") -> Job:
    """Return what a configuration makes the threads do."""
    return _job(name, config.suite_keys(), source)


def _job(name: str, keys: Mapping[str, Any], source: str) -> Job:
    return built_job(name, {key: read_key(key, value, {}, source) for key, value in keys.items()})
