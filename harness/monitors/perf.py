"""Events of the processors, counted by ``perf stat``.

It counts on all processors, for the run's control group alone where the run has one of version 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.counters import labelled
from harness.monitors import Monitor, MonitorContext
from harness.monitors._perf_stat import EventCount, PerfStat
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.units import NS_PER_S
from harness.warnings import RunWarning

#: Few enough for the counters of any processor: perf would otherwise count them in turn.
EVENTS = (
    "cycles",
    "instructions",
    "task-clock",
    "context-switches",
    "cpu-migrations",
    "page-faults",
)
#: The first of these that the processor has is counted, too: they would not fit together.
#: Cycles in which execution stalls while a demand load misses a cache (Intel, from Skylake on; the
#: second form in tables without the first), and in which the store buffer is full and no load is
#: outstanding: what reports.stalls divides. Other processors count no stalls by cache.
CHOICES = (
    *(
        (
            *(f"{kind}_activity.stalls_{cache}_miss" for cache in ("l1d", "l2", "l3")),
            "exe_activity.bound_on_stores",
        )
        for kind in ("cycle", "memory")
    ),
    ("cache-references", "cache-misses"),
)
_DEVICES = "/sys/bus/event_source/devices"
#: PMUs of processors: x86, hybrid x86, Arm.
_PMUS = ("cpu", "cpu_core", "cpu_atom", "armv8", "armv9")
_CGROUPS = "/sys/fs/cgroup"


class PerfMonitor(Monitor):
    """Runs perf, and reads what it prints."""

    name: ClassVar[str] = "perf"
    cost: ClassVar[str] = "runs perf stat, which reads its counters once a second"

    def __init__(
        self,
        context: MonitorContext,
        kernel: Kernel = LIVE,
        interval_s: float = 1.0,
        events: Sequence[str] = EVENTS,
        program: str = "perf",
    ) -> None:
        super().__init__(context)
        self._kernel, self._interval_s = kernel, interval_s
        self._base = self._events = tuple(events)
        self._group = _group(context, kernel)
        self._counts: list[EventCount] = []
        self.perf = PerfStat(program, interval_s, self._counts.append)

    def preflight(self) -> RunWarning | None:
        """Return whether there is a PMU, and a perf that may count with it."""
        hint = "run as root, on bare metal or in a virtual machine with a virtual PMU"
        if not any(name.startswith(_PMUS) for name in self._kernel.names(_DEVICES)):
            return _problem("the kernel offers no PMU of the processors", hint)
        if self.perf.program is None:
            return _problem("perf is not installed", "install the perf of this kernel (linux-perf)")
        problem = None
        for choice in CHOICES:
            counted, problem = self.perf.tried([*self._base, *choice])
            whole = all(count.supported for count in counted)
            if not problem and (choice is CHOICES[-1] or whole):
                self._events = (*self._base, *choice)
                return None
        return _problem(problem or "perf counts nothing", hint)

    def start(self) -> None:
        """Start perf, and wait until it counts."""
        group = ["-G", ",".join([self._group] * len(self._events))] if self._group else []
        self.perf.start(self._events, group)

    def stop(self) -> None:
        """End perf, which then prints its last counts; it may have been killed."""
        self.perf.stop()

    def series(self) -> Mapping[str, Any]:
        """``samples: [{monotonic_ns, perf_cycles[of=host], …}]``: counts since the previous one.

        ``of=run``: of the run's control group. ``pmu``: on hybrid processors. ``running_share``:
        of each event, the least share of an interval in which it was counted; below 1 its counts
        are scaled by perf.
        """
        of = "run" if self._group else "host"
        samples: dict[float, dict[str, Any]] = {}
        running: dict[str, float] = {}
        for count in list(self._counts):
            stamp_ns = self.perf.latest_ns + round(count.stamp_s * NS_PER_S)
            sample = samples.setdefault(count.stamp_s, {"monotonic_ns": stamp_ns})
            if count.value is not None:
                sample[_counter(count.event, of)] = count.value
                least = min(running.get(count.event, 1.0), count.running_share)
                running[count.event] = least
        return {
            "interval_s": self._interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self.perf.latest_ns - self.perf.earliest_ns,
            "running_share": running,
            "samples": list(samples.values()),
        }

    def warnings(self) -> Sequence[RunWarning]:
        """Warnings of events that shared their counters, and of a perf that was killed."""
        shared = {e: s for e, s in self.series()["running_share"].items() if s < 1}
        shares = ", ".join(f"{event} for {share:.0%}" for event, share in sorted(shared.items()))
        hint = "stop other users of the processors' counters, such as the NMI watchdog"
        multiplexed = RunWarning(
            "perf-multiplexed", "perf counted for a part of the time", shares, hint
        )
        return [*([multiplexed] if shared else []), *self.perf.warnings(self.name)]


def _counter(event: str, of: str) -> str:
    """``perf_stalls_l3_miss[of=…]`` of ``cycle_activity.stalls_l3_miss``; of ``cpu_core/cycles/``,
    as on hybrid processors, ``perf_cycles[of=…,pmu=cpu_core]``.
    """
    pmu, _, name = event.rstrip("/").rpartition("/")
    labels = {"of": of, "pmu": pmu} if pmu else {"of": of}
    return labelled(f"perf_{name.rpartition('.')[2].replace('-', '_')}", **labels)


def _group(context: MonitorContext, kernel: Kernel) -> str | None:
    """The run's control group below the root of the hierarchy; None: the whole host."""
    root = kernel.path(_CGROUPS)
    if context.cgroup is None or not context.cgroup.is_relative_to(root):
        return None
    return str(context.cgroup.relative_to(root))


def _problem(context: str, hint: str) -> RunWarning:
    return RunWarning("perf-not-counted", "processor events are not counted", context, hint)


MONITOR = PerfMonitor
