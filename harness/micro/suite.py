"""Suites: found by name, read from YAML, expanded to measurements for a host.

::

    schema: 1
    name: quick
    description: …
    defaults: {range: 1GiB, duration: 300ms}
    measurements:
      random: {matrix: {kernel: [load, ntstore+sfence], access: [64, 256]}, args: {pattern: random}}
      loaded: {args: {duration: 1s}, jobs: {chase: {…}, load: {…}}}

A file without ``schema`` is one of PerMA-Bench's or CXL-Bench's. A folder is the suite of all its
files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from harness.errors import UsageError, nearest
from harness.micro import perma
from harness.micro.chains import mix_text
from harness.micro.io_jobs import check_written
from harness.micro.keys import (
    IDLE,
    KEYS,
    TIMES,
    Variables,
    built_job,
    keys_of,
    read_key,
)
from harness.micro.model import Axis, Job, Measurement, Suite
from harness.micro.suite_document import SuiteDocument
from harness.paths import data_folder
from harness.structs import Where
from harness.yamlfile import YamlDocument, is_expression, load_yaml

_FOLDER = data_folder("profiles") / "micro"
SUFFIXES = (".yml", ".yaml")


def known_suites() -> dict[str, Path]:
    """Return the suites that come along, files and folders of them, by name."""
    files = sorted(path for path in _FOLDER.rglob("*") if path.suffix in SUFFIXES)
    folders = {
        folder for path in files for folder in path.parents if folder.is_relative_to(_FOLDER)
    }
    every = [*files, *(folders - {_FOLDER})]
    return {str(path.relative_to(_FOLDER).with_suffix("")): path for path in sorted(every)}


def find_suite(name: str) -> Path:
    """Find a suite's file or folder by its name (``perma-bench/raw``), or else by its path."""
    suites = known_suites()
    if name in suites:
        return suites[name]
    given = Path(name)
    if name and given.is_dir():
        return given.resolve()  # ``.`` has no name that the suite could have
    if given.suffix in SUFFIXES and given.is_file():
        return given
    if given.suffix in SUFFIXES:
        raise UsageError(
            f"suite {name}",
            "there is no such file",
            "name a file that is there, a folder of them, or a suite of `harness micro list`",
        )
    raise UsageError(
        f"suite {name!r}",
        f"there is no such suite{nearest(name, list(suites))}, and no such folder",
        f"suites that come along: {', '.join(suites)}; or name a .yml file, or a folder of them",
    )


def load_documents(path: Path) -> list[YamlDocument]:
    """Load the files of a suite; ours have the keys of a SuiteDocument."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
    if not files:
        raise UsageError(f"suite {path}", "no .yml file in it", "name a file, or a folder of them")
    return [_checked(file) for file in files]


def _checked(file: Path) -> YamlDocument:
    document = load_yaml(file)
    if not perma.is_perma(document.value):
        document.to(SuiteDocument)
    return document


def load_suite(path: Path, variables: Variables) -> Suite:
    """Load a suite for a host, whose ``variables`` its expressions may name."""
    return suite_of(suite_name(path), load_documents(path), variables)


def suite_name(path: Path) -> str:
    """Return the name of a suite that comes along, or that of the user's file."""
    inside = path.resolve().is_relative_to(_FOLDER.resolve())
    below = path.resolve().relative_to(_FOLDER.resolve()) if inside else Path(path.name)
    return str(below.with_suffix(""))


def suite_of(name: str, documents: list[YamlDocument], variables: Variables) -> Suite:
    """Make one suite of all documents; UsageError where two measure under one name."""
    first = _mapping(documents[0])
    if len(documents) == 1 and first and "measurements" not in first:
        return _of_another_program(name, documents[0])
    measurements: list[Measurement] = []
    descriptions = []
    for document in documents:
        if perma.is_perma(document.value):
            measurements += perma.measurements(perma.parse_perma(document))
            descriptions.append(
                f"{perma.dialect_of(document).program}: {', '.join(map(str, document.value))}"
            )
        elif "measurements" in document.value:
            _check_ours(document)
            measurements += _measurements(document, variables)
            descriptions.append(document.value["description"])
        else:
            raise UsageError(
                document.at(()),
                "another program measures it than the other files of the folder",
                "run each suite of the folder separately",
            )
    _check_names(measurements)
    return Suite(
        name,
        "; ".join(descriptions),
        tuple(measurements),
        repeats=max(_mapping(document).get("repeats", 1) for document in documents),
        published=first.get("published") if len(documents) == 1 else None,
        documents={Path(document.path).name: document.value for document in documents},
    )


def _mapping(document: YamlDocument) -> Mapping[str, Any]:
    """Return a document of ours; an empty one for PerMA-Bench's."""
    return {} if perma.is_perma(document.value) else document.value


