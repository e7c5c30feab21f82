"""Host settings that affect results and are not controlled, each with a fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.host import free_memory, processors
from harness.host.cpu_quota import cpu_quotas
from harness.tiers.linux import ext4
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.tiers.linux.numa import nodes
from harness.units import format_bytes
from harness.warnings import RunWarning

#: Load average per processor above which something else is working here.
_BUSY_LOAD = 0.25
#: Share of processor time since boot that went to other guests of the hypervisor.
_STOLEN = 0.001
_KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"
#: Problem and hint of each setting of the host, by code.
_WARNINGS: Mapping[str, tuple[str, str]] = {
    "clock-frequency-unknown": (
        "the CPU clock frequency is not known",
        "load the driver; in a virtual machine, request fixed clocks",
    ),
    "frequency-governor": (
        "the frequency governor is not performance",
        "harness host apply tune (or cpupower frequency-set -g performance)",
    ),
    "turbo-enabled": (
        "turbo is enabled",
        "harness host apply tune (or echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo,"
        " echo 0 > /sys/devices/system/cpu/cpufreq/boost)",
    ),
    "smt-enabled": (
        "SMT is enabled",
        "echo off > /sys/devices/system/cpu/smt/control, or pin to one thread a core",
    ),
    "virtual-machine": (
        "the host is a virtual machine",
        "use bare metal, or repeat in blocks and trust paired differences only",
    ),
    "memory-given-back": (
        "the virtual machine gives free memory back to its hypervisor",
        "request a machine without free page reporting (a balloon device that keeps memory)",
    ),
    "stolen-cpu-time": (
        "the hypervisor takes processor time",
        "request dedicated processors",
    ),
    "cpu-quota": (
        "a control group limits processor time, and stops threads whose time is used up",
        "remove the quota (systemctl set-property UNIT CPUQuota=, docker update --cpus 0)",
    ),
    "other-load": (
        "other programs use the processors",
        "stop other programs (see top), or wait until they have ended",
    ),
    "transparent-huge-pages": (
        "transparent huge pages are always on",
        "harness host apply tune (or echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)",
    ),
    "swap-enabled": (
        "swap is enabled",
        "swapoff -a during the measurement",
    ),
    "address-randomization": (
        "address space layout is randomized",
        "repeat (layouts average out), or harness host apply tune"
        " --set tune_host_address_space_randomisation=0",
    ),
    "threads-not-pinned": (
        "threads are not pinned to a NUMA node",
        "place memory on a node (memory=dram), and the engine on its processors (--cpus node:0)",
    ),
    "numa-balancing": (
        "automatic NUMA balancing is on",
        "harness host apply tune (or sysctl kernel.numa_balancing=0)",
    ),
    "memory-demotion": (
        "memory demotion is on",
        "harness host apply tune (or echo false > /sys/kernel/mm/numa/demotion_enabled)",
    ),
}
#: Settings that `harness host apply tune` makes by default.
TUNED = frozenset(
    [
        "frequency-governor",
        "turbo-enabled",
        "transparent-huge-pages",
        "numa-balancing",
        "memory-demotion",
    ]
)
#: Settings by which Linux moves pages between nodes: a tiered memory policy has them on.
_MOVING = ("numa-balancing", "memory-demotion")
#: A code, and its context.
_Found = tuple[str, str]


def uncontrolled(
    tiers: Iterable[Tier] = (),
    kernel: Kernel = LIVE,
    *,
    pinned: bool = False,
    idle: bool = False,
) -> list[RunWarning]:
    """Warn of each setting of this host, and of the tiers in use.

    ``pinned``: each thread that is measured has a processor of its own, and does not roam.
    ``idle``: nothing of the harness has run for minutes, so that the load average is of others;
    of a run's measured phase, the monitor ``others`` says what they used.
    """
    tiers = [*tiers]
    confounders = [*_of_processors(kernel), *_of_memory(kernel, pinned)]
    if any(tier.claim.policy == "tiered" for tier in tiers):
        confounders = [item for item in confounders if item[0] not in _MOVING]
    confounders += _of_load(kernel) if idle else ()
    return [
        *(
            RunWarning(code, _WARNINGS[code][0], context, _WARNINGS[code][1])
            for code, context in confounders
        ),
        *_damon(kernel),
        *(warning for tier in tiers for warning in _of_tier(tier, kernel)),
    ]


def _of_processors(kernel: Kernel) -> Iterator[_Found]:
    governor = processors.governor(kernel)
    if governor is None:
        yield "clock-frequency-unknown", "no cpufreq driver"
    elif governor != "performance":
        yield "frequency-governor", governor
    if processors.turbo(kernel):
        yield "turbo-enabled", "clocks depend on temperature and on the number of busy cores"
    if processors.smt(kernel):
        yield "smt-enabled", "two threads share each core"
    where = processors.virtualised(kernel)
    if where:
        yield "virtual-machine", where
    stolen = _stolen_share(kernel)
    if stolen is not None and stolen > _STOLEN:
        yield "stolen-cpu-time", f"{stolen:.1%} since boot went to other guests"
    quotas = cpu_quotas(kernel.path("/proc/self"))
    if quotas:
        least = min(quotas, key=lambda quota: quota.processors)
        yield "cpu-quota", f"{least.processors:g} processors in {least.directory}"


def _of_load(kernel: Kernel) -> Iterator[_Found]:
    average = float((kernel.read("/proc/loadavg") or "0").split()[0])
    threads = processors.cpu(kernel).threads
    if average > _BUSY_LOAD * threads:
        yield "other-load", f"load average {average:.2f} on {threads} processors"


def _stolen_share(kernel: Kernel) -> float | None:
    """Steal over all ticks, from the first line of /proc/stat (proc(5))."""
    fields = (kernel.read("/proc/stat") or "").partition("\n")[0].split()
    ticks = [int(field) for field in fields[1:9]]
    total = sum(ticks)
    return ticks[7] / total if len(ticks) == 8 and total > 0 else None


def _of_memory(kernel: Kernel, pinned: bool) -> Iterator[_Found]:
    if free_memory.is_given_back(kernel):
        yield "memory-given-back", "virtio_balloon reports free pages"
    if processors.thp(kernel) == "always":
        yield "transparent-huge-pages", "khugepaged merges pages in the background"
    swap_bytes = kernel.meminfo().get("SwapTotal", 0)
    if swap_bytes:
        yield "swap-enabled", f"{format_bytes(swap_bytes)} of swap space"
    setting = processors.aslr(kernel)
    if setting not in (None, "off"):
        yield "address-randomization", str(setting)
    with_cpus = [node.node for node in nodes(kernel) if node.cpus]
    if len(with_cpus) > 1 and not pinned:
        yield "threads-not-pinned", f"processors on nodes {', '.join(map(str, with_cpus))}"
    if kernel.read("/proc/sys/kernel/numa_balancing") not in (None, "0"):
        yield "numa-balancing", "Linux moves pages between nodes during a run"
    if kernel.read("/sys/kernel/mm/numa/demotion_enabled") in ("true", "1"):
        yield "memory-demotion", "Linux moves pages of a full node to a slower one"


def _damon(kernel: Kernel) -> Iterator[RunWarning]:
    """The kernel's access monitor, whose schemes act on pages as they get cold or hot.

    No reclaim counter in /proc/vmstat counts its pageout (admin-guide/mm/damon).
    """
    for monitor in kernel.names(_KDAMONDS):
        state = kernel.read(f"{_KDAMONDS}/{monitor}/state")
        if state is None and kernel.names(f"{_KDAMONDS}/{monitor}"):
            yield _unreadable(f"DAMON kdamond {monitor}")
        if state == "on":
            actions = ", ".join(sorted(set(_damon_actions(kernel, monitor))))
            yield RunWarning(
                code="damon-active",
                problem=f"DAMON kdamond {monitor}",
                context=f"on: {actions} by what is cold or hot"
                if actions
                else "on: monitors pages",
                hint=f"echo off > {_KDAMONDS}/{monitor}/state",
            )
    for module in ("damon_reclaim", "damon_lru_sort", "damon_stat"):
        parameters = f"/sys/module/{module}/parameters"
        enabled = kernel.read(f"{parameters}/enabled")
        if enabled is None and "enabled" in kernel.names(parameters):
            yield _unreadable(f"DAMON module {module}")
        if enabled == "Y":
            do = f"echo N > {parameters}/enabled"
            yield RunWarning(
                code="damon-active", problem=f"DAMON module {module}", context="on", hint=do
            )


def _unreadable(what: str) -> RunWarning:
    return RunWarning(
        code="damon-unreadable",
        problem=what,
        context="only root may read whether it is on",
        hint="run harness doctor as root",
    )


def _damon_actions(kernel: Kernel, monitor: str) -> Iterator[str]:
    """Actions of its schemes: ``pageout``, ``migrate_cold``, …; ``stat`` only counts."""
    contexts = f"{_KDAMONDS}/{monitor}/contexts"
    for context in kernel.names(contexts):
        for scheme in kernel.names(f"{contexts}/{context}/schemes"):
            action = kernel.read(f"{contexts}/{context}/schemes/{scheme}/action")
            if action not in (None, "stat"):
                yield str(action)


def _of_tier(tier: Tier, kernel: Kernel) -> Iterator[RunWarning]:
    options = set(tier.facts.mount_options)
    off = options & {"nobarrier", "barrier=0"}
    if off:
        yield RunWarning(
            code="write-barriers-off",
            problem=f"tier {tier.name} is mounted without write barriers",
            context=f"mounted {', '.join(sorted(off))}: fsync does not reach the device",
            hint=f"mount -o remount,barrier {tier.facts.mount_point}",
        )
    yield from _lazy_initialisation(tier, kernel)
    if tier.facts.kind == "tmpfs" and kernel.meminfo().get("SwapTotal", 0):
        yield RunWarning(
            code="tmpfs-swappable",
            problem=f"tier {tier.name} can be swapped out",
            context="a tmpfs on a host with swap space",
            hint="swapoff -a during the measurement",
        )


def _lazy_initialisation(tier: Tier, kernel: Kernel) -> Iterator[RunWarning]:
    """A fresh ext4 whose inode tables Linux still writes.

    Without the right to read the device, the thread's existence shows that of some file system.
    """
    facts = tier.facts
    if facts.filesystem != "ext4" or facts.read_only or "noinit_itable" in facts.mount_options:
        return
    groups = ext4.lazy_groups(facts.device, kernel) if facts.device else None
    if groups and groups.waiting:
        context = f"{groups.waiting} of {groups.groups} inode tables are still to be written"
    elif groups is None and ext4.thread_runs(kernel):
        context = f"{ext4.THREAD} is running, for this or another file system"
    else:
        return
    yield RunWarning(
        code="ext4lazyinit",
        problem=f"Linux is still initialising the file system of tier {tier.name}",
        context=context,
        hint=f"wait until pgrep {ext4.THREAD} prints nothing (sooner after mount -o"
        f" remount,init_itable=0 {facts.mount_point}), or make it with mkfs.ext4 -E {ext4.EAGER}",
    )
