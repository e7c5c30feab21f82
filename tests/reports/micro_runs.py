"""Finished runs of microbenchmarks with made-up figures, as real files through the store.

``OPTANE`` and ``DRAM`` are shaped after what FAST'20 found of them: where the one loses by
small random writes, many threads, flushed stores and remote processors, the other does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from narrowed import present
from report_runs import Case, with_artifacts, write

from harness.micro.fio import histogram
from harness.paths import data_folder
from harness.store.runs import StoredRun
from harness.store.spec import content_hash
from reports.micro.as_published import paper_rows
from reports.micro.devices import devices
from reports.published import Cell, HostNumber, Numbers

GB = 1e9
KINDS: dict[str, dict[str, Any]] = {
    "load": {"operation": "load", "flush": "none", "fence": "none"},
    "ntstore": {"operation": "ntstore", "flush": "none", "fence": "sfence"},
    "clwb": {"operation": "store", "flush": "clwb", "fence": "sfence"},
    "store": {"operation": "store", "flush": "none", "fence": "sfence"},
}
FAR: dict[str, Any] = {"numa": "far"}


@dataclass
class Model:
    """GB/s by kind. ``small``, ``line``: at random 64 B and 256 B; ``crowd``: by threads."""

    small: Mapping[str, float]
    line: Mapping[str, float]
    in_sequence: Mapping[str, tuple[float, float]]
    large: Mapping[str, float]
    crowd: Mapping[int, float]
    far: float
    latency_ns: float = 300.0
    loaded: Mapping[float, float] = field(default_factory=dict)


OPTANE = Model(
    small={"load": 4, "ntstore": 2, "clwb": 1.5},
    line={"load": 16, "ntstore": 8, "clwb": 6},
    in_sequence={"load": (30, 32), "ntstore": (8, 9), "clwb": (6, 7)},
    large={"ntstore": 11, "clwb": 7, "store": 2},
    crowd={1: 2, 2: 4, 4: 8, 8: 7, 16: 5},
    far=2.0,
    loaded={0.0: 300, 2.0: 310, 4.0: 500, 8.0: 900, 12.0: 2000},
)
DRAM = Model(
    small={"load": 60, "ntstore": 30, "clwb": 20},
    line={"load": 62, "ntstore": 31, "clwb": 21},
    in_sequence={"load": (62, 63), "ntstore": (31, 32), "clwb": (20, 21)},
    large={"ntstore": 32, "clwb": 32, "store": 33},
    crowd={1: 10, 2: 20, 4: 40, 8: 70, 16: 90},
    far=7.9,
    latency_ns=90.0,
    loaded={0.0: 90, 40.0: 100, 80.0: 150},
)


def card_run(
    root: Path,
    model: Model = OPTANE,
    tier: str = "pmem",
    host: str = "lab1",
    repeats: int = 11,
    far: bool = True,
    most_threads: int = 16,
    **changes: Any,
) -> StoredRun:
    """A run of the suite device-card, which it has with it as the runner stores it."""
    metrics = [*_metrics(model, repeats, far, most_threads)]
    run = micro_run(root, metrics, tier=tier, host=host, **changes)
    suite = data_folder("profiles") / "micro" / "device-card.yml"
    return with_suite(run, **yaml.safe_load(suite.read_text(encoding="utf-8")))


def micro_run(
    root: Path,
    metrics: list[dict[str, Any]],
    tier: str = "pmem",
    host: str = "lab1",
    suite: str = "device-card",
    run_changes: Mapping[str, Any] | None = None,
    manifest_changes: Mapping[str, Any] | None = None,
    requested: Mapping[str, str] | None = None,
    settings: object = None,
    **changes: Any,
) -> StoredRun:
    """A run of any suite with these metrics. ``requested``: what ``-p`` changed of it.

    ``settings``: what no label states of its configurations.
    """
    hashes = {
        str(document["labels"]["configuration"]): content_hash(settings)
        for document in metrics
        if settings and "configuration" in document["labels"]
    }
    case = Case(
        engine="microbench", placement=f"data={tier}", metrics=metrics, queries=(1,),
        spec_changes={"workload": "micro", "memory_limit_bytes": None,
                      "params": {"suite": suite, "requested": dict(requested or {})}},
        manifest_changes={"host.hostname": host, "host.host_id": f"{host}-id"}
        | dict(manifest_changes or {}),
        run_changes={"configurations": hashes} | dict(run_changes or {}), **changes,
    )  # fmt: skip
    return write(root, case)


def rate(
    measurement: str, gb_per_s: float, repeats: int = 6, scale: float = GB, **labels: Any
) -> dict[str, Any]:
    """Bandwidth, a little more in each repeat: a twentieth from the first to the last."""
    step = 0.05 / max(1, repeats - 1)
    samples = [gb_per_s * scale * (1 + step * k) for k in range(repeats)]
    return _metric(
        "bandwidth_bytes_per_second", "B/s", "higher", measurement, labels, samples=samples
    )


def curves(
    measurement: str,
    kinds: Mapping[str, Mapping[int, float]],
    over: str,
    repeats: int = 1,
    **labels: Any,
) -> list[dict[str, Any]]:
    """Bandwidths of kinds of accesses, each by the values of the label ``over``."""
    return [
        rate(measurement, value, repeats, **KINDS[kind], **labels, **{over: at})
        for kind, curve in kinds.items()
        for at, value in curve.items()
    ]


def _metric(
    name: str, unit: str, better: str, measurement: str, labels: Mapping[str, Any], **value: Any
) -> dict[str, Any]:
    given = dict(labels)
    job = given.get("job")
    rest = ",".join(f"{k}={v}" for k, v in given.items() if k != "job" and not job)
    configuration = given.pop("configuration", f"{measurement}/{rest}")
    named = {"measurement": measurement, "configuration": configuration}
    return {"name": name, "unit": unit, "better": better, "labels": named | given, **value}


def duration(measurement: str, bins: Mapping[str, int], **labels: Any) -> dict[str, Any]:
    """A histogram of these times in ns."""
    encoded = histogram(bins).encode()
    return _metric("operation_duration_ns", "ns", "lower", measurement, labels, hdr=encoded)


def latency(measurement: str, ns: float, **labels: Any) -> dict[str, Any]:
    """Time of a dependent load, the same in each repeat."""
    return _metric("latency_ns", "ns", "lower", measurement, labels, samples=[ns] * 6)


def numa_tier(name: str = "dram", node: int = 0) -> dict[str, Any]:
    """A tier of a memory node as a manifest has it; node 0 of the made-up hosts has processors."""
    return {"name": name, "kind": "numa", "emulates": None, "path": None, "device": None,
            "node": node, "nodes": [node], "policy": "bind", "price_per_gb": None,
            "source": "host.yml:3", "facts": tier_facts("numa"), "warnings": []}  # fmt: skip


def tier_facts(kind: str, **more: Any) -> dict[str, Any]:
    """Facts of a tier without a file system or device."""
    return {"kind": kind, "filesystem": "", "device": "", "dax": False, "mount_options": [],
            "notes": [], "disks": [], **more}  # fmt: skip


def with_suite(
    run: StoredRun, paper: str = "", figures: Sequence[str] = (), **document: Any
) -> StoredRun:
    """The run with its suite as the runner stores it: what it repeats, and what else it says."""
    repeated = {"published": {"paper": paper, "figures": list(figures)}} if paper else {}
    documents = {"mine.yml": repeated | document}
    return with_artifacts(run, {"suite": {"name": "mine", "documents": documents}})


def cells(*runs: StoredRun) -> dict[tuple[str, str], dict[str, Any]]:
    """Cells next to a paper's numbers, by quantity and place, then by device."""
    all_devices = devices(runs)
    rows = present(paper_rows(all_devices))
    names = [device.name for device in all_devices]
    return {
        (str(row[1]), str(row[2])): dict(zip(names, map(shown, row[4:]), strict=True))
        for row in rows.rows
    }


