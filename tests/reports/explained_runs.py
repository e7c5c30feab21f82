"""Made-up runs that comparisons are explained from: TPC-C with waits and an I/O trace, on devices
and on models of them, and the suite that device models are made of."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from micro_runs import micro_run
from report_runs import Case, driven, histogram, metric, tier_document, write

from harness import hdr
from harness.experiment.placement import parse_placement
from harness.models.device import OPERATIONS, SERVICES, DeviceModel
from harness.models.make import MEASURED, SUITE
from harness.models.score import ScoreStore
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.explain.comparisons import ExplainedComparison, explained
from reports.explain.devices import TierSources
from reports.micro.devices import is_micro
from reports.select import unplanted
from reports.series import panels

US = 1e3
TPCC = {"warehouses": 10, "users": 2, "think_time": False, "rate": None, "connections": 2}
#: Of a transaction of 1,000 µs, 410 µs are in calls, all of which its sessions wait for.
PARTS_US = {"processor": 590.0, "log write": 10.0, "log sync": 400.0, "data read": 0.0}
#: By part and operation: calls in the window, and microseconds each.
CALLS = {
    ("wal", "sync"): (1000, 400.0),
    ("wal", "write"): (1000, 10.0),
    ("data", "read"): (100, 90.0),
}
TRANSACTIONS = 1000
GB = 10**9
PART_BYTES = {"data": 90 * GB, "wal": 10 * GB, "temp": 0, "index": 0}


_LAYOUT = hdr.Layout(1, 3_600_000_000_000, 3)


@lru_cache(maxsize=4096)
def calls(us: float, count: int) -> str:
    """A histogram of ``count`` equal durations."""
    return histogram([us * US] * count, _LAYOUT)


def tpcc_metrics(
    rate: float,
    parts_us: Mapping[str, float],
    timed: Mapping[tuple[str, str], tuple[int, float]],
    moments: float = 1e5,
) -> list[dict[str, Any]]:
    """Metrics of a run; see PARTS_US and CALLS."""
    metrics = [
        metric("new_orders_per_minute", rate, "higher"),
        metric("transaction_duration_ns", calls(sum(parts_us.values()), TRANSACTIONS), "lower",
               transaction="new_order"),
        *(metric("wait_ns", us * US, resource=name) for name, us in parts_us.items()),
        metric("wait_accounted_share", 1.0),
        metric("wait_moments_count", moments),
        metric("server_cpu_per_transaction_ns", parts_us["processor"] * US),
        metric("window_duration_ns", 1e9),
        metric("window_pressure_cpu_some_ns", 0, of="host"),
    ]  # fmt: skip
    for (part, operation), (count, us) in timed.items():
        labels = {"part": part, "operation": operation, "role": "foreground"}
        metrics.append(metric("io_calls_count", count, **labels))
        metrics.append(metric("io_duration_ns", calls(us, count), **labels))
    return metrics


def tpcc(
    root: Path,
    placement: str = "ssd-both",
    block: int = 0,
    rate: float = 60_000,
    set_rate: float | None = None,
    plant: tuple[str, ...] = (),
    model: DeviceModel | None = None,
    looks: int = 1,
    sync_us: float = 400.0,
    run_changes: Mapping[str, Any] | None = None,
    **params: Any,
) -> StoredRun:
    """A closed loop of ``rate`` New-Orders per minute, with trace and waits. ``model``: of the tier
    ``fast``; ``looks``: at results; ``sync_us``: of a transaction, in syncs of the WAL."""
    spec = driven("tpcc", **TPCC | params | {"rate": set_rate}) | {"plant": plant}
    timed = CALLS | {("wal", "sync"): (1000, sync_us)}
    metrics = tpcc_metrics(rate, PARTS_US | {"log sync": sync_us}, timed)
    changes: dict[str, Any] = {"part_bytes": PART_BYTES, **(run_changes or {})}
    changes |= {"experiment.looks": looks} if looks > 1 else {}
    manifest = {}
    if model is not None:
        spec["models"] = (f"fast={model.name}",)
        changes["modelled"] = [f"fast: {model.name}"]
        named = {"kind": "modelled", "model": {"name": model.name, "digest": model.digest}}
        used = parse_placement(placement).tiers()
        tiers = [tier_document(tier) | (named if tier == "fast" else {}) for tier in used]
        manifest = {"tiers": tiers}
    return write(root, Case(placement=placement, block=block, spec_changes=spec, metrics=metrics,
                            run_changes=changes, manifest_changes=manifest))  # fmt: skip


def device_suite(
    root: Path,
    tier: str,
    us: float,
    *more: dict[str, Any],
    next_to_writes: float = 0.5,
    host_id: str = "a1b2c3d4",  # as of all other runs
    host: str = "lab1",
    inode_write: float = 0.3,
    behind_checkpoints: float = 0.1,
    elsewhere_share: float = 1.5,
    sync_waits: float = 2,
) -> StoredRun:
    """A run of the suite ``device-model`` on a tier on which 4 KiB take that long, and 16 KiB
    twice as long, and 8 µs more where they fill the page cache; with ``more`` metrics.

    ``next_to_writes``: of what reads move alone; writes have half of it next to reads.
    ``behind_checkpoints``: of a checkpoint's sync, how long one in fifty of the log's takes.
    ``elsewhere_share``: of a call alone, how long half of them take on all processors in turn.
    ``sync_waits``: of what a read takes longer next to other work, how often a sync does.
    ``inode_write``: by how much a sync takes longer that writes the inode, of one that does not."""
    metrics = []
    for operation, name in MEASURED.items():
        for size, times in ((4096, 1), (16384, 2)):
            labels: dict[str, Any] = {"measurement": operation, "access_size_bytes": size}
            metrics += [
                metric(name, calls(us * times, 1000), "lower", **labels),
                metric("operation_kernel_ns", [us * times * US / 4], "lower", **labels),
                metric("bandwidth_bytes_per_second", [1.2345e9 / us], "higher", **labels),
            ]
    # 4 KiB take a tenth longer after work, and longer still after pauses.
    dearer = [("sync", "sync_inode", 1 + inode_write)]
    for operation in OPERATIONS:
        usual = 1 + inode_write if operation == "sync" else 1
        dearer.append((operation, f"{operation}_after_work", 1.1))
        dearer.append((operation, f"{operation}_after_4ms", usual + 0.4))
        dearer.append((operation, f"{operation}_after_10ms", usual + 0.8))
    for operation, measurement, factor in dearer:
        of_dearer: dict[str, Any] = {"measurement": measurement, "access_size_bytes": 4096}
        metrics += [
            metric(MEASURED[operation], calls(us * factor, 1000), "lower", **of_dearer),
            metric("operation_kernel_ns", [us * US / 2], "lower", **of_dearer),
            metric("write_call_duration_ns", calls(us / 20, 1000), "lower", **of_dearer),
        ]
    for service in SERVICES:
        elsewhere: dict[str, Any] = {
            "measurement": f"{service}_elsewhere",
            "access_size_bytes": 4096,
        }
        on_all = [us * US] * 500 + [us * elsewhere_share * US] * 500  # on two processors
        metrics.append(metric(MEASURED[service], histogram(on_all), "lower", **elsewhere))
        if service in ("read", "sync"):
            longer = us * (sync_waits if service == "sync" else 1)
            contended: dict[str, Any] = {**elsewhere, "measurement": f"{service}_contended"}
            awake_us = us * min(1, (1 + elsewhere_share) / 2)
            longer_us = calls(awake_us + longer, 1000)
            metrics.append(metric(MEASURED[service], longer_us, "lower", **contended))
    inode_us = us * (1 + inode_write)
    on_all = [inode_us * US] * 500 + [inode_us * elsewhere_share * US] * 500
    of_inode: dict[str, Any] = {"measurement": "sync_inode_elsewhere", "access_size_bytes": 4096}
    metrics.append(metric(MEASURED["sync"], histogram(on_all), "lower", **of_inode))
    for service in SERVICES:
        outside: dict[str, Any] = {"measurement": f"{service}_outside", "access_size_bytes": 4096}
        metrics.append(metric("operation_outside_ns", [us * US / 5], "lower", **outside))
    for service in SERVICES:
        busy: dict[str, Any] = {"measurement": f"{service}_busy", "access_size_bytes": 4096}
        metrics += [
            metric("operation_kernel_ns", [us * US / 5], "lower", **busy),
            metric("operation_outside_ns", [us * US / 10], "lower", **busy),
            metric("write_call_duration_ns", calls(us / 20, 1000), "lower", **busy),
        ]
    rate = 1.2345e9 / us
    metrics.append(metric("bandwidth_bytes_per_second", [rate], "higher", measurement="scan"))
    behind = [us * US] * 98 + [us * US * 100 * behind_checkpoints] * 2
    for job, sync_ns in (("log", behind), ("checkpoint", [us * US * 100])):
        of_job: dict[str, Any] = {"measurement": "in_order", "job": job}
        metrics.append(metric(MEASURED["sync"], histogram(sync_ns), "lower", **of_job))
    checkpoint: dict[str, Any] = {"measurement": "checkpoint", "access_size_bytes": 1 << 24}
    flush_us = (1 << 24) / rate * 1e6
    metrics.append(metric(MEASURED["sync"], calls(flush_us, 100), "lower", **checkpoint))
    cold: dict[str, Any] = {"measurement": "cold_read", "access_size_bytes": 16384}
    metrics.append(metric(MEASURED["read"], calls(us * 2 + 8, 1000), "lower", **cold))
    of_sync: dict[str, Any] = {"measurement": "sync", "access_size_bytes": 4096}
    metrics.append(metric("write_call_duration_ns", calls(us / 20, 1000), "lower", **of_sync))
    for reads, size in (("parallel", 4096), ("parallel_cold", 262_144)):
        alone: dict[str, Any] = {"measurement": reads, "threads": 1, "access_size_bytes": size}
        metrics.append(metric("operation_duration_ns", calls(us, 1000), "lower", **alone))
    metrics.append(metric("operations_per_second", [4e6 / us], "higher", measurement="parallel"))
    for way, share in (("read", next_to_writes), ("write", 0.5)):
        of_bulk = {"access_size_bytes": 131072}
        for moved, labels in ((rate, {"measurement": f"bulk_{way}"}),
                              (rate * share, {"measurement": "both", "job": way})):  # fmt: skip
            metrics.append(
                metric("bandwidth_bytes_per_second", [moved], "higher", **labels, **of_bulk)
            )
    here = {"host.host_id": host_id}
    every = [*metrics, *more]
    return micro_run(root, every, tier=tier, host=host, suite=SUITE, manifest_changes=here)


#: Measurements of the suite ``baseline`` by the calls that they time, with a size of each.
BASELINE_CALLS = {
    "page_read": ("read", 8192),
    "scan": ("read", 1 << 20),
    "log_append": ("sync", 8192),
    "log_growth": ("sync", 8192),
    "page_flush": ("write", 8192),
}


def baseline_suite(
    root: Path,
    tier: str,
    call_us: Mapping[str, float],
    kernel_us: float = 0.0,
    repeats: tuple[float, ...] = (1.0,),
    block: int = 0,
    after_work_us: float = 0.0,
) -> StoredRun:
    """A run of the suite ``baseline`` on a tier where a read, a write or an append with its sync
    takes that long, for any size and any number of threads, times ``repeats`` in each repeat.
    ``kernel_us``: of it, processor time; ``after_work_us``: of work before an append."""
    metrics = []
    after = {"log_commit_after_work": ("sync", 8192)} if after_work_us else {}
    for measurement, (call, size) in (BASELINE_CALLS | after).items():
        us = call_us[call]
        for threads in (1, 16):
            labels: dict[str, Any] = {
                "measurement": measurement,
                "configuration": f"{measurement}/threads={threads}",
                "access_size_bytes": size,
                "threads": threads,
            }
            rates = [threads * 1e6 / (us * times) for times in repeats]
            metrics += [
                metric("operations_per_second", rates, "higher", **labels),
                metric("operation_duration_ns", calls(us, 1000), "lower", **labels),
                metric("operation_kernel_ns", [kernel_us * US], "lower", **labels),
            ]
            if measurement in after:
                between = [after_work_us * US]
                metrics.append(metric("between_processor_ns", between, "lower", **labels))
    here = {"host.host_id": "a1b2c3d4"}
    return micro_run(root, metrics, tier=tier, suite="baseline", manifest_changes=here,
                     block=block)  # fmt: skip


def explained_rows(root: Path, baseline: str | None = None) -> list[ExplainedComparison]:
    """Explain the comparisons of all runs that are stored in ``root``."""
    every = Store(root).runs()
    chosen = [run for run in unplanted(every) if not is_micro(run)]
    sources = TierSources.of(every, ScoreStore(root).all())
    return explained(panels(chosen, "placement", baseline), sources)
