"""Labels of a configuration's metrics, and a hash of the settings that no label states.

Labels state what was done in a measurement: numbers are numbers, flags are flags. A swept key that
has no label of its own (``chunk``, the threads of a job that runs alongside) becomes one where
nothing else distinguishes the configurations. Two configurations with equal labels and equal hashes
did the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from harness.micro.chains import chain_text, mix_text
from harness.micro.keys import KEYS, LABELS, TIMES, UNLIMITED, MicroParams
from harness.micro.model import FILE, Axis, Job, Measurement
from harness.sequences import grouped
from harness.store.documents import as_json
from harness.store.result import Label, Labels
from harness.store.spec import content_hash

#: Kinds that load memory while another job measures.
_LOADING = ("throughput", FILE)
_WAITING = ("chase", "latency", "chain")
#: What no label states of a job of ours, and of PerMA-Bench's configurations.
_UNSTATED = ("operations", *(key.field for key in KEYS.values() if key.field and not key.label))
_UNSTATED_OF_PERMA = (
    "number_operations",
    "run_time",
    "latency_sample_frequency",
    "min_io_chunk_size",
)


def job_labels(
    measurement: Measurement,
    job: Job,
    swept: Labels | None = None,
    pages: str = "",
    reported: Labels | None = None,
    persistent: str = "",
) -> dict[str, Label]:
    """Return what is known of a job before it runs, and what the program reports of it.

    ``swept``: the job's of :func:`swept_labels`; ``reported``: the program's own labels.
    """
    labels: dict[str, Label] = {
        "measurement": measurement.name,
        "configuration": measurement.configuration,
        **(swept or {}),
    }
    if len(measurement.jobs) > 1:
        labels["job"] = job.name
    labels |= {"kind": job.kind, "operation": job.kind}
    labels |= {label: job.keys[key] for key, label in LABELS.items() if key in job.keys}
    if job.chain:
        labels["chain"] = chain_text(job.chain)
    if job.mix:
        labels["mix"] = mix_text(job.mix)
    labels |= {"threads": job.threads, "range_bytes": job.range_bytes}
    optional: dict[str, Label] = {
        "pages": pages,
        "place": job.place if job.place != "tier" else "",
        "nodes": job.nodes,
        "offset_bytes": job.offset_bytes,
        "numa": job.numa if job.numa == "far" and not job.cpus else "",
        "cpus": job.cpus,
        "dram_range_bytes": job.dram_range_bytes,
        "dram_nodes": job.dram_nodes,
        "dram_share": job.dram_share,
    }
    labels |= {name: value for name, value in optional.items() if value}
    if "/" in job.nodes:
        labels["first_share"] = job.first_share
    labels |= reported or {}
    if persistent:
        labels["persistent"] = persistent
    if job.partitions != 1:
        labels["partitions"] = job.partitions
    return labels | _pace_label(measurement, job) | _load_labels(measurement, job)


def _pace_label(measurement: Measurement, job: Job) -> dict[str, Label]:
    """Return the limit of a job that is throttled in this or another configuration."""
    swept = any(axis.key == "pace" and axis.job in ("", job.name) for axis in measurement.axes)
    if job.kind not in _LOADING or not (job.pace or swept):
        return {}
    return {"pace_bytes_per_second": _pace(job)}


def _pace(job: Job) -> Label:
    """Return bytes per second; ``unlimited``, or ``paused`` after each operation."""
    rate: Label = job.pace.get("bytes_per_second", "paused") if job.pace else UNLIMITED
    return rate


def _load_labels(measurement: Measurement, job: Job) -> dict[str, Label]:
    """Return labels of the job that loads the memory while this one waits for it."""
    loading = [other for other in measurement.jobs if other is not job and other.kind in _LOADING]
    swept = any(axis.key == "pace" for axis in measurement.axes)
    if job.kind not in _WAITING or not (loading or swept):
        return {}
    if not loading:
        return {"load_operation": "none", "load_threads": 0, "load_bytes_per_second": "none"}
    (load, *_) = loading
    labels: dict[str, Label] = {
        "load_operation": load.keys["operation"],
        "load_threads": load.threads,
        "load_bytes_per_second": _pace(load),
    }
    if load.keys["operation"] == "mixed":
        labels["load_read_share"] = load.keys["read_share"]
    return labels


# Swept keys without a label -------------------------------------------------------


def swept_labels(measurements: Iterable[Measurement]) -> dict[tuple[str, str], Labels]:
    """Return labels by configuration and job: of swept keys that alone distinguish them.

    Configurations that have all other labels in common have those of their axes that differ.
    """
    alike = grouped(
        ((job.name, frozenset(_without_name(measurement, job))), (measurement, job))
        for measurement in measurements
        for job in measurement.jobs
    )
    labels: dict[tuple[str, str], Labels] = {}
    for same in alike.values():
        axes = [{(axis.job, axis.key): axis for axis in m.axes} for m, _ in same]
        names = dict.fromkeys(name for each in axes for name in each)
        texts = {
            name: {each[name].text if name in each else None for each in axes} for name in names
        }
        differing = [name for name in names if len(texts[name]) > 1]
        for (measurement, job), each in zip(same, axes, strict=True):
            labels[measurement.configuration, job.name] = dict(
                _swept(measurement, job, each[name]) for name in differing if name in each
            )
    return labels


def _without_name(measurement: Measurement, job: Job) -> Iterator[tuple[str, Label]]:
    labels = job_labels(measurement, job).items()
    return (item for item in labels if item[0] != "configuration")


def _swept(measurement: Measurement, job: Job, axis: Axis) -> tuple[str, Label]:
    """Return the name and the value of an axis of this job, or of another: ``writers.threads``."""
    of_other = axis.job not in ("", job.name)
    swept = next((other for other in measurement.jobs if other.name == axis.job), job)
    prefix = f"{axis.job}." if of_other else ""
    if axis.key in TIMES:
        name = f"{axis.key}_ns"
        return name, getattr(measurement, name) or 0
    name = _field(axis.key)
    value = swept.keys.get(name, getattr(swept, name, axis.text))
    return prefix + name, value if isinstance(value, str | int | float) else axis.text


def _field(key: str) -> str:
    """Return the name of a suite's key in a job; other keys are PerMA-Bench's."""
    return (KEYS[key].field or KEYS[key].attribute) if key in KEYS else key


# Settings that no label states ----------------------------------------------------


def settings_hash(measurement: Measurement, limits: MicroParams, library_digest: str = "") -> str:
    """Return the hash of the settings of a configuration that no label states.

    Of several jobs all that is not swept: each has its own labels, and those of the others are in
    none. ``limits``: what was requested on the command line.
    """
    several = len(measurement.jobs) > 1
    swept = {axis.key for axis in measurement.axes}
    if measurement.source:
        stated = [_of_perma(vars(config), several, swept) for config in measurement.source]
    else:
        stated = [_of_job(job, several, measurement.axes) for job in measurement.jobs]
    times = {f"{key}_ns": getattr(measurement, f"{key}_ns") for key in TIMES if key not in swept}
    requested = {"cpus": limits.cpus, "operations": limits.operations, "library": library_digest}
    return content_hash({"jobs": stated, **times, **requested})


def _of_job(job: Job, several: bool, axes: Sequence[Axis]) -> dict[str, Any]:
    settings = {
        field.name: getattr(job, field.name) for field in fields(job) if field.name != "keys"
    }
    swept = {_field(axis.key) for axis in axes if axis.job in ("", job.name)}
    if "operation" in swept:  # with its flush and fence
        swept |= {"store", "flush", "fence"}
    return {
        name: as_json(value)
        for name, value in {**settings, **job.keys}.items()
        if name not in swept and (several or name in _UNSTATED)
    }


def _of_perma(config: Mapping[str, Any], several: bool, swept: set[str]) -> dict[str, Any]:
    return {
        name: as_json(value)
        for name, value in config.items()
        if name not in swept and (several or name in _UNSTATED_OF_PERMA)
    }
