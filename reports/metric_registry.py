"""What a report knows of metrics and workloads by name; unknown ones fall back to their form.

A later workload that wants better titles, or its own chart, adds a line here and in
``reports.charts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.store.result import Better
from harness.store.spec import JsonObject
from reports.values import Quantity

#: headline: the verdict is read from it; detail: one of its parts (a query), drawn; part:
#: the same, in a table alone; counter: why; breakdown: parts of a second execution, or of
#: queries next to one another; mark: shown as a mark on another metric, never as a value.
Role = Literal["headline", "detail", "part", "counter", "breakdown", "mark"]


@dataclass(frozen=True)
class MetricInfo:
    """Title of a metric, what it is for, and the label its parts are distinguished by.

    ``resolution``: the step it is counted in, in its unit; 0 where that is finer than shown.
    """

    title: str
    role: Role
    axis: str | None = None
    resolution: float = 0.0


#: Whose processor time is separated, and its name where it is not.
_WHOSE = {
    "server": "the server",
    "client": "the client",
    "process": "the client with the engine in it",
}
_PER_HOUR = "queries per hour × scale, TPC-H-derived"
_METRICS = {
    "composite_queries_per_hour": MetricInfo(f"power and throughput ({_PER_HOUR})", "headline"),
    "power_geomean_queries_per_hour": MetricInfo(f"power ({_PER_HOUR})", "headline"),
    "throughput_queries_per_hour": MetricInfo(f"throughput ({_PER_HOUR})", "headline"),
    "query_streams_queries_per_hour": MetricInfo(
        f"query streams without refresh ({_PER_HOUR})", "headline"
    ),
    "queries_geomean_ns": MetricInfo("geometric mean of the query times", "headline"),
    "queries_duration_ns": MetricInfo("sum of the query times", "headline"),
    "throughput_interval_ns": MetricInfo("time of the throughput test", "headline"),
    "query_streams_interval_ns": MetricInfo("time of the streams without refresh", "headline"),
    "new_orders_per_minute": MetricInfo("New-Orders per minute, TPC-C-derived", "headline"),
    "transactions_per_minute": MetricInfo("transactions per minute, TPC-C-derived", "part"),
    "transaction_duration_ns": MetricInfo("time of a transaction", "detail", "transaction"),
    "operations_per_second": MetricInfo("operations per second", "headline"),
    "operation_duration_ns": MetricInfo("time of an operation", "detail", "operation"),
    **{
        f"{side}_cpu_per_{each}_ns": MetricInfo(
            f"processor time of {whose}, {'an' if each[0] in 'aeiou' else 'a'} {each}", "part"
        )
        for each in ("transaction", "operation")
        for side, whose in _WHOSE.items()
    },
    **{
        f"energy_per_{each}_j": MetricInfo(f"energy of the host per {each}", "part", "zone")
        for each in ("transaction", "operation")
    },
    **{
        f"{each}_count": MetricInfo(f"{each}s done", "counter", each)
        for each in ("transaction", "operation")
    },
    "transaction_rolled_back_count": MetricInfo(
        "transactions rolled back", "counter", "transaction"
    ),
    "recovery_duration_ns": MetricInfo("time of the start after a kill", "headline"),
    "query_duration_ns": MetricInfo("query time", "detail", "query"),
    "refresh_duration_ns": MetricInfo("refresh function", "part", "function"),
    "stream_duration_ns": MetricInfo("query stream", "part", "stream"),
    "refresh_stream_duration_ns": MetricInfo("refresh stream", "part"),
    "stream_query_duration_ns": MetricInfo("query time during other streams", "breakdown", "query"),
    "query_timeout_ns": MetricInfo("limit that the query reached", "mark", "query"),
    "stream_query_timeout_ns": MetricInfo("limit that the query reached", "mark", "query"),
    # Linux reports the processor time of a process (proc(5), utime) in ticks of 1/100 s.
    "query_cpu_ns": MetricInfo(
        "processor time of the query (in ticks of 10 ms)", "counter", "query", 1e7
    ),
    "query_tier_read_bytes": MetricInfo("bytes read from the tier's device", "counter", "query"),
    "query_tier_write_bytes": MetricInfo("bytes written to the tier's device", "counter", "query"),
    "query_io_read_bytes": MetricInfo(
        "bytes fetched from storage for the engine", "counter", "query"
    ),
    "query_syscall_read_bytes": MetricInfo("bytes through read calls", "counter", "query"),
    "query_syscall_write_bytes": MetricInfo("bytes through write calls", "counter", "query"),
    "query_spilled_bytes": MetricInfo("bytes spilled to temporary files", "counter", "query"),
    "query_working_set_bytes": MetricInfo("working set, at least", "counter", "query"),
    "query_touched_file_bytes": MetricInfo(
        "file bytes touched, with what was read ahead", "counter", "query"
    ),
    "query_anonymous_peak_bytes": MetricInfo(
        "private memory taken, at its peak and at least", "counter", "query"
    ),
    "query_dram_read_bytes_per_s": MetricInfo("DRAM read bandwidth", "counter", "query"),
    "query_dram_write_bytes_per_s": MetricInfo("DRAM write bandwidth", "counter", "query"),
    "query_pmem_read_bytes_per_s": MetricInfo("PMem read bandwidth", "counter", "query"),
    "query_pmem_write_bytes_per_s": MetricInfo("PMem write bandwidth", "counter", "query"),
    # The kernel's ticks again (proc(5), utime).
    "window_duration_ns": MetricInfo("length of the window", "counter"),
    "window_cpu_ns": MetricInfo("processor time", "counter", None, 1e7),
    "io_duration_ns": MetricInfo("time of the engine's file I/O", "counter", "operation"),
    "io_calls_count": MetricInfo("the engine's file I/O, calls", "counter", "operation"),
    "io_bytes": MetricInfo("the engine's file I/O, bytes", "counter", "operation"),
    "io_trace_coverage_share": MetricInfo(
        "share of bytes that the I/O trace saw", "counter", "part"
    ),
    "wait_ns": MetricInfo("time of an operation by resource", "breakdown", "resource"),
    "wait_cpu_ns": MetricInfo("of that time, counted on processors", "breakdown"),
    "wait_accounted_share": MetricInfo("of that time, accounted for", "breakdown"),
    "wait_moments_count": MetricInfo("moments of observation", "breakdown"),
    "query_wait_ns": MetricInfo("query time by resource", "breakdown", "query"),
    "query_wait_cpu_ns": MetricInfo("of that time, counted on processors", "breakdown", "query"),
    "query_wait_accounted_share": MetricInfo("of that time, accounted for", "breakdown", "query"),
    "query_wait_moments_count": MetricInfo("moments of observation", "breakdown", "query"),
    "query_wait_sessions_count": MetricInfo("sessions at work", "breakdown", "query"),
    "observed_value": MetricInfo("summary of a second execution", "breakdown", "path"),
    "plan_operator_ns": MetricInfo("operator time", "breakdown", "query"),
    "plan_run_duration_ns": MetricInfo("time of the second execution", "breakdown", "query"),
}


#: Of counters that monitors give to a query and to the measured window alike.
_COUNTERS = {
    "energy_j": "energy of the host",
    "block_busy_ns": "time in which the device was busy",
    "block_queue_ns": "time of the device's requests, all together",
    "block_read_count": "the device's reads",
    "block_read_ns": "time of the device's reads",
    "block_write_count": "the device's writes",
    "block_write_ns": "time of the device's writes",
    "block_flush_count": "the device's flushes",
    "block_flush_ns": "time of the device's flushes",
    "io_bytes": "the engine's file I/O, bytes",
    "io_calls_count": "the engine's file I/O, calls",
    **{
        f"pressure_{resource}_{kind}_ns": f"time in which {tasks} waited for {what}"
        for resource, what in (("cpu", "a processor"), ("memory", "memory"), ("io", "I/O"))
        for kind, tasks in (("some", "a task"), ("full", "all tasks"))
    },
    "vm_pgmajfault_count": "major page faults",
    "vm_pgscan_count": "pages scanned for reclaim",
    "vm_pgsteal_count": "pages reclaimed",
    "vm_pswpin_count": "pages swapped in",
    "vm_pswpout_count": "pages swapped out",
    "vm_workingset_refault_count": "pages read again soon after reclaim",
    "vm_pgmigrate_success_count": "pages migrated",
    "vm_numa_hint_faults_count": "NUMA hinting faults",
    "vm_numa_pages_migrated_count": "pages migrated by NUMA balancing",
    "vm_pgdemote_count": "pages demoted to a slower node",
    "vm_pgpromote_success_count": "pages promoted to a faster node",
}


def counter_title(name: str) -> str | None:
    """Of ``window_block_busy_ns`` or ``query_block_busy_ns``; None where neither is known."""
    stem = name.removeprefix("window_").removeprefix("query_")
    known = _METRICS.get(name) or _METRICS.get(f"query_{stem}")
    return known.title if known else _COUNTERS.get(stem)


@dataclass(frozen=True)
class WorkloadInfo:
    """``essential``: parameters without which a number of the workload means nothing.

    ``brief``: more of them that a list of runs has room for.
    """

    title: str
    essential: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()


#: TPC's fair use: what was not audited carries neither its names nor its metrics.
_WORKLOADS: Mapping[str, WorkloadInfo] = {
    "tpch": WorkloadInfo("TPC-H-derived", brief=("scale",)),
    "tpcc": WorkloadInfo("TPC-C-derived", ("warehouses", "users"), ("duration", "rate")),
    "sql": WorkloadInfo("own queries", brief=("folder", "users")),
    "micro": WorkloadInfo("microbenchmarks", ("suite",)),
    "ycsb": WorkloadInfo("YCSB", ("workload", "records", "threads"), ("duration", "rate")),
}


@dataclass(frozen=True)
class Load:
    """A load that a client offers to a server, at a rate that may be set.

    ``users``: the parameter with the number of users; ``rate``: that which sets the rate.
    ``offered``, ``done``: the metrics of what was offered and done, in
    ``per_s`` times operations per second. ``durations``: the metric of the operations' times,
    distinguished by the label ``noun``. ``main``: the operation that stands for all of them;
    ``shares``: parameters with the share of each, where the largest does. Of equal shares the
    first: those that write come first, since they wait for log and data.
    """

    noun: Literal["operation", "transaction"]
    users: str
    rate: str
    offered: str
    done: str
    per_s: float
    durations: str
    main: str = ""
    shares: Mapping[str, str] = field(default_factory=dict)


_LOADS: Mapping[str, Load] = {
    "tpcc": Load(
        "transaction",
        "users",
        "rate",
        "offered_transactions_per_minute",
        "transactions_per_minute",
        60.0,
        "transaction_duration_ns",
        main="new_order",
    ),
    "sql": Load(
        "operation",
        "users",
        "rate",
        "offered_operations_per_second",
        "operations_per_second",
        1.0,
        "operation_duration_ns",
    ),
    "ycsb": Load(
        "operation",
        "threads",
        "rate",
        "offered_operations_per_second",
        "operations_per_second",
        1.0,
        "operation_duration_ns",
        shares={
            "update": "updateproportion",
            "insert": "insertproportion",
            "read_modify_write": "readmodifywriteproportion",
            "read": "readproportion",
            "scan": "scanproportion",
        },
    ),
}


def load_of(workload: str, params: JsonObject) -> Load | None:
    """What is known of the load that a workload offers; None where it offers none.

    Of the user's own workload only scripts are a load, not queries.
    """
    return _LOADS.get(workload) if workload != "sql" or params.get("script") else None


def metric_info(quantity: Quantity, better: Better) -> MetricInfo:
    """What is known of a metric, or what its labels and direction suggest."""
    if quantity.name in _METRICS:
        return _METRICS[quantity.name]
    title = counter_title(quantity.name) or quantity.name.replace("_", " ")
    axis = quantity.labels[0][0] if quantity.labels else None
    if quantity.name.startswith("query_") or better == "none":
        return MetricInfo(title, "counter", axis)
    return MetricInfo(title, "detail" if quantity.labels else "headline", axis)


def metric_title(quantity: Quantity, better: Better) -> str:
    """Name a quantity in words: ``query time, query 6``."""
    return ", ".join(filter(None, (metric_info(quantity, better).title, quantity.labels_text())))


def headline_first(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Headlines in the order of the table above, then the others in the order given."""
    known = list(_METRICS)
    return sorted(quantities, key=lambda q: known.index(q.name) if q.name in known else len(known))


def workload_title(workload: str) -> str:
    """Name a workload in words: ``TPC-H-derived`` for ``tpch``."""
    known = _WORKLOADS.get(workload)
    return known.title if known else workload


def essential_parameters(workload: str) -> tuple[str, ...]:
    """Names of the parameters that stand next to every number of a workload."""
    return _WORKLOADS.get(workload, WorkloadInfo(workload)).essential


def brief_parameters(workload: str) -> tuple[str, ...]:
    """What distinguishes runs of a workload in a list."""
    known = _WORKLOADS.get(workload, WorkloadInfo(workload))
    return (*known.essential, *known.brief)
