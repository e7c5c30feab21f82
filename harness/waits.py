"""Time of operations by its use: sessions' states by resource.

An engine observes its foreground sessions (``WaitObserver``); :class:`SampledWaits` turns the
observations into cumulative times, and :func:`explain` into the parts of a measured latency.

A part is called ``processor`` only as far as Linux counted processor time, or waiting for a
processor, of the sessions' threads. What nothing accounts for is ``other``. A session whose wait is
over still shows it while it is in the run queue: ``processor`` has all of that time, and the parts
add up to more than the latency then.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from harness.counters import labelled, split
from harness.host.threads import KeptFiles, Scheduled, Thread, scheduled
from harness.store.result import Metric
from harness.units import format_ns
from harness.warnings import RunWarning

Resource = Literal[
    "processor",
    "data read",
    "data write",
    "log write",
    "log sync",
    "lock",
    "buffer",
    "client",
    "other",
]
RESOURCES: tuple[Resource, ...] = get_args(Resource)

#: The parts add up to the measured latency when the rest is within this share of it.
TOLERANCE = 0.10
#: With fewer observations of active sessions, shares are off by more than a tenth.
LEAST_SAMPLES = 25
_WAIT, _PREFIX = "wait_ns", "wait_"
#: The counter of the time in which a background task was at work: in series only.
BACKGROUND = "wait_background_ns"
#: The counter of the time that the I/O trace saw sessions in calls, by part and operation.
IO = "wait_io_ns"
#: What a call of the trace waits for.
_CALLS: Mapping[tuple[str, str], Resource] = {
    ("wal", "write"): "log write",
    ("wal", "sync"): "log sync",
    **{(part, "read"): "data read" for part in ("data", "wal", "temp", "index")},
    **{(part, op): "data write" for part in ("data", "temp", "index") for op in ("write", "sync")},
}
#: Of the other attributes of the totals.
_COUNTERS = {
    "running_ns": "wait_running_ns",
    "idle_ns": "wait_idle_ns",
    "cpu_ns": "wait_cpu_ns",
    "queued_ns": "wait_queued_ns",
    "samples": "wait_samples_count",
    "elapsed_ns": "wait_elapsed_ns",
    "elapsed_squares": "wait_elapsed_squares",
}


@dataclass(frozen=True)
class Observation:
    """A foreground session at one moment, or a task in the background.

    ``running``: it waits for nothing that the engine knows of. ``idle``: it waits for its next
    operation. ``background``: no session. ``event``: of ``waiting``, the engine's name of it; of
    ``background``, the task (``checkpoint``). ``thread``: which executes
    it; None where that is not a thread of this host.
    """

    state: Literal["running", "waiting", "idle", "background"]
    event: str = ""
    thread: Thread | None = None


class WaitObserver(ABC):
    """An engine's view of its foreground sessions. It survives restarts of the engine."""

    #: The resource that each event waits for; of ``type:event``, the type where that is not known.
    events: Mapping[str, Resource]

    def resource(self, event: str) -> Resource:
        """The resource that an event waits for."""
        return self.events.get(event) or self.events.get(event.partition(":")[0]) or "other"

    @abstractmethod
    def observe(self) -> Sequence[Observation]:
        """Foreground sessions and background tasks now; an exception where it does not answer."""

    def threads(self, observations: Sequence[Observation]) -> Iterable[Thread]:
        """The threads of sessions, whose processor time counts; by default those observed."""
        return (
            observation.thread for observation in observations if observation.thread is not None
        )

    def close(self) -> None:
        """Close what it opened; no error where the engine is gone."""


