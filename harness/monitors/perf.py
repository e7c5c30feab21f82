"""Events of the processors, counted by ``perf stat``.

perf has the tables of each processor's events. It counts on all processors, for the run's control
group alone where the run has one of version 2, and prints the counts of each interval as JSON. Its
stamps are seconds of the monotonic clock since a moment between its start and its first answer on
the control descriptor; ``stamp_error_ns`` is at most as long as that.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from harness import jsonfile
from harness.counters import labelled
from harness.monitors import Monitor, MonitorContext
from harness.supervise import programs
from harness.tiers.linux.kernel import LIVE, Kernel
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
_UNSUPPORTED = "<not supported>"
_DEVICES = "/sys/bus/event_source/devices"
#: PMUs of processors: x86, hybrid x86, Arm.
_PMUS = ("cpu", "cpu_core", "cpu_atom", "armv8", "armv9")
_CGROUPS = "/sys/fs/cgroup"
#: The time that perf may take to open its events, and to end.
_PATIENCE_S = 10
_NS_PER_S, _MS_NS = 1_000_000_000, 1_000_000


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
        self._program = shutil.which(program)
        self._group = _group(context, kernel)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._follow, name="monitor-perf", daemon=True)
        self._printed: list[tuple[int, str]] = []
        self._began: tuple[int, int] = (0, 0)
        self._ended: int | None = None
        self._output = self._control = -1

    def preflight(self) -> RunWarning | None:
        """Whether there is a PMU, and a perf that may count with it."""
        hint = "run as root, on bare metal or in a virtual machine with a virtual PMU"
        if not any(name.startswith(_PMUS) for name in self._kernel.names(_DEVICES)):
            return _problem("the kernel offers no PMU of the processors", hint)
        if self._program is None:
            return _problem("perf is not installed", "install the perf of this kernel (linux-perf)")
        problem = None
        for choice in CHOICES:
            printed, problem = _tried(self._program, [*self._base, *choice])
            if not problem and (choice is CHOICES[-1] or _UNSUPPORTED not in printed):
                self._events = (*self._base, *choice)
                return None
        return _problem(problem or "perf counts nothing", hint)

    def start(self) -> None:
        """Start perf, and wait until it counts."""
        assert self._program is not None
        commands, self._control = os.pipe()
        answers, answer = os.pipe()
        self._output, log = os.pipe()
        group = ["-G", ",".join([self._group] * len(self._events))] if self._group else []
        argv = [
            *(self._program, "stat", "-j", "-a", "-I", str(round(self._interval_s * 1000))),
            *("-D", "-1", "--control", f"fd:{commands},{answer}", "--log-fd", str(log)),
            *("-e", ",".join(self._events), *group),
        ]
        before = time.monotonic_ns()
        try:
            self._process = programs.start(argv, descriptors=(commands, answer, log))
        finally:
            for descriptor in (commands, answer, log):
                os.close(descriptor)
        self._reader.start()
        try:
            os.write(self._control, b"enable\n")
            if not select.select([answers], [], [], _PATIENCE_S)[0]:
                raise RuntimeError(f"perf did not begin to count within {_PATIENCE_S} s")
            if not os.read(answers, 16):
                raise RuntimeError("perf ended before it counted")
        finally:
            os.close(answers)
        self._began = (before, time.monotonic_ns())

    def stop(self) -> None:
        """End perf, which then prints its last counts; it may have been killed."""
        if (process := self._process) is not None:
            self._ended = process.poll()
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
            programs.end(process)
            self._process = None
            self._reader.join(_PATIENCE_S)
            os.close(self._control)

    def series(self) -> Mapping[str, Any]:
        """``samples: [{monotonic_ns, perf_cycles[of=host], …}]``: counts since the previous one.

        ``of=run``: of the run's control group. ``pmu``: on hybrid processors. ``running_share``:
        of each event, the least share of an interval in which it was counted; below 1 its counts
        are scaled by perf.
        """
        earliest, latest = self._bounds()
        of = "run" if self._group else "host"
        samples: dict[float, dict[str, Any]] = {}
        running: dict[str, float] = {}
        for _, count in self._counts():
            sample = samples.setdefault(
                count.stamp_s, {"monotonic_ns": latest + round(count.stamp_s * _NS_PER_S)}
            )
            if count.value is not None:
                sample[_counter(count.event, of)] = count.value
                least = min(running.get(count.event, 1.0), count.running_share)
                running[count.event] = least
        return {
            "interval_s": self._interval_s,
            "clock": "monotonic",
            "stamp_error_ns": latest - earliest,
            "running_share": running,
            "samples": list(samples.values()),
        }

    def warnings(self) -> Sequence[RunWarning]:
        """Of events that shared their counters, and of a perf that was killed."""
        shared = {e: s for e, s in self.series()["running_share"].items() if s < 1}
        found = ", ".join(f"{event} for {share:.0%}" for event, share in sorted(shared.items()))
        hint = "stop other users of the processors' counters, such as the NMI watchdog"
        multiplexed = RunWarning(
            "perf-multiplexed", "perf counted for a part of the time", found, hint
        )
        ended = RunWarning(
            "monitor-failed", "monitor perf is incomplete", f"perf ended with status {self._ended}"
        )
        return [*([multiplexed] if shared else []), *([ended] if self._ended is not None else [])]

    def _follow(self) -> None:
        with os.fdopen(self._output, encoding="utf-8", errors="replace") as output:
            for line in output:
                self._printed.append((time.monotonic_ns(), line))

    def _counts(self) -> Iterator[tuple[int, Count]]:
        """Yield the counts of intervals, each with the moment at which it was printed."""
        for received, line in self._printed:
            yield from ((received, count) for count in counts(line) if count.stamp_s)

    def _bounds(self) -> tuple[int, int]:
        """The earliest and latest moment from which perf counts its stamps."""
        earliest, latest = self._began
        for received, count in self._counts():
            latest = min(latest, received - round(count.stamp_s * _NS_PER_S))
        return earliest, max(earliest, latest)


@dataclass(frozen=True)
class Count:
    """A count of an event; ``value`` None: not counted or not supported. Clocks are in ns.

    ``stamp_s``: the end of its interval, since perf began (0: perf has none). ``running_share``:
    the share of the interval in which it was counted.
    """

    event: str
    value: float | None
    stamp_s: float
    running_share: float


def counts(printed: str) -> Iterator[Count]:
    """Yield what ``perf stat -j`` prints, a count on each line; other lines are its messages."""
    for line in printed.splitlines():
        try:
            row = jsonfile.parse(line)
            event, text, share = row["event"], row["counter-value"], float(row["pcnt-running"])
        except (ValueError, TypeError, KeyError):
            continue
        value = None
        with suppress(ValueError):  # <not counted>, <not supported>
            value = float(text) * (_MS_NS if row.get("unit") == "msec" else 1)
        yield Count(str(event), value, float(row.get("interval", 0)), share / 100)


def _counter(event: str, of: str) -> str:
    """``perf_stalls_l3_miss[of=…]`` of ``cycle_activity.stalls_l3_miss``; of ``cpu_core/cycles/``,
    as on hybrid processors, ``perf_cycles[of=…,pmu=cpu_core]``.
    """
    pmu, _, name = event.rstrip("/").rpartition("/")
    labels = {"of": of, "pmu": pmu} if pmu else {"of": of}
    return labelled(f"perf_{name.rpartition('.')[2].replace('-', '_')}", **labels)


def _tried(program: str, events: Sequence[str]) -> tuple[str, str]:
    """What perf prints when it counts these for a moment, and why it does not (empty: it does)."""
    argv = [program, "stat", "-j", "-a", "-e", ",".join(events), "true"]
    try:
        done = programs.run(argv, timeout_s=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode == 0 and any(counts(done.stderr)):
        return done.stderr, ""
    lines = done.stderr.strip().splitlines()
    return "", lines[0] if lines else f"perf ended with status {done.returncode}"


def _group(context: MonitorContext, kernel: Kernel) -> str | None:
    """The run's control group below the root of the hierarchy; None: the whole host."""
    root = kernel.path(_CGROUPS)
    if context.cgroup is None or not context.cgroup.is_relative_to(root):
        return None
    return str(context.cgroup.relative_to(root))


def _problem(context: str, hint: str) -> RunWarning:
    return RunWarning("perf-not-counted", "processor events are not counted", context, hint)


MONITOR = PerfMonitor
