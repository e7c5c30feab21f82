"""Bytes that the media of Optane modules read and wrote, and the effective write ratio.

``ipmctl show -dimm -performance`` counts, since the last power cycle, units of 64 bytes read from
and written to the media, and requests of 64 bytes that the memory controller sent. It talks to
each module's firmware and takes long, so it is read at both ends only. Only modules of the tiers in
use count. Modules also work when idle (wear leveling, patrol scrub): the drift is measured at the
start, over a second, and is subtracted from what the effective write ratio is made of.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric
from harness.supervise import programs
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.tiers.linux.pmem import module_ids
from harness.warnings import RunWarning

_UNIT_BYTES = 64
_COMMAND = ("show", "-dimm", "-performance")
_TIMEOUT_S = 60
_MODULE = re.compile(r"---\s*DimmI[Dd]=([\w-]+)\s*---")
_COUNTER = re.compile(r"\s*(\w+)=(0x[0-9A-Fa-f]+|\d+)\s*")
#: Ours and ipmctl's names; those that it calls Total… are of the module's lifetime.
_COUNTERS = {
    "media_read_bytes": "MediaReads",
    "media_write_bytes": "MediaWrites",
    "request_read_bytes": "ReadRequests",
    "request_write_bytes": "WriteRequests",
}

#: Share of the written bytes that idle modules write up to which there is a ratio: the drift is
#: measured once, and may be off by as much.
MOST_IDLE = 0.1
_IDLE = "idle_"

Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class _Reading:
    """Bytes so far by module and counter. ``stamp_error_ns``: half of the reading's duration."""

    monotonic_ns: int
    stamp_error_ns: int
    modules: Counts


class DimmMediaMonitor(Monitor):
    """Reads the modules' counters at both ends."""

    name: ClassVar[str] = "dimm-media"
    cost: ClassVar[str] = "runs ipmctl at both ends of the measured phase, waits 1 s at its start"

    def __init__(
        self,
        context: MonitorContext,
        run: Callable[[], str] | None = None,
        idle_s: float = 1.0,
        kernel: Kernel = LIVE,
    ) -> None:
        super().__init__(context)
        self._run = run or _ipmctl
        self._modules = modules_of(context.tiers, kernel)
        self._idle_s = idle_s
        self._idle: _Reading | None = None
        self._ends: list[_Reading] = []

    def preflight(self) -> RunWarning | None:
        """Return whether ipmctl reports counters of a module in use."""
        try:
            printed = self._run()
        except (OSError, subprocess.SubprocessError) as error:
            return _problem(str(error))
        if media_counters(printed, self._modules):
            return None
        lines = printed.strip().splitlines()
        return _problem(lines[0].strip() if lines else "ipmctl printed nothing")

    def start(self) -> None:
        """Read the counters, and again after an idle second."""
        self._idle = _read(self._run, self._modules)
        time.sleep(self._idle_s)
        self._ends = [_read(self._run, self._modules)]

    def stop(self) -> None:
        if self._ends:
            self._ends.append(_read(self._run, self._modules))

    def series(self) -> Mapping[str, Any]:
        """``samples``: the ends, bytes by module; ``idle_bytes_per_s``: the drift by module."""
        return {
            "clock": "monotonic",
            "samples": [vars(reading) for reading in self._ends],
            "idle_bytes_per_s": self._drift(),
        }

    def metrics(self) -> Sequence[Metric]:
        """Metrics of each module over the measured phase: bytes, and the effective write ratio."""
        if len(self._ends) < 2:
            return []
        metrics, drift = [], self._drift()
        passed_s = (self._ends[1].monotonic_ns - self._ends[0].monotonic_ns) / 1e9
        for module, moved in _moved(*self._ends).items():
            labels = {"dimm": module}
            metrics += [
                Metric(f"phase_{name}", "B", "none", labels, value=float(value))
                for name, value in moved.items()
            ]
            idle = {n: rate * passed_s for n, rate in drift.get(module, {}).items()}
            if (ratio := effective_write_ratio(_with_idle(moved, idle))) is not None:
                metrics.append(
                    Metric("phase_effective_write_ratio", "1", "none", labels, value=ratio)
                )
        return metrics

    def _drift(self) -> Mapping[str, Mapping[str, float]]:
        if self._idle is None or not self._ends:
            return {}
        passed_ns = self._ends[0].monotonic_ns - self._idle.monotonic_ns
        return {
            module: {name: value * 1e9 / passed_ns for name, value in moved.items()}
            for module, moved in _moved(self._idle, self._ends[0]).items()
        }