@dataclass(frozen=True)
class WaitTotals:
    """Times of sessions, cumulative or of an interval, summed over sessions.

    ``waits``: by resource. ``running_ns``: active without a wait. ``idle_ns``: between two
    operations that follow at once. ``cpu_ns``, ``queued_ns``: on a processor, and in the run queue,
    as Linux counted it. ``samples``: observations of active sessions. ``background``: by task, no
    sessions'.
    ``elapsed_ns``, ``elapsed_squares``: the moments' times and their squares, added up.
    ``io_ns``: in calls that the I/O trace timed, by resource; None where it traced nothing.
    """

    waits: Mapping[str, float] = field(default_factory=dict)
    running_ns: float = 0.0
    idle_ns: float = 0.0
    cpu_ns: float = 0.0
    queued_ns: float = 0.0
    samples: float = 0.0
    background: Mapping[str, float] = field(default_factory=dict)
    elapsed_ns: float = 0.0
    elapsed_squares: float = 0.0
    io_ns: Mapping[str, float] | None = None

    @property
    def moments(self) -> float:
        """Number of equal moments of observation that are as precise as these."""
        return self.elapsed_ns**2 / self.elapsed_squares if self.elapsed_squares else 0.0

    def counters(self) -> dict[str, float]:
        """As counters of a monitor."""
        waits = {labelled(_WAIT, resource=name): value for name, value in self.waits.items()}
        return {
            **waits,
            **{counter: getattr(self, name) for name, counter in _COUNTERS.items()},
            **{labelled(BACKGROUND, task=name): ns for name, ns in self.background.items()},
        }


def take(counters: Mapping[str, float]) -> tuple[WaitTotals | None, dict[str, float]]:
    """The totals among an interval's counters, and the other counters."""
    rest = {name: value for name, value in counters.items() if not name.startswith(_PREFIX)}
    waits = {
        split(name)[1]["resource"]: value
        for name, value in counters.items()
        if split(name)[0] == _WAIT
    }
    if _COUNTERS["samples"] not in counters:
        return None, rest
    others: dict[str, Any] = {n: counters.get(counter, 0.0) for n, counter in _COUNTERS.items()}
    return WaitTotals(waits, **others, io_ns=_io_ns(counters)), rest


def _io_ns(counters: Mapping[str, float]) -> dict[str, float] | None:
    traced = [(split(n)[1], ns) for n, ns in counters.items() if split(n)[0] == IO]
    times: dict[str, float] = {}
    for labels, ns in traced:
        if resource := _CALLS.get((labels["part"], labels["operation"])):
            times[resource] = times.get(resource, 0.0) + ns
    return times if traced else None