def _of_another_program(name: str, document: YamlDocument) -> Suite:
    value = document.value
    if "program" not in value:
        raise UsageError(document.at(()), "neither measurements nor a program", "name one of them")
    if value["program"] == Suite.program:
        raise UsageError(
            document.at(("program",)),
            f"program: {value['program']}, and no measurements",
            "write measurements and leave program out; params are for fio and ioping",
        )
    check_written(document, value, ())
    return Suite(
        name,
        value["description"],
        (),
        value["program"],
        value.get("params", {}),
        published=value.get("published"),
        repeats=value.get("repeats", 1),
        documents={Path(document.path).name: value},
    )


def _check_ours(document: YamlDocument) -> None:
    if "program" in document.value:
        raise UsageError(
            document.at(("program",)),
            "both program and measurements, which are microbench's",
            "remove program; for fio, write params: {measurements: …}",
        )
    check_written(document, document.value.get("block", {}), ("block",))


def _check_names(measurements: list[Measurement]) -> None:
    seen: dict[str, str] = {}
    for measurement in measurements:
        before = seen.setdefault(measurement.configuration, measurement.origin)
        if before != measurement.origin:
            raise UsageError(
                measurement.origin,
                f"{measurement.configuration} is measured at {before} too",
                "rename one",
            )


# Expansion ---------------------------------------------------------------------


def _measurements(document: YamlDocument, variables: Variables) -> Iterator[Measurement]:
    for name in document.value["measurements"]:
        by_identity: dict[str, Measurement] = {}
        for measurement in _Expansion(document, str(name), variables).all():
            by_identity.setdefault(
                measurement.identity, measurement
            )  # without load all kinds of it are one
        yield from by_identity.values()


@dataclass(frozen=True)
class _Expansion:
    """One measurement of a document."""

    document: YamlDocument
    name: str
    variables: Variables

    @property
    def where(self) -> Where:
        return ("measurements", self.name)

    @property
    def body(self) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self.document.value["measurements"][self.name]
        return body

    def _at(self, where: Where) -> str:
        """Return file, line and measurement."""
        return f"{self.document.at(where)}, measurement {self.name}"

    def all(self) -> Iterator[Measurement]:
        """Yield the configurations: the cross product of all jobs', the last key fastest."""
        jobs = self.body.get("jobs")
        if jobs is None:
            for point in self._points(self.where, self.body):
                yield self._measurement([(self.name, point)], {})
            return
        if "matrix" in self.body:
            raise UsageError(
                self.document.at((*self.where, "matrix")),
                "both matrix and jobs",
                "move the matrix into one of the jobs; only duration and warm_up belong to all",
            )
        swept = [[*self._points((*self.where, "jobs", job), jobs[job])] for job in jobs]
        times = self._read((*self.where, "args"), self.body.get("args", {}))
        if strange := next((key for key in times if key not in TIMES), None):
            raise UsageError(
                self.document.at((*self.where, "args", strange)),
                f"{strange!r} with jobs",
                "move it into the jobs that need it",
            )
        for chosen in product(*swept):
            yield self._measurement(list(zip(map(str, jobs), chosen, strict=True)), times)

    def _points(self, where: Where, body: Mapping[str, Any]) -> Iterator[_JobValues]:
        args = self._read((*where, "args"), body.get("args", {}))
        matrix = body.get("matrix", {})
        swept = [list(self._values((*where, "matrix", key), matrix[key])) for key in matrix]
        for chosen in product(*swept):
            swept_values = {k: v for k, (v, _) in zip(matrix, chosen, strict=True)}
            texts = tuple((k, text) for k, (_, text) in zip(matrix, chosen, strict=True))
            yield _JobValues(args | swept_values, texts, where)

    def _read(self, where: Where, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: read_key(key, value, self.variables, self._at((*where, key)))
            for key, value in given.items()
        }

    def _values(self, where: Where, given: Any) -> Iterator[tuple[Any, str]]:
        """Yield each value of a swept key, and its text in the configuration's name."""
        key = str(where[-1])
        if isinstance(given, dict):
            given = self._powers(where, given)
        seen = []
        for position, value in enumerate(given):
            read = read_key(key, value, self.variables, self._at((*where, position)))
            if read not in seen:  # [1, = cpus] on one processor
                seen.append(read)
                yield read, _text(value, read)

    def _powers(self, where: Where, given: Mapping[str, Any]) -> list[int]:
        """Return ``from``, multiplied by the base again and again, and ``to``."""
        source = self._at(where)
        key = str(where[-1])
        first, last = (
            int(read_key(key, given[end], self.variables, source)) for end in ("from", "to")
        )
        if first < 1:
            raise UsageError(source, f"powers from {first}", "begin with 1 or more")
        steps = range(max(0, math.ceil(math.log(max(last, 1) / first, given["powers_of"]))))
        return [*(first * given["powers_of"] ** step for step in steps), max(first, last)]

    def _measurement(
        self, chosen: list[tuple[str, _JobValues]], outer: Mapping[str, Any]
    ) -> Measurement:
        """Build one configuration; ``outer``: the measurement's own times for several jobs."""
        defaults = self._read(("defaults",), self.document.value.get("defaults", {}))
        built = [self._job(name, point, defaults) for name, point in chosen]
        several = len(chosen) > 1
        axes = tuple(
            Axis(name if several else "", key, text)
            for name, point in chosen
            for key, text in point.texts
        )
        times = {key: self._time(key, outer, defaults, chosen) for key in TIMES}
        jobs = tuple(job for job in built if job is not None)
        if not jobs:
            raise UsageError(
                self._at(self._where_of_pace(chosen[0][1])),
                f"pace: {IDLE}, and no other job runs",
                f"{IDLE} omits one of several jobs: set it for one of them, or remove it",
            )
        origin = self.document.at(chosen[0][1].where)
        if times["duration"] is None and all(job.operations is None for job in jobs):
            raise UsageError(origin, f"{self.name} never ends", "give it a duration or a count")
        return Measurement(
            self.name,
            jobs,
            axes,
            times["duration"],
            times["warm_up"] or 0,
            in_memory=self.body.get("requires") == "memory",
            origin=origin,
        )

    def _where_of_pace(self, point: _JobValues) -> Where:
        """Return where a job's pace is written; in the defaults where the job has none."""
        for part in ("matrix", "args"):
            if (*point.where, part, "pace") in self.document.lines:
                return (*point.where, part, "pace")
        return ("defaults", "pace")

    def _time(
        self,
        key: str,
        outer: Mapping[str, Any],
        defaults: Mapping[str, Any],
        chosen: list[tuple[str, _JobValues]],
    ) -> int | None:
        times = [point.values[key] for _, point in chosen if key in point.values]
        if len(chosen) > 1 and times:
            raise UsageError(
                self.document.at(chosen[0][1].where),
                f"{key} of one of several jobs",
                "all jobs begin and end together: move it into the measurement's args",
            )
        counted = key == "duration" and any("count" in point.values for _, point in chosen)
        time_ns: int | None = next(
            iter(times), outer.get(key, None if counted else defaults.get(key))
        )
        return time_ns

    def _job(self, name: str, point: _JobValues, defaults: Mapping[str, Any]) -> Job | None:
        source = self._at(point.where)
        kind = point.values.get("kind", defaults.get("kind", "throughput"))
        for key in point.values:
            if key in KEYS and kind not in KEYS[key].kinds:
                goes_with = " and ".join(KEYS[key].kinds)
                raise UsageError(source, f"{key!r} of a {kind} job", f"it goes with {goes_with}")
        keys = dict(keys_of(kind))
        values = {**{k: v for k, v in defaults.items() if k in keys}, **point.values, "kind": kind}
        if values.get("pace") == IDLE:
            return None
        missing = [k for k, key in keys.items() if kind in key.required and k not in values]
        mixed = values.get("kernel", {}).get("operation") == "mixed"
        if mixed and "read_share" not in values:
            missing.append("read_share")
        if kind == "chain" and ("chain" in values) == ("mix" in values):
            problem = (
                "both chain and mix" if "chain" in values else "a chain job without chain or mix"
            )
            raise UsageError(source, problem, "write one of the two")
        if values.get("dram_share") and "dram_range" not in values:
            missing.append("dram_range")
        _check_nodes(source, values)
        if missing:
            raise UsageError(
                source, f"a {kind} job without {', '.join(missing)}", "add it to args, or a matrix"
            )
        return built_job(name, values if mixed else _without_share(values))


