"""Work of Linux's memory management: faults, reclaim, swapping, migration, write-back.

The sources are ``/proc/vmstat``, on hosts with several NUMA nodes each node's ``vmstat``,
``/proc/PID/numa_maps``: on which nodes the engine's memory is, and ``memory.numa_stat`` of the
run's control group: on which its page cache is. Reading numa_maps takes the lock that page faults
need, so it is read at both ends only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.counters import labelled
from harness.monitors import MonitorContext, SampledMonitor
from harness.store.result import Metric
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.numa import group_memory, residency
from harness.warnings import RunWarning

#: What reclaims pages, or demotes them to a slower node; kernels lack some of them.
_RECLAIMERS = ("kswapd", "direct", "khugepaged", "proactive")
_NODES = "/sys/devices/system/node"
#: Counter, and the fields of vmstat that it sums.
_COUNTERS = {
    "vm_pgmajfault_count": ("pgmajfault",),
    "vm_pgscan_count": tuple(f"pgscan_{by}" for by in _RECLAIMERS),
    "vm_pgsteal_count": tuple(f"pgsteal_{by}" for by in _RECLAIMERS),
    "vm_pswpin_count": ("pswpin",),
    "vm_pswpout_count": ("pswpout",),
    "vm_workingset_refault_count": ("workingset_refault_anon", "workingset_refault_file"),
    "vm_pgmigrate_success_count": ("pgmigrate_success",),
    "vm_numa_hint_faults_count": ("numa_hint_faults",),
    "vm_numa_pages_migrated_count": ("numa_pages_migrated",),
    "vm_pgdemote_count": tuple(f"pgdemote_{by}" for by in _RECLAIMERS),
    **{f"vm_pgdemote_{by}_count": (f"pgdemote_{by}",) for by in _RECLAIMERS},
    "vm_pgpromote_success_count": ("pgpromote_success",),
    "vm_pgpromote_candidate_count": ("pgpromote_candidate",),
}
#: In the samples only: they move in every query and explain few.
_SAMPLED = {
    "vm_pgfault_count": ("pgfault",),
    "vm_nr_dirtied_count": ("nr_dirtied",),
    "vm_nr_written_count": ("nr_written",),
}
_ALL_SAMPLED = {**_COUNTERS, **_SAMPLED}
#: Of each node.
_NODE_COUNTERS = {
    "vm_node_numa_miss_count": ("numa_miss",),
    "vm_node_numa_foreign_count": ("numa_foreign",),
    "vm_node_pgdemote_count": _COUNTERS["vm_pgdemote_count"],
    "vm_node_pgpromote_success_count": ("pgpromote_success",),
}
#: Levels: in the samples, not in the totals.
_LEVELS = {
    "vm_nr_dirty_pages": "nr_dirty",
    "vm_nr_writeback_pages": "nr_writeback",
    "vm_nr_free_pages": "nr_free_pages",
    "vm_nr_anon_pages": "nr_anon_pages",
    "vm_nr_file_pages": "nr_file_pages",
}


#: Metrics by node, and the parts of a reading that each sums.
_MEMORY = {
    "vm_engine_memory_bytes": ("anonymous_bytes", "shared_bytes"),
    "vm_page_cache_bytes": ("page_cache_bytes",),
}


class VmMonitor(SampledMonitor):
    """Samples the host's counters once a second."""

    name: ClassVar[str] = "vm"
    cost: ClassVar[str] = "reads /proc/vmstat once a second, numa_maps of the engine at both ends"

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context, kernel)
        nodes = [name for name in kernel.names(_NODES) if name.removeprefix("node").isdigit()]
        #: On a host with one node they would repeat the host's.
        self._nodes = nodes if len(nodes) > 1 else []
        self._group = context.cgroup
        self._on_tmpfs = any(tier.facts.filesystem == "tmpfs" for tier in context.tiers)
        self._engine_memory: list[dict[str, Any]] = []

    def preflight(self) -> RunWarning | None:
        """Return whether /proc/vmstat can be read."""
        if self.totals():
            return None
        return RunWarning("vm-not-counted", "memory management is not counted", "no /proc/vmstat")

    def start(self) -> None:
        """Read the engine's memory, and start sampling."""
        self._read_engine_memory("start")
        super().start()

    def stop(self) -> None:
        """Stop sampling, and read the engine's memory again."""
        super().stop()
        self._read_engine_memory("stop")

    def totals(self) -> Mapping[str, float]:
        """Events since boot: ``vm_pgmajfault_count``; ``vm_node_numa_miss_count[node=1]``."""
        return {**_sums(self._vmstat("/proc/vmstat"), _COUNTERS), **self._node_totals()}

    def _node_totals(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        for node in self._nodes:
            sums = _sums(self._vmstat(f"{_NODES}/{node}/vmstat"), _NODE_COUNTERS)
            number = node.removeprefix("node")
            totals |= {labelled(name, node=number): value for name, value in sums.items()}
        return totals

    def series(self) -> Mapping[str, Any]:
        """The totals and levels (``vm_nr_dirty_pages``) over time, and ``engine_memory``.

        ``engine_memory: [{at, monotonic_ns, stamp_error_ns, anonymous_bytes: {node: n},
        shared_bytes}]``; shared pages count once for each process that maps them. With a control
        group of version 2, ``page_cache_bytes`` and, unless files on a tmpfs are part of it,
        ``group_bytes``: all of its memory, each page once.
        """
        return {**super().series(), "engine_memory": self._engine_memory}

    def sample(self) -> dict[str, float]:
        """The totals, and what is only in samples."""
        values = self._vmstat("/proc/vmstat")
        levels = {name: float(values[key]) for name, key in _LEVELS.items() if key in values}
        return {**_sums(values, _ALL_SAMPLED), **self._node_totals(), **levels}

    def metrics(self) -> Sequence[Metric]:
        """The engine's memory and page cache by node at both ends, on hosts with several nodes."""
        return [
            Metric(
                name,
                "B",
                "none",
                {"node": node.removeprefix("node"), "at": reading["at"]},
                value=sum(reading[kind].get(node.removeprefix("node"), 0) for kind in kinds),
            )
            for name, kinds in _MEMORY.items()
            for reading in self._engine_memory
            for node in self._nodes
            if all(kind in reading for kind in kinds)
        ]

    def _vmstat(self, path: str) -> dict[str, str]:
        words = (self._kernel.read(path) or "").split()
        return dict(zip(words[::2], words[1::2], strict=False))

    def _read_engine_memory(self, at: str) -> None:
        begin = time.monotonic_ns()
        pages = residency((process.pid for process in self._context.processes()), self._kernel)
        group = None if self._group is None else group_memory(self._group, self._kernel)
        end = time.monotonic_ns()
        of_group = {}
        if group is not None:
            of_group["page_cache_bytes"] = _by_node(group.page_cache)
            if not self._on_tmpfs:
                of_group["group_bytes"] = _by_node(group.whole)
        self._engine_memory.append(
            {
                "at": at,
                "monotonic_ns": (begin + end) // 2,
                "stamp_error_ns": (end - begin + 1) // 2,
                "anonymous_bytes": _by_node(pages.anonymous),
                "shared_bytes": _by_node(pages.shared),
                **of_group,
            }
        )


def _by_node(sizes: Mapping[int, int]) -> dict[str, int]:
    return {str(node): size for node, size in sorted(sizes.items())}


def _sums(values: Mapping[str, str], counters: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Each counter of which the kernel has a field."""
    return {
        name: float(sum(present))
        for name, fields in counters.items()
        if (present := [int(values[field]) for field in fields if field in values])
    }


MONITOR = VmMonitor