def operations(measurement: str, per_s: float, **labels: Any) -> dict[str, Any]:
    """Operations a second, the same in each repeat."""
    return _metric("operations_per_second", "1/s", "higher", measurement, labels,
                   samples=[per_s] * 6)  # fmt: skip


def write_ratio(measurement: str, ratio: float, **labels: Any) -> dict[str, Any]:
    """The effective write ratio of a configuration, the same in each repeat."""
    return _metric("effective_write_ratio", "1", "higher", measurement, labels,
                   samples=[ratio] * 6)  # fmt: skip


def _metrics(model: Model, repeats: int, far: bool, most: int) -> Iterator[dict[str, Any]]:
    def of_kind(measurement: str, value: float, kind: str, **labels: Any) -> dict[str, Any]:
        return rate(measurement, value, repeats, **KINDS[kind], **labels)

    for kind in model.small:
        by_size = {64: model.small[kind], 256: model.line[kind], 4096: model.line[kind] * 1.02}
        for size, value in by_size.items():
            for threads, share in ((1, 0.2), (16, 1.0)):
                yield of_kind("access_size", value * share, kind, pattern="random",
                              access_size_bytes=size, threads=threads)  # fmt: skip
        for size, value in zip((64, 256), model.in_sequence[kind], strict=True):
            yield of_kind("access_size_sequential", value, kind, pattern="sequential",
                          access_size_bytes=size, threads=16)  # fmt: skip
        for threads, value in model.crowd.items():
            if threads <= most:
                yield of_kind("threads", value, kind, pattern="sequential", access_size_bytes=256,
                              threads=threads)  # fmt: skip
    for kind, value in model.large.items():
        for size, share in ((64, 0.3), (4096, 1.0), (65536, 1.01)):
            labels = {"pattern": "sequential", "access_size_bytes": size, "threads": 1}
            yield of_kind("persist_size", value * share, kind, **labels)
            yield of_kind("persist", value * share, kind, **labels)
    for where in ("near", "far") if far else ("near",):
        mix: dict[str, Any] = {"operation": "mixed", "read_share": 0.5, "threads": 4}
        mix |= {"numa": "far"} if where == "far" else {}
        yield rate("mix", 8.0 if where == "near" else model.far, repeats, **mix)
    for bandwidth, latency in model.loaded.items():
        yield from loaded_latency(bandwidth, latency, repeats)
    yield duration("latency", {str(int(model.latency_ns)): 99, "9000": 1}, **KINDS["load"],
                   pattern="random", access_size_bytes=64)  # fmt: skip


