"""PerMA-Bench's result files as devices of a card: measured by its program, on another host.

A file is a list of benchmarks, each with the configurations and results of its program (``perma``
writes it; so does ``--format perma``). A device is a file and the memory that it names. Its labels
are those that our run of the same configuration has; rates are of the whole time, and latencies
those of chains that overlap: they stand in the tables, and are no side of a ratio or a price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.errors import UsageError
from harness.micro.metrics import job_labels
from harness.micro.model import Axis, Measurement
from harness.micro.perma import job_of
from harness.micro.perma_config import PermaConfig, read_value
from harness.units import GIB
from reports.micro.points import MEAN, OPERATIONS, RATE, Device, Point

#: Of a configuration, and no key of a workload.
_OF_DEVICE = ("memory_type", "emulated")


def perma_devices(path: Path) -> list[Device]:
    """Return a device for each memory of a file; UsageError with the place of what is wrong."""
    try:
        document = jsonfile.read(path)
        found: dict[tuple[str, str], list[Point]] = {}
        for number, benchmark in enumerate(document, 1):
            for device, points in _benchmark(benchmark, f"{path}, benchmark {number}"):
                found.setdefault(device, []).extend(points)
        if not any(found.values()):
            raise ValueError("no result in it")
    except OSError as error:
        raise UsageError(f"--perma {path}", error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--perma {path}",
            f"no result file of PerMA-Bench: {type(error).__name__}: {error}",
            "name a file that perma or harness run micro --format perma wrote",
        ) from error
    return [
        Device(
            path.stem,
            memory,
            None,
            (),
            tuple(points),
            (mark,) if mark else (),
            several_hosts=True,
            source=f"PerMA-Bench’s file {path.name}",
        )
        for (memory, mark), points in found.items()
    ]


_Found = Iterator[tuple[tuple[str, str], list[Point]]]


def _benchmark(benchmark: Mapping[str, Any], where: str) -> _Found:
    name = str(benchmark["bm_name"])
    single = benchmark["bm_type"] == "single"
    for number, one in enumerate(benchmark["benchmarks"], 1):
        place = f"{where} ({name}), configuration {number}"
        configs = {name: one["config"]} if single else one["config"]
        results = {name: one["results"]} if single else one["results"]
        swept = benchmark["matrix_args"]
        keys = {name: swept} if single else swept
        parts = {part: _config(config, place) for part, config in configs.items()}
        measurement = Measurement(
            name,
            tuple(job_of(part, config) for part, config in parts.items()),
            tuple(_axes(configs, keys)),
        )
        memory = next(iter(configs.values()))
        device = (str(memory["memory_type"]), str(memory.get("emulated", "")))
        yield device, list(_points(measurement, results, where))


def _config(config: Mapping[str, Any], where: str) -> PermaConfig:
    known = {key: value for key, value in config.items() if key not in _OF_DEVICE}
    if isinstance(known.get("run_time"), float):  # ours may end within a second
        known["run_time"] = round(known["run_time"])
    return PermaConfig(**{key: read_value(key, value, where) for key, value in known.items()})


def _axes(configs: Mapping[str, Any], keys: Mapping[str, Sequence[str]]) -> Iterator[Axis]:
    for part, swept in keys.items():
        for key in swept:
            yield Axis(part, key, str(configs[part].get(key, "")))


def _points(measurement: Measurement, results: Mapping[str, Any], where: str) -> Iterator[Point]:
    for job in measurement.jobs:
        result = results[job.name]
        result = result.get("results", result)  # of parallel benchmarks
        if "error" in result:
            continue
        labels = job_labels(measurement, job)
        if job.kind == "chain":
            yield _point(OPERATIONS, "1/s", "higher", labels, result["ops_per_second"], where)
            if latency := result.get("latency"):
                yield _point(MEAN, "ns", "lower", labels, latency["avg"], where)
        else:
            rate = result["bandwidth"] * GIB
            yield _point(RATE, "B/s", "higher", labels, rate, where)


def _point(
    metric: str, unit: str, better: str, labels: Mapping[str, str], value: float, where: str
) -> Point:
    return Point(metric, unit, better, labels, samples=(float(value),), runs=(where,))
