"""Builds finished runs as real files, written through the store and checked by its structs.

The times are made up (seeded), shaped after what TPC-H looks like on an SSD and on a
faster tier: scans gain, compute-bound queries do not, and blocks drift together.
"""

import csv
import io
import itertools
import math
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from example_run import result_of

from harness import hdr, structs
from harness.errors import RunFailed
from harness.experiment.placement import parse_placement
from harness.store.documents import write_json_atomically
from harness.store.result import Cached, Check, Experiment, Manifest, Metric, RunResult
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import RUN_SCHEMA, RunSpec
from reports.compare import Comparison
from reports.compare_output import comparison_page
from reports.page import print_blocks
from reports.report import Report, ReportFiles
from reports.sections import Block, Section, Table

GIB = 1 << 30
STARTED_UNIX_NS = 1_790_000_000_000_000_000
#: Per query: seconds on the SSD (PostgreSQL), how much of it is input and output.
QUERIES = {
    1: (9.1, 0.25), 2: (0.9, 0.5), 3: (4.0, 0.7), 4: (2.9, 0.72), 5: (3.9, 0.7), 6: (2.6, 0.85),
    7: (3.3, 0.7), 8: (2.8, 0.72), 9: (7.5, 0.6), 10: (3.6, 0.6), 11: (0.6, 0.7), 12: (3.2, 0.7),
    13: (2.2, 0.2), 14: (2.7, 0.75), 15: (2.8, 0.7), 16: (1.3, 0.15), 17: (8.8, 0.5),
    18: (9.9, 0.4), 19: (2.8, 0.8), 20: (3.1, 0.7), 21: (8.4, 0.5), 22: (0.7, 0.1),
}  # fmt: skip
OPERATOR_SHARES = {"scan": 0.0, "join": 0.45, "aggregate": 0.3, "sort": 0.1, "other": 0.15}
ENGINES = {"postgres": ("18.4", 1.0, 1.0), "duckdb": ("2.0.0", 0.08, 0.35),
           "mysql": ("9.7.4", 9.0, 0.6), "mariadb": ("10.11.19", 6.0, 0.7)}  # fmt: skip
PLACES = ("ssd-both", "pmem-both")
PMEM = {"tier": "pmem", "by": "tmpfs"}
UNCONTROLLED = [
    {"code": "frequency-governor", "what": "CPU frequency", "found": "governor powersave",
     "do": "cpupower frequency-set -g performance"},
    {"code": "swap-enabled", "what": "other users", "found": "load 1.9 on 2 CPUs",
     "do": "run on an idle machine"},
]  # fmt: skip
FAILURE = RunFailed("query 9", "server died <&> $x$", "see its log")


@dataclass
class Case:
    """One run to write; every field may be overridden by a test."""

    engine: str = "postgres"
    placement: str | None = "ssd-both"
    block: int = 0
    status: Any = "complete"
    emulated: bool = False
    gain: float = 6.0
    noise: float = 0.02
    queries: Sequence[int] = tuple(QUERIES)
    experiment: str = "demo"
    label: str | None = None
    plans: bool = True
    #: Queries that reached their time limit: they have no time, and there are no totals.
    limited: Sequence[int] = ()
    #: Query streams that ran at the same time, after the queries of one stream.
    streams: int = 0
    memory_bytes: int = 4 * GIB
    data_bytes: int = 6 * GIB
    metrics: list[dict[str, Any]] | None = None
    run_changes: dict[str, Any] = field(default_factory=dict)
    spec_changes: dict[str, Any] = field(default_factory=dict)
    manifest_changes: dict[str, Any] = field(default_factory=dict)


def write(root: Path, case: Case) -> StoredRun:
    """The run as the runner leaves it behind."""
    given: dict[str, Any] = {
        "workload": "tpch",
        "engine": case.engine,
        "placement": parse_placement(case.placement) if case.placement else None,
        "params": {"scale": 1, "queries": list(case.queries), "cache": "cold-per-query"},
        "emulate": ("pmem",) if case.emulated else (),
        "memory_limit_bytes": 4 * GIB,
        "block": case.block,
        "label": case.label,
    }
    spec = RunSpec(**(given | case.spec_changes))
    writer = Store(root).begin(spec)
    manifest = _merged(_manifest(writer.run_id, spec, case), case.manifest_changes)
    document = structs.convert(manifest, Manifest, writer.run_id).to_json()
    write_json_atomically(writer.directory / "manifest.json", document)
    checks = [Check("answer", "passed", labels={"query": str(q)}) for q in case.queries]
    if case.status == "unknown":
        checks[0] = msgspec.structs.replace(
            checks[0], status="unknown", detail="no reference answer"
        )
    failed, metrics = case.status == "failed", case.metrics
    document = result_of(
        writer.run_id,
        spec,
        status=case.status,
        experiment=Experiment(case.experiment, f"{_seed(case.experiment):016x}"),
        started_unix_ns=STARTED_UNIX_NS + case.block * 600 * 10**9,
        duration_ns=90 * 10**9,
        data_bytes=case.data_bytes,
        memory_bytes=case.memory_bytes,
        residency=tuple(Cached(f"query {q}", 3 << 20, case.data_bytes, "") for q in case.queries),
        checks=tuple(checks),
    ).to_json() | {
        "emulated": [PMEM] if case.emulated and "pmem" in (case.placement or "") else [],
        "uncontrolled": UNCONTROLLED,
        "metrics": [] if failed else tpch_metrics(case) if metrics is None else metrics,
        "error": FAILURE.to_json() if failed else None,
    }
    document = _merged(document, case.run_changes)
    structs.convert(document, RunResult, writer.run_id)
    write_json_atomically(writer.directory / "run.json", document)
    writer.checkpoint.remove()
    writer.close()
    return StoredRun(writer.directory)


