"""What moves results and nobody holds still, each with how to hold it still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypedDict

from harness.host import cpu as processors
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.tiers.linux.numa import nodes
from harness.units import format_bytes

#: Load average per processor above which something else is working here.
_BUSY_LOAD = 0.25
#: Share of processor time since boot that went to other guests of the hypervisor.
_STOLEN = 0.001
_KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"


class Finding(TypedDict):
    """``what`` is uncontrolled, what was ``found``, and what to ``do`` about it."""

    what: str
    found: str
    do: str


def uncontrolled(
    tiers: Iterable[Tier] = (), kernel: Kernel = LIVE, *, pinned: bool = False
) -> list[Finding]:
    """Everything found on this host now, and on the tiers in use.

    ``pinned``: each thread that is measured has a processor of its own, and does not roam.
    """
    checks = (check for check in _CHECKS if not (pinned and check is _roaming))
    found = [finding for check in checks for finding in check(kernel)]
    return [*found, *(finding for tier in tiers for finding in _of_tier(tier, kernel))]


def _frequency(kernel: Kernel) -> Iterator[Finding]:
    governor = processors.governor(kernel)
    if governor is None:
        yield Finding(
            what="clock frequency",
            found="no cpufreq driver: nobody here knows the clock",
            do="on a server of your own: load the driver; in a VM: ask for fixed clocks",
        )
    elif governor != "performance":
        yield Finding(
            what="frequency governor",
            found=governor,
            do="cpupower frequency-set -g performance",
        )
    if processors.turbo(kernel):
        yield Finding(
            what="turbo",
            found="on: clocks follow temperature and the number of busy cores",
            do="echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
            " (or echo 0 > /sys/devices/system/cpu/cpufreq/boost)",
        )


def _sharing(kernel: Kernel) -> Iterator[Finding]:
    if processors.smt(kernel):
        yield Finding(
            what="SMT",
            found="two threads share each core",
            do="echo off > /sys/devices/system/cpu/smt/control, or pin to one thread of each core",
        )
    where = processors.virtualised(kernel)
    if where:
        yield Finding(
            what="virtualisation",
            found=where,
            do="use bare metal, or repeat in interleaved blocks and trust only paired differences",
        )
    stolen = _stolen_share(kernel)
    if stolen is not None and stolen > _STOLEN:
        yield Finding(
            what="stolen processor time",
            found=f"{stolen:.1%} since boot went to other guests",
            do="ask for dedicated processors",
        )
    average = float((kernel.read("/proc/loadavg") or "0").split()[0])
    threads = processors.cpu(kernel).threads
    if average > _BUSY_LOAD * threads:
        yield Finding(
            what="other load",
            found=f"load average {average:.2f} on {threads} processors",
            do="stop what else is running (top), or wait until it has ended",
        )


def _stolen_share(kernel: Kernel) -> float | None:
    """Steal over all ticks, from the first line of /proc/stat (proc(5))."""
    fields = (kernel.read("/proc/stat") or "").partition("\n")[0].split()
    ticks = [int(field) for field in fields[1:9]]
    total = sum(ticks)
    return ticks[7] / total if len(ticks) == 8 and total > 0 else None


def _memory(kernel: Kernel) -> Iterator[Finding]:
    if processors.thp(kernel) == "always":
        yield Finding(
            what="transparent huge pages",
            found="always: khugepaged merges pages in the background",
            do="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    swap_bytes = kernel.meminfo().get("SwapTotal", 0)
    if swap_bytes:
        yield Finding(
            what="swap",
            found=f"{format_bytes(swap_bytes)} of swap space",
            do="swapoff -a for the time of the measurement",
        )
    setting = processors.aslr(kernel)
    if setting not in (None, "off"):
        yield Finding(
            what="address space randomisation",
            found=str(setting),
            do="repeat (layouts average out), or sysctl kernel.randomize_va_space=0",
        )


def _roaming(kernel: Kernel) -> Iterator[Finding]:
    with_cpus = [node.node for node in nodes(kernel) if node.cpus]
    if len(with_cpus) > 1:
        yield Finding(
            what="NUMA placement",
            found=f"processors on nodes {', '.join(map(str, with_cpus))}: threads roam",
            do="place memory on a node (memory=dram) and run under numactl --cpunodebind",
        )


def _balancing(kernel: Kernel) -> Iterator[Finding]:
    if kernel.read("/proc/sys/kernel/numa_balancing") not in (None, "0"):
        yield Finding(
            what="automatic NUMA balancing",
            found="on: the kernel moves pages during a run",
            do="sysctl kernel.numa_balancing=0",
        )
    if kernel.read("/sys/kernel/mm/numa/demotion_enabled") in ("true", "1"):
        yield Finding(
            what="memory demotion",
            found="on: of a node that is full the kernel moves pages to a slower one",
            do="echo false > /sys/kernel/mm/numa/demotion_enabled",
        )


def _damon(kernel: Kernel) -> Iterator[Finding]:
    """The kernel's access monitor, whose schemes act on pages as they get cold or hot.

    No counter of reclaim in /proc/vmstat tells of its pageout (admin-guide/mm/damon).
    """
    for monitor in kernel.names(_KDAMONDS):
        state = kernel.read(f"{_KDAMONDS}/{monitor}/state")
        if state is None and kernel.names(f"{_KDAMONDS}/{monitor}"):
            yield _unreadable(f"DAMON kdamond {monitor}")
        if state == "on":
            actions = ", ".join(sorted(set(_damon_actions(kernel, monitor))))
            yield Finding(
                what=f"DAMON kdamond {monitor}",
                found=f"on: {actions} by what is cold or hot" if actions else "on: monitors pages",
                do=f"echo off > {_KDAMONDS}/{monitor}/state",
            )
    for module in ("damon_reclaim", "damon_lru_sort", "damon_stat"):
        parameters = f"/sys/module/{module}/parameters"
        enabled = kernel.read(f"{parameters}/enabled")
        if enabled is None and "enabled" in kernel.names(parameters):
            yield _unreadable(f"DAMON module {module}")
        if enabled == "Y":
            do = f"echo N > {parameters}/enabled"
            yield Finding(what=f"DAMON module {module}", found="on", do=do)


def _unreadable(what: str) -> Finding:
    return Finding(
        what=what,
        found="it is here, and only root may read whether it is on",
        do="ask as root: harness doctor",
    )


def _damon_actions(kernel: Kernel, monitor: str) -> Iterator[str]:
    """Those of its schemes: ``pageout``, ``migrate_cold``, …; ``stat`` only counts."""
    contexts = f"{_KDAMONDS}/{monitor}/contexts"
    for context in kernel.names(contexts):
        for scheme in kernel.names(f"{contexts}/{context}/schemes"):
            action = kernel.read(f"{contexts}/{context}/schemes/{scheme}/action")
            if action not in (None, "stat"):
                yield str(action)


def _of_tier(tier: Tier, kernel: Kernel) -> Iterator[Finding]:
    options = set(tier.facts.mount_options)
    off = options & {"nobarrier", "barrier=0"}
    if off:
        yield Finding(
            what=f"write barriers of tier {tier.name}",
            found=f"mounted {', '.join(sorted(off))}: fsync does not reach the medium",
            do=f"mount -o remount,barrier {tier.facts.mount_point}",
        )
    if tier.facts.kind == "tmpfs" and kernel.meminfo().get("SwapTotal", 0):
        yield Finding(
            what=f"tier {tier.name} can be swapped out",
            found="a tmpfs on a host with swap space",
            do="swapoff -a for the time of the measurement",
        )


_CHECKS: tuple[Callable[[Kernel], Iterator[Finding]], ...] = (
    _frequency,
    _sharing,
    _memory,
    _roaming,
    _balancing,
    _damon,
)