@dataclass
class MediaReader:
    """Reads the counters of a tier's modules around a window of a suite.

    ``modules``: as of :func:`modules_of`; ``idle_bytes_per_s``: what they moved by themselves in an
    idle second, by counter.
    """

    run: Callable[[], str]
    modules: frozenset[str] | None = None
    idle_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    _begun: _Reading | None = None

    @classmethod
    def of(
        cls,
        tier: Tier,
        run: Callable[[], str] | None = None,
        idle_s: float = 1.0,
        kernel: Kernel = LIVE,
    ) -> MediaReader | None:
        """Return a reader that has measured the drift; None where no module is counted."""
        reader = cls(run or _ipmctl, modules_of([tier], kernel))
        try:
            if not media_counters(reader.run(), reader.modules):
                return None
        except (OSError, subprocess.SubprocessError):
            return None
        reader.begin()
        time.sleep(idle_s)
        moved, passed_s = reader._moved()
        reader.idle_bytes_per_s = {name: value / passed_s for name, value in moved.items()}
        return reader

    def begin(self) -> None:
        """Begin a window."""
        self._begun = _read(self.run, self.modules)

    def moved(self) -> dict[str, float]:
        """Return the bytes of the modules since ``begin``, by counter; ``idle_…``: of these, what
        they would have moved anyway.
        """
        moved, passed_s = self._moved()
        idle = {name: rate * passed_s for name, rate in self.idle_bytes_per_s.items()}
        return _with_idle(moved, idle)

    def _moved(self) -> tuple[dict[str, int], float]:
        """And the seconds that passed."""
        assert self._begun is not None, "a window has begun"
        ended = _read(self.run, self.modules)
        every = _moved(self._begun, ended).values()
        passed_ns = max(1, ended.monotonic_ns - self._begun.monotonic_ns)
        return {name: sum(by[name] for by in every) for name in _COUNTERS}, passed_ns / 1e9


def modules_of(tiers: Iterable[Tier], kernel: Kernel = LIVE) -> frozenset[str] | None:
    """The modules below the tiers' regions; None, which is all of the host's, where no tier has a
    region (Memory mode).
    """
    regions = {name for tier in tiers for name in (tier.facts.region or "").split(", ") if name}
    return module_ids(regions, kernel) if regions else None


def _with_idle(moved: Mapping[str, float], idle: Mapping[str, float]) -> dict[str, float]:
    return {**moved, **{_IDLE + name: value for name, value in idle.items()}}


def effective_write_ratio(moved: Mapping[str, float]) -> float | None:
    """Return requested over written bytes (FAST'20, Section 5.1), without what idle modules move.

    Below 1 the media wrote more than was requested. None where too little of it was for requests.
    """
    written, idle = moved["media_write_bytes"], moved.get(_IDLE + "media_write_bytes", 0.0)
    if written <= 0 or idle > MOST_IDLE * written:
        return None
    requested = moved["request_write_bytes"] - moved.get(_IDLE + "request_write_bytes", 0.0)
    return max(0.0, requested) / (written - idle)


def media_counters(printed: str, modules: frozenset[str] | None = None) -> Counts:
    """Bytes by module and counter, of these modules (None: all).

    A module without all four counters is left out.
    """
    listed: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in printed.splitlines():
        if module := _MODULE.search(line):
            counters = listed.setdefault(module[1], {})
        elif counter := _COUNTER.fullmatch(line):
            counters[counter[1]] = int(counter[2], 0) * _UNIT_BYTES
    return {
        module: {name: counters[theirs] for name, theirs in _COUNTERS.items()}
        for module, counters in listed.items()
        if counters.keys() >= set(_COUNTERS.values())
        and (modules is None or module.lower() in modules)
    }


def _read(run: Callable[[], str], modules: frozenset[str] | None) -> _Reading:
    begin = time.monotonic_ns()
    counts = media_counters(run(), modules)
    end = time.monotonic_ns()
    return _Reading((begin + end) // 2, (end - begin + 1) // 2, counts)


def _moved(before: _Reading, after: _Reading) -> Counts:
    """The differences; a module that is in one reading only, or was reset, is left out."""
    moved = {
        module: {name: value - before.modules[module][name] for name, value in counts.items()}
        for module, counts in after.modules.items()
        if module in before.modules
    }
    return {module: by for module, by in moved.items() if min(by.values()) >= 0}


def _ipmctl() -> str:
    program = shutil.which("ipmctl")
    if program is None:
        raise FileNotFoundError("ipmctl is not installed")
    done = programs.run([program, *_COMMAND], timeout_s=_TIMEOUT_S)
    return done.stdout + done.stderr


def _problem(context: str) -> RunWarning:
    return RunWarning(
        "dimm-media-not-counted",
        "the media of PMem modules are not counted",
        context,
        "run as root on a host with Optane modules and ipmctl",
    )


MONITOR = DimmMediaMonitor