_numbers = itertools.count(1)


def with_metrics(run: StoredRun, metrics: Sequence[Mapping[str, Any]]) -> StoredRun:
    """Another run like this one, with these metrics, in memory alone: for many of them."""
    other = StoredRun(run.directory.with_name(f"{run.run_id}-{next(_numbers)}"))
    stored_metrics = tuple(Metric(**members) for members in metrics)
    result = msgspec.structs.replace(run.result, metrics=stored_metrics)
    vars(other).update(result=result, manifest=run.manifest, head=run.head)
    return other


def with_artifacts(run: StoredRun, documents: Mapping[str, Any]) -> StoredRun:
    """The run with these documents next to its own, by name."""
    folder = run.directory / "artifacts"
    folder.mkdir(exist_ok=True)
    for name, document in documents.items():
        write_json_atomically(folder / f"{name}.json", document)
    return run


def demo(
    root: Path,
    engines: Sequence[str] = ("postgres", "duckdb"),
    placements: Sequence[str] = PLACES,
    blocks: int = 6,
    emulated: bool = True,
    **changes: Any,
) -> list[StoredRun]:
    """Runs of engine × placement × block, as an experiment of interleaved blocks leaves them."""
    return [
        write(root, Case(engine=e, placement=p, block=k, emulated=emulated, **changes))
        for k in range(blocks)
        for e in engines
        for p in placements
    ]


def interleaved(
    root: Path,
    metrics: Callable[[str, int], list[dict[str, Any]]],
    blocks: int = 6,
    places: Sequence[str] = PLACES,
    **changes: Any,
) -> Any:
    """A list of runs for each placement, in interleaved blocks; ``metrics`` by placement, block."""
    made = [
        [write(root, Case(placement=p, block=k, metrics=metrics(p, k), **changes)) for p in places]
        for k in range(blocks)
    ]
    return [list(arm) for arm in zip(*made, strict=True)]


def driven(workload: str, /, **params: Any) -> dict[str, Any]:
    """Changes of a specification: a workload with these parameters, by the native client."""
    return {"workload": workload, "params": params, "driver": "loadgen"}


def tpch_metrics(case: Case) -> list[dict[str, Any]]:
    """Durations, counters and operator times of every query."""
    rng = np.random.default_rng(_seed(case.engine, case.placement, case.block))
    drift = math.exp(np.random.default_rng(_seed(case.engine, case.block)).normal(0, case.noise))
    _, factor, io_weight = ENGINES.get(case.engine, ("1", 1.0, 1.0))
    fast = "pmem" in (case.placement or "")
    metrics, durations = [], []
    for number in case.queries:
        seconds, share = QUERIES[number]
        io = share * io_weight
        moved = io / case.gain if fast else io
        took = seconds * factor * (1 - io + moved) * drift * math.exp(rng.normal(0, case.noise))
        durations.append(took * 1e9)
        query = str(number)
        if number in case.limited:
            metrics.append(metric("query_timeout_ns", LIMIT_NS, query=query))
            continue
        metrics.append(metric("query_duration_ns", int(took * 1e9), "lower", query=query))
        metrics += _counters(case, query, int(seconds * 2e8))
        metrics.append(metric("query_cpu_ns", int(took * 0.4e9), "lower", query=query))
        if case.plans:
            second = took * 1.08e9
            metrics.append(metric("plan_run_duration_ns", int(second), "lower", query=query))
            for kind, part in OPERATOR_SHARES.items():
                skewed = part * (1 + 0.8 * math.sin(number * (1 + len(kind))))
                weight = (moved if kind == "scan" else skewed * (1 - io)) / (1 - io + moved)
                value = int(second * weight)
                metrics.append(
                    metric("plan_operator_ns", value, "lower", operator=kind, query=query)
                )
    metrics += _streams(case, durations)
    if case.limited:
        return metrics
    product = math.exp(sum(map(math.log, durations)) / len(durations))
    metrics.append(metric("queries_duration_ns", int(sum(durations)), "lower"))
    metrics.append(metric("queries_geomean_ns", int(product), "lower"))
    return metrics


