"""The native program's spec, which it checks itself (``microbench --check``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.micro.chains import SAMPLE_EVERY, ChainOperation
from harness.micro.host_capacity import HostCapacity
from harness.micro.host_suite import (
    TargetKey,
    job_targets,
    library_of,
    second_target_of,
    target_sizes,
)
from harness.micro.model import FILE, Job, Measurement
from harness.micro.node_placement import PAGE_BYTES, first_bytes, node_groups
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier

#: Of the program: the processors' caches are to be flushed (adr), or survive (eadr).
_DOMAINS = {"cpu_cache": "eadr", "memory_controller": "adr", "cxl_device": "adr"}
#: After the name of a measurement: which of the interleaved blocks it belongs to.
BLOCK = "#"


def spec_json(
    measurements: Sequence[Measurement],
    tier: Tier,
    directory: Path | None,
    capacity: HostCapacity,
    *,
    seed: int,
    repeats: int,
) -> dict[str, Any]:
    """Return the whole spec: all targets once, then all measurements, once a block.

    Repeats are interleaved: what drifts while a suite runs is in every configuration alike.
    """
    sizes = target_sizes(measurements, capacity)
    return {
        "schema": 2,
        "seed": seed,
        "targets": {
            _target_name(key): _target(key, sizes, tier, directory, capacity)
            for key in sizes
            if not key.part
        },
        "measurements": [
            _measurement(measurement, index, block, sizes, capacity)
            for block in range(repeats)
            for index, measurement in enumerate(measurements)
        ],
    }


def measurement_name(index: int, block: int) -> str:
    """Return the program's name of a configuration: numbers, since names may be long."""
    return f"{index}{BLOCK}{block}"


def _target_name(key: TargetKey) -> str:
    return "_".join(str(field) for field in key[:-1] if field)


def _target(
    key: TargetKey,
    sizes: Mapping[TargetKey, int],
    tier: Tier,
    directory: Path | None,
    capacity: HostCapacity,
) -> dict[str, Any]:
    place, pages, size = key.place, key.pages, sizes[key]
    if place == "nodes":
        return _on_nodes(key, sizes)
    if place == "dram":
        return {"kind": "dram", "node": capacity.near_node, "pages": pages, "size_bytes": size}
    domain = _DOMAINS.get(tier.facts.persistence_domain or "", "none")
    if tier.facts.kind == "numa":
        nodes = tier.claim.nodes
        if len(nodes) != 1:
            raise UsageError(
                f"tier {tier.name!r}",
                f"it interleaves over nodes {', '.join(map(str, nodes))}",
                "name a tier of one node: latency and bandwidth are those of a node",
            )
        return {"kind": "dram", "node": nodes[0], "pages": pages, "size_bytes": size}
    if tier.facts.kind == "devdax":
        return {
            "kind": "devdax",
            "path": tier.claim.device,
            **({"from_bytes": key.offset_bytes} if key.offset_bytes else {}),
            "size_bytes": size,
            "overwrite": True,
            "persistence_domain": domain,
        }
    assert tier.facts.kind in DIRECTORY_KINDS and directory is not None
    dax = tier.facts.kind == "fsdax" and not tier.emulated
    return {
        "kind": "file",
        "path": str(directory),
        "size_bytes": size,
        "sync": "required" if dax else "off",
        "persistence_domain": domain if dax else "none",
    }


def _on_nodes(key: TargetKey, sizes: Mapping[TargetKey, int]) -> dict[str, Any]:
    """Return the target of memory on nodes: its parts in whole pages, one after the other."""
    page = PAGE_BYTES[key.pages]
    parts = [
        (group, -(-sizes[key._replace(part=part)] // page) * page)
        for part, group in enumerate(node_groups(key.nodes))
    ]
    return {
        "kind": "dram",
        "pages": key.pages,
        "size_bytes": sum(size for _, size in parts),
        "placement": [group.to_json(size) for group, size in parts if size],
    }


def _measurement(
    measurement: Measurement,
    index: int,
    block: int,
    sizes: Mapping[TargetKey, int],
    capacity: HostCapacity,
) -> dict[str, Any]:
    taken: dict[TargetKey, int] = {}
    processors: dict[str, int] = {}
    jobs = []
    for job, key, _ in job_targets(measurement, capacity):
        usable, place = capacity.processors(job), job.cpus or job.numa
        first = processors.get(place, 0)
        processors[place] = first + job.threads
        # Threads that wait for a file may run on any.
        count = max(job.threads, len(usable)) if job.kind == FILE else job.threads
        cpus = [usable[(first + thread) % len(usable)] for thread in range(count)]
        if "/" in job.nodes:  # it ends in the first part where the second begins
            taken[key] = sizes[key] - first_bytes(job.range_bytes, job.first_share, job.pages)
        jobs.append(_job(job, cpus, key, taken))
    return {
        "name": measurement_name(index, block),
        "repeats": 1,
        "warm_up_ns": measurement.warm_up_ns,
        "duration_ns": measurement.duration_ns,
        "jobs": jobs,
    }


def _job(job: Job, cpus: list[int], key: TargetKey, taken: dict[TargetKey, int]) -> dict[str, Any]:
    """Return a job's spec; ``taken`` (bytes of the targets by earlier jobs) grows by its own."""
    document: dict[str, Any] = {
        "name": job.name,
        "kind": job.kind,
        "target": _target_name(key),
        "threads": job.threads,
        "cpus": cpus,
        "offset_bytes": taken.get(key, 0),
        "range_bytes": job.range_bytes,
        "partitions": job.partitions,
        "operations": job.operations,
        "pace": _pace(job),
        **{name: value for name, value in job.keys.items() if name not in ("mode", "binary")},
    }
    if library := library_of(job):
        document |= {"index": "library", "library": library.name}
        document.pop("discipline", None)
    taken[key] = taken.get(key, 0) + job.range_bytes
    if job.kind == "chain":
        document |= _chain(job)
    if job.dram_range_bytes:
        second = second_target_of(job)
        document["second"] = {
            "target": _target_name(second),
            "share": job.dram_share,
            "offset_bytes": taken.get(second, 0),
            "range_bytes": job.dram_range_bytes,
        }
        taken[second] = taken.get(second, 0) + job.dram_range_bytes
    return document


def _pace(job: Job) -> Mapping[str, Any] | None:
    """Return the pace of each thread; a suite's is that of all of them."""
    if job.pace is None or "bytes_per_second" not in job.pace:
        return job.pace
    return {"bytes_per_second": max(1, job.pace["bytes_per_second"] // job.threads)}


def _chain(job: Job) -> dict[str, Any]:
    dependent = job.keys["mode"] == "dependent"
    mix = [{"share": share.share, "steps": _steps(share.chain)} for share in job.mix]
    return {
        **({"mix": mix} if mix else {"steps": _steps(job.chain)}),
        "dependent": dependent,
        "sample_every": SAMPLE_EVERY if dependent else 0,
    }


def _steps(chain: Sequence[ChainOperation]) -> list[dict[str, Any]]:
    steps = []
    for operation in chain:
        place = "second" if operation.place == "dram" else "first"
        step = {"operation": operation.kind, "target": place, "bytes": operation.size_bytes}
        if operation.kind == "write":
            step |= {"persist": operation.persist, "offset_bytes": operation.offset_bytes}
        steps.append(step)
    return steps