def loaded_latency(bandwidth: float, latency: float, repeats: int) -> Iterator[dict[str, Any]]:
    """A dependent load during loads of a bandwidth in GB/s; of 0, without any."""
    configuration = f"loaded_latency/pace={bandwidth}"
    beside = {"load_operation": "load" if bandwidth else "none",
              "load_threads": 3 if bandwidth else 0,
              "load_bytes_per_second": bandwidth * GB if bandwidth else "none"}  # fmt: skip
    job = {"job": "chase"} if bandwidth else {}
    yield _metric("latency_ns", "ns", "lower", "loaded_latency",
                  {"configuration": configuration, "operation": "chase", **job, **beside},
                  samples=[latency] * repeats)  # fmt: skip
    if bandwidth:
        yield rate("loaded_latency", bandwidth, repeats, configuration=configuration, job="load",
                   **KINDS["load"], pace=str(bandwidth))  # fmt: skip


def shown(cell: Cell) -> Any:
    """Three digits of each number by name, of one without a name alone; else the cell.

    A range is a pair, rates are in GB/s, conditions follow the numbers.
    """
    if not isinstance(cell, Numbers):
        return cell
    values: dict[str, Any] = {}
    for number in cell.numbers:
        several = number.name in values
        values[number.name] = (
            [values[number.name], _rounded(number)] if several else _rounded(number)
        )
    numbers = values[""] if values.keys() == {""} else values
    return (numbers, *cell.conditions) if cell.conditions else numbers


def _rounded(number: HostNumber) -> float | tuple[float, ...] | None:
    if number.value is None:
        return None
    ends = dict.fromkeys((number.value, number.value if number.high is None else number.high))
    scale = GB if number.unit == "B/s" else 1
    digits = [float(f"{end / scale:.3g}") if number.unit != "bytes" else end for end in ends]
    return digits[0] if len(digits) == 1 else tuple(digits)