def _check_nodes(source: str, values: Mapping[str, Any]) -> None:
    nodes = values.get("nodes", "")
    if nodes and ("place" in values or "offset" in values):
        raise UsageError(source, "nodes with place or offset", "write one of them")
    if "first_share" in values and "/" not in nodes:
        raise UsageError(source, "first_share without two parts", "write nodes: 0/1, say")
    if values.get("dram_nodes") and ("dram_range" not in values or "/" in values["dram_nodes"]):
        raise UsageError(source, "dram_nodes", "it goes with dram_range, in one part")


def _without_share(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop ``read_share`` in a sweep of kernels: only mixed ones have it."""
    return {key: value for key, value in values.items() if key != "read_share"}


@dataclass(frozen=True)
class _JobValues:
    """Values of one job's keys, read; and the texts of the swept ones."""

    values: Mapping[str, Any]
    texts: tuple[tuple[str, str], ...]
    where: Where


def _text(given: Any, read: Any) -> str:
    if is_expression(given):
        return str(read)
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, dict):
        return f"pause {given['pause']}" if "pause" in given else mix_text(read)
    return str(given)


def cpus_and_more(cpus: int, cores: int, llc_bytes: int, memory_bytes: int) -> dict[str, float]:
    """Return what the expressions of a suite may name; sizes in bytes.

    ``cpus``: logical processors near the tier, of which ``cores`` are one of each core.
    """
    return {
        "cpus": float(cpus),
        "cores": float(min(cpus, cores)),
        "llc": float(llc_bytes),
        "memory": float(memory_bytes),
    }