class SampledWaits:
    """Cumulative times from observations; an observation stands for the time since the last.

    Safe to call from several threads.
    """

    def __init__(
        self, observer: WaitObserver, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._lock = threading.Lock()
        self._last_ns: int | None = None
        self._events: defaultdict[str, float] = defaultdict(float)
        self._background: defaultdict[str, float] = defaultdict(float)
        self._running_ns = self._idle_ns = 0.0
        self._samples = 0
        self._elapsed_ns = self._elapsed_squares = 0.0
        self._scheduled = _ScheduledTotals()

    def sample(self) -> None:
        """Observe the sessions now; a failed observation leaves a gap."""
        with self._lock:
            began_ns = self._clock()
            try:
                observations = self._observer.observe()
            except Exception:
                self._last_ns = None
                raise
            elapsed_ns = 0 if self._last_ns is None else began_ns - self._last_ns
            self._last_ns = began_ns
            if any(observation.state != "background" for observation in observations):
                self._elapsed_ns += elapsed_ns
                self._elapsed_squares += elapsed_ns**2
            for observation in observations:
                self._add(observation, elapsed_ns)
            self._scheduled.see(self._observer.threads(observations))

    def totals(self) -> WaitTotals:
        """The times so far, with the processor time until now."""
        with self._lock:
            resources = sorted(set(self._observer.events.values()))
            waits: dict[str, float] = dict.fromkeys(resources, 0.0)
            for event, ns in self._events.items():
                resource = self._observer.resource(event)
                waits[resource] = waits.get(resource, 0.0) + ns
            spent = self._scheduled.read()
            return WaitTotals(
                waits,
                self._running_ns,
                self._idle_ns,
                spent.ran_ns,
                spent.queued_ns,
                self._samples,
                dict(self._background),
                self._elapsed_ns,
                self._elapsed_squares,
            )

    def events(self) -> dict[str, dict[str, str | float]]:
        """``{event: {resource, wait_ns}}``, the longest first."""
        with self._lock:
            ordered = sorted(self._events.items(), key=lambda item: -item[1])
            return {
                event: {"resource": self._observer.resource(event), "wait_ns": ns}
                for event, ns in ordered
            }

    def close(self) -> None:
        with self._lock:
            self._observer.close()
            self._scheduled.close()

    def _add(self, observation: Observation, elapsed_ns: int) -> None:
        if observation.state == "idle":
            self._idle_ns += elapsed_ns
            return
        if observation.state == "background":
            self._background[observation.event] += elapsed_ns
            return
        self._samples += elapsed_ns > 0
        if observation.state == "running":
            self._running_ns += elapsed_ns
        else:
            self._events[observation.event] += elapsed_ns


class _ScheduledTotals:
    """Sum over threads that come and go. Those of the first look count from then on."""

    def __init__(self) -> None:
        self._threads: dict[Thread, Scheduled] | None = None
        self._ended = self._before = Scheduled()
        self._files = KeptFiles()

    def see(self, threads: Iterable[Thread]) -> None:
        if self._threads is None:
            self._threads = {thread: self._of(thread) or Scheduled() for thread in threads}
            self._before = _sum(self._threads.values())
            return
        for thread in threads:
            if thread not in self._threads:
                self._threads[thread] = self._of(thread) or Scheduled()

    def read(self) -> Scheduled:
        threads = self._threads or {}
        for thread in list(threads):
            now = self._of(thread)
            if now is None:  # it has ended: what it computed since the last reading is lost
                self._ended = _sum([self._ended, threads.pop(thread)])
            else:
                threads[thread] = now
        total = _sum([self._ended, *threads.values()])
        return Scheduled(*(now - before for now, before in zip(total, self._before, strict=True)))

    def _of(self, thread: Thread) -> Scheduled | None:
        return scheduled(thread, self._files.read)

    def close(self) -> None:
        self._files.close()


def _sum(times: Iterable[Scheduled]) -> Scheduled:
    return Scheduled(*(sum(each) for each in zip(Scheduled(), *times, strict=True)))


@dataclass(frozen=True)
class Breakdown:
    """The parts of one operation's latency. They add up to at least ``latency_ns``.

    ``accounted_share``: of the latency, what is not the remainder. ``why``: empty where the
    parts add up within :data:`TOLERANCE`, else the reason. ``moments``: see ``WaitTotals``.
    ``sessions``: the mean number that worked on one statement; None of several operations.
    ``cpu_ns``: of the latency, what Linux counted as processor time of the sessions' threads. It
    may exceed the part ``processor``: a call shows a wait while it copies.
    """

    parts_ns: Mapping[str, float]
    latency_ns: float
    accounted_share: float
    why: str = ""
    moments: float = 0.0
    sessions: float | None = None
    cpu_ns: float = 0.0

    def metrics(self, prefix: str = "", labels: Mapping[str, str] | None = None) -> list[Metric]:
        """``wait_ns`` by resource, ``wait_cpu_ns``, ``wait_accounted_share`` and
        ``wait_moments_count``.
        """
        common = labels or {}
        metrics = [
            Metric(f"{prefix}{_WAIT}", "ns", "none", {**common, "resource": name}, value=value)
            for name, value in self.parts_ns.items()
        ]
        rest = {"accounted_share": self.accounted_share, "moments_count": self.moments}
        if self.sessions is not None:
            rest["sessions_count"] = self.sessions
        return [
            *metrics,
            Metric(f"{prefix}wait_cpu_ns", "ns", "none", common, value=self.cpu_ns),
            *(Metric(f"{prefix}wait_{n}", "1", "none", common, value=v) for n, v in rest.items()),
        ]


def explain(
    totals: WaitTotals, latency_ns: float, count: float = 1, closed: bool = True
) -> Breakdown | None:
    """The parts of the latency of ``count`` operations at the same time or one by one.

    ``latency_ns``: of all of them. ``closed``: a session that waits for an operation is in one
    of its client. None without an operation.
    """
    if latency_ns <= 0 or count <= 0:
        return None
    if totals.samples < LEAST_SAMPLES:
        return _too_few(totals.samples, latency_ns, count)
    waits = dict(totals.waits)
    if closed and totals.idle_ns:
        waits["client"] = waits.get("client", 0.0) + totals.idle_ns
    return _breakdown(totals, waits, totals.cpu_ns, latency_ns, count)


def explain_alone(
    totals: WaitTotals, latency_ns: float, cpu_ns: float | None = None
) -> Breakdown | None:
    """The parts of one statement's latency, executed by one or several sessions.

    The time of parallel sessions is scaled to that of the statement. ``cpu_ns``: on processors, of
    all processes, where it is known: short-lived workers are missing among the threads observed.
    One that was observed too rarely is divided by what was counted.
    """
    active_ns = totals.running_ns + sum(totals.waits.values())
    if latency_ns <= 0:
        return None
    if totals.samples < LEAST_SAMPLES or not active_ns:
        return _counted(totals, latency_ns) or _too_few(totals.samples, latency_ns)
    sessions = max(1.0, active_ns / latency_ns)
    counted_ns = max(totals.cpu_ns, cpu_ns or 0.0)
    breakdown = _breakdown(totals, totals.waits, counted_ns, latency_ns * sessions, sessions)
    return replace(breakdown, sessions=sessions)


def _counted(totals: WaitTotals, latency_ns: float) -> Breakdown | None:
    """The parts by counters alone: on processors and in the run queue by Linux, in calls by the
    trace. None without a trace: of parallel sessions, processor time alone says little.

    What is computed within a call is in both, so the calls' share is a lower bound.
    """
    if totals.io_ns is None or not totals.cpu_ns:
        return None
    counted = {**totals.io_ns, "processor": totals.cpu_ns + totals.queued_ns}
    sessions = max(1.0, sum(counted.values()) / latency_ns)
    parts = {name: ns / sessions for name, ns in counted.items() if ns or name == "processor"}
    share = sum(parts.values()) / latency_ns
    parts["other"] = max(0.0, latency_ns - sum(parts.values()))
    why = ""
    if share < 1 - TOLERANCE:
        why = f"processor time and traced calls add up to {share:.0%} of {format_ns(latency_ns)}"
    cpu_ns = min(latency_ns, totals.cpu_ns / sessions)
    return Breakdown(parts, latency_ns, share, why, sessions=sessions, cpu_ns=cpu_ns)


def _too_few(samples: float, latency_ns: float, count: float = 1) -> Breakdown:
    mean_ns = latency_ns / count
    why = f"{samples:.0f} observations of active sessions, of {LEAST_SAMPLES} needed"
    return Breakdown({"other": mean_ns}, mean_ns, 0.0, why)


def _breakdown(
    totals: WaitTotals,
    waits: Mapping[str, float],
    cpu_ns: float,
    latency_ns: float,
    count: float,
) -> Breakdown:
    """Divide the time of ``count`` operations by resource.

    Waits and running are as observed; what Linux counted in the run queue is the processor's, also
    where the session still showed a wait that was over.
    """
    processor_ns = max(totals.queued_ns, min(totals.running_ns, cpu_ns + totals.queued_ns))
    own_other_ns = waits.get("other", 0.0)
    sum_ns = sum(waits.values()) + processor_ns
    rest_ns = max(0.0, latency_ns - sum_ns)
    parts: dict[str, float] = {
        **{name: waits[name] for name in RESOURCES if name in waits},
        "processor": processor_ns,
        "other": own_other_ns + rest_ns,
    }
    share = sum_ns / latency_ns
    why = ""
    if abs(1 - share) > TOLERANCE:
        mean = format_ns(round(latency_ns / count))
        why = f"waits and processor time add up to {share:.0%} of the mean of {mean}"
        queued = max(0.0, totals.queued_ns - totals.running_ns) / latency_ns
        if queued > TOLERANCE:
            why += f"; for {queued:.0%}, sessions showed a wait and waited for a processor"
    each = {name: ns / count for name, ns in parts.items()}
    spent_ns = min(latency_ns, totals.cpu_ns) / count
    return Breakdown(each, latency_ns / count, share, why, totals.moments, cpu_ns=spent_ns)


def unaccounted(named: Mapping[str, Breakdown]) -> Iterator[RunWarning]:
    """A warning where parts do not add up; ``named``: by operation or query."""
    wrong = {name: reader.why for name, reader in named.items() if reader.why}
    if not wrong:
        return
    shown = [f"{name}: {why}" if name else why for name, why in list(wrong.items())[:3]]
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    yield RunWarning(
        "waits-unaccounted",
        "the times by resource do not add up to the latency",
        "; ".join(shown) + more,
        "docs/waits.md says what each reason means, and what each engine does not report",
    )