#: The time limit of queries that reached one.
LIMIT_NS = 60 * 10**9


def _counters(case: Case, query: str, size: int) -> list[dict[str, Any]]:
    """Bytes of a query: what its tier's device moved (an emulated one has no count), spilled …"""
    sizes = {"query_spilled_bytes": size // 10 if query in ("9", "18") else 0,
             "query_io_read_bytes": size, "query_syscall_read_bytes": 2 * size}  # fmt: skip
    tier, on_tier = str(case.placement).split("-")[0], []
    if case.emulated and tier == "pmem":
        sizes["query_io_read_bytes"] = 0
    elif case.placement is not None:
        sizes |= {"query_working_set_bytes": size, "query_touched_file_bytes": size}
        on_tier = [
            metric("query_tier_read_bytes", size, query=query, tier=tier),
            metric("query_tier_write_bytes", size // 50, query=query, tier=tier),
        ]
    return [*(metric(name, value, query=query) for name, value in sizes.items()), *on_tier]


def _streams(case: Case, durations: Sequence[float]) -> list[dict[str, Any]]:
    """Metrics of a throughput test: a time for each query of each stream, and the figures."""
    if not case.streams:
        return []
    slower = {str(s): case.streams + 0.1 * s for s in range(1, case.streams + 1)}
    power = 3.6e12 * len(durations) / sum(durations)
    return [
        *(metric("query_duration_ns", int(took * factor), "lower", query=str(q), stream=s)
          for s, factor in slower.items()
          for q, took in zip(case.queries, durations, strict=True)),
        *(metric("stream_duration_ns", int(sum(durations) * factor), "lower", stream=s)
          for s, factor in slower.items()),
        metric("power_geomean_queries_per_hour", power, "higher"),
        metric("throughput_queries_per_hour", 0.8 * power, "higher"),
        metric("composite_queries_per_hour", 0.9 * power, "higher"),
        metric("refresh_duration_ns", 3e9, "lower", function="RF1", pair="1"),
        metric("refresh_duration_ns", 2e9, "lower", function="RF2", pair="1"),
    ]  # fmt: skip


def write_unfinished(root: Path) -> Path:
    """A directory as a killed harness leaves it: no run.json."""
    writer = Store(root).begin(RunSpec("tpch", "postgres", parse_placement("ssd-both"), {}))
    write_json_atomically(writer.directory / "note.json", {"at": time.monotonic_ns()})
    return writer.directory


#: The unit of a metric by the end of its name; others are pure numbers.
_UNITS = {
    "_ns": "ns",
    "_bytes": "B",
    "_bytes_per_s": "B/s",
    "_per_second": "1/s",
    "_per_minute": "1/min",
    "_per_hour": "1/h",
    "_ops": "op/s",
}


def metric(
    name: str, value: float | str | list[float], better: str = "none", **labels: str | int
) -> dict[str, Any]:
    """A metric as in run.json; a text is a histogram, a list samples."""
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "1")
    form = "hdr" if isinstance(value, str) else "samples" if isinstance(value, list) else "value"
    return {"name": name, "unit": unit, "better": better, "labels": labels, form: value}


LAYOUT = hdr.Layout(1000, 3_600_000_000_000, 3)


def histogram(durations_ns: Any, layout: hdr.Layout = LAYOUT) -> str:
    """Durations as a run stores them."""
    at = np.searchsorted(layout.bounds()[0], durations_ns, "right") - 1
    return hdr.Histogram(layout, np.bincount(at, minlength=layout.counters)).encode()


def lognormal(middle_ns: float, seed: int, spread: float = 0.3, count: int = 400) -> str:
    """A histogram of random durations around a median."""
    return histogram(np.random.default_rng(seed).lognormal(np.log(middle_ns), spread, count))


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a report's CSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def printed(comparison: Comparison) -> str:
    """A comparison as a terminal shows it."""
    stream = io.StringIO()
    with redirect_stdout(stream):
        print_blocks(comparison_page(comparison))
    return stream.getvalue()


def report(runs: Sequence[StoredRun], folder: Path, **options: Any) -> tuple[ReportFiles, str]:
    """The files of a report, and its page."""
    files = Report(runs, **options).write(folder / "report")
    return files, files.html.read_text(encoding="utf-8")


def drawing(files: ReportFiles, end: str) -> str:
    """The picture of a report whose name ends so."""
    return next(p for p in files.figures if p.name.endswith(end)).read_text(encoding="utf-8")


