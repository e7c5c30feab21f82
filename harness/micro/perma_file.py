"""PerMA-Bench's result files as devices of a card: measured by its program, on another host.

A file is a list of benchmarks, each with the configurations and results of its program (``perma``
writes it; so does ``--format perma``). A device is a file and the memory that it names. Its labels
are those that our run of the same configuration has; rates are of the whole time, and latencies
those of chains that overlap: they stand in the tables, and are no side of a ratio or a price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.errors import UsageError
from harness.micro.metrics import job_labels
from harness.micro.model import Axis, Measurement
from harness.micro.perma import job_of
from harness.micro.perma_config import PermaConfig, read_value
from harness.store.result import Metric
from harness.units import GIB

#: Of a configuration, and no key of a workload.
_OF_DEVICE = ("memory_type", "emulated")


@dataclass(frozen=True)
class PermaDevice:
    """A memory of a file. ``mark``: by what it is emulated. ``metrics``: each with its place."""

    file: str
    memory: str
    mark: str
    metrics: tuple[tuple[str, Metric], ...]

    @property
    def source(self) -> str:
        return f"PerMA-Bench’s file {self.file}"


def perma_devices(path: Path) -> list[PermaDevice]:
    """Return a device for each memory of a file; UsageError with the place of what is wrong."""
    try:
        document = jsonfile.read(path)
        found: dict[tuple[str, str], list[tuple[str, Metric]]] = {}
        for number, benchmark in enumerate(document, 1):
            where = f"{path}, benchmark {number}"
            for device, metrics in _benchmark(benchmark, where):
                found.setdefault(device, []).extend((where, one) for one in metrics)
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
    return [PermaDevice(path.name, *device, tuple(own)) for device, own in found.items()]


_Found = Iterator[tuple[tuple[str, str], list[Metric]]]


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
        yield device, list(_metrics(measurement, results))


def _config(config: Mapping[str, Any], where: str) -> PermaConfig:
    known = {key: value for key, value in config.items() if key not in _OF_DEVICE}
    if isinstance(known.get("run_time"), float):  # ours may end within a second
        known["run_time"] = round(known["run_time"])
    return PermaConfig(**{key: read_value(key, value, where) for key, value in known.items()})


def _axes(configs: Mapping[str, Any], keys: Mapping[str, Sequence[str]]) -> Iterator[Axis]:
    for part, swept in keys.items():
        for key in swept:
            yield Axis(part, key, str(configs[part].get(key, "")))


def _metrics(measurement: Measurement, results: Mapping[str, Any]) -> Iterator[Metric]:
    for job in measurement.jobs:
        result = results[job.name]
        result = result.get("results", result)  # of parallel benchmarks
        if "error" in result:
            continue
        labels = job_labels(measurement, job)
        if job.kind == "chain":
            per_second = float(result["ops_per_second"])
            yield Metric("operations_per_second", "1/s", "higher", labels, per_second)
            if latency := result.get("latency"):
                mean_ns = float(latency["avg"])
                yield Metric("operation_mean_duration_ns", "ns", "lower", labels, mean_ns)
        else:
            rate = float(result["bandwidth"]) * GIB
            yield Metric("bandwidth_bytes_per_second", "B/s", "higher", labels, rate)