def tables(blocks: Iterable[Block]) -> dict[str, Table]:
    """The tables of a page by their titles."""
    by_title = {}
    for block in blocks:
        if isinstance(block, Table):
            by_title[block.title] = block
        elif isinstance(block, Section):
            by_title |= tables(block.blocks)
    return by_title


def _seed(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())


def _merged(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``{"host.kernel": {...}}``: dotted paths replace what is there."""
    for path, value in changes.items():
        *folders, last = path.split(".")
        inner = document
        for folder in folders:
            inner = inner[folder]
        inner[last] = value
    return document


def tier_document(name: str, emulated: bool = False) -> dict[str, Any]:
    stand_in = {"filesystem": "tmpfs", "device": "tmpfs", "device_model": None, "dax": None}
    real = {
        "ssd": {"filesystem": "ext4", "device": "/dev/nvme0n1", "dax": False,
                "device_model": "INTEL SSDPE2KE016T8"},
        "pmem": {"filesystem": "ext4", "device": "/dev/pmem0", "dax": True,
                 "device_model": "NMA1XXD128GPS"},
    }  # fmt: skip
    device_facts = stand_in if emulated else real.get(name, real["ssd"])
    kind = "tmpfs" if emulated else {"pmem": "fsdax"}.get(name, "block")
    facts = {"kind": kind, "mount_point": f"/mnt/{name}", "mount_options": ["rw"],
             "notes": [], "size_bytes": 750 * GIB,
             "free_bytes": 500 * GIB, "block_size_bytes": 4096}  # fmt: skip
    return {
        "name": name, "kind": kind, "emulates": name if emulated else None,
        "path": f"/mnt/{name}/x", "device": None, "node": None,
        "price_per_gb": {"pmem": 9.21, "ssd": 0.4}.get(name), "facts": facts | device_facts,
        "warnings": [],
    }  # fmt: skip


def _manifest(run_id: str, spec: RunSpec, case: Case) -> dict[str, Any]:
    version = ENGINES.get(case.engine, ("1", 1.0, 1.0))[0]
    tiers = spec.placement.tiers() if spec.placement else []
    settings = {"shared_buffers": "1024MB", "work_mem": "64MB"} if case.engine == "postgres" else {
        "threads": "2", "memory_limit": "3GiB"}  # fmt: skip
    return {
        "schema": RUN_SCHEMA,
        "run_id": run_id,
        "harness": {"version": "0.1.0", "revision": None},
        "argv": ["harness", "experiment", "run", "demo"],
        "spec": spec.to_json(),
        "host": _host(),
        "tiers": [tier_document(tier, case.emulated and tier == "pmem") for tier in tiers],
        "engine": {
            "name": case.engine,
            "version": version,
            "build": f"{case.engine}-{version}-x86_64",
            "source": "a package",
            "kind": "managed" if case.engine == "postgres" else "embedded",
            "settings": settings,
            "effective_config": settings
            | {"data_directory": f"/mnt/{tiers[0] if tiers else 'x'}/{run_id}", "fsync": "on"},
            "durability_settings": ["fsync"],
        },
        "dataset": {"key": f"{case.engine}-tpch-1", "fingerprint": {"lineitem": 6001215}},
        "restore_method": "copy",
        "memory_cap": {"method": "cgroup-v2", "limit_bytes": 4 * GIB},
        "run_state": {"cpu_quota": "none", "huge_pages": "none", "async_io": "none"},
        "clock": {"monotonic_ns": 1, "realtime_ns": STARTED_UNIX_NS},
        "tools": {"python": "3.11.2"},
    }


def _host() -> dict[str, Any]:
    return {
        "host_id": "a1b2c3d4", "hostname": "lab1", "mode": "Default", "mode_evidence": "",
        "cpu": {"model": "Intel Xeon Gold 6230", "sockets": 2, "cores": 40, "threads": 80,
                "flags": ["clwb", "avx512f"], "microcode": "0x5003604", "online": "0-79"},
        "kernel": {"release": "6.1.0-25-amd64", "cmdline": "quiet"},
        "memory_bytes": 192 * GIB,
        "numa_nodes": [
            {"node": 0, "memory_bytes": 96 * GIB, "cpus": "0-39", "distances": [10, 21]},
        ],
        "governor": "powersave", "turbo": True, "smt": True, "thp": "madvise", "aslr": "2",
        "prefetchers": "enabled", "memory_speed": "2666 MT/s",
        "uncore_frequency": "1200-2400 MHz", "dimm_power_budget": "15000 mW",
        "swap_bytes": 0, "dimms": [], "persistence_domains": {"region0": "memory_controller"},
        "mounts": [], "virtualised": None, "notes": [],
    }  # fmt: skip
