"""Bytes that the media of Optane modules read and wrote, and the effective write ratio.

``ipmctl show -dimm -performance`` counts, since the last power cycle, units of 64 bytes read from
and written to the media, and requests of 64 bytes that the memory controller sent. It talks to
each module's firmware and takes long, so it is read at both ends only. Modules also work when
idle (wear leveling, patrol scrub): the drift is measured at the start, over a second.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric
from harness.supervise import programs
from harness.warnings import RunWarning

_UNIT_BYTES = 64
_COMMAND = ("show", "-dimm", "-performance")
_TIMEOUT_S = 60
_MODULE = re.compile(r"---\s*DimmI[Dd]=(\w+)\s*---")
_COUNTER = re.compile(r"\s*(\w+)=(0x[0-9A-Fa-f]+|\d+)\s*")
#: Ours and ipmctl's names; those that it calls Total… are of the module's lifetime.
_COUNTERS = {
    "media_read_bytes": "MediaReads",
    "media_write_bytes": "MediaWrites",
    "request_read_bytes": "ReadRequests",
    "request_write_bytes": "WriteRequests",
}

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
    ) -> None:
        super().__init__(context)
        self._run = run or _ipmctl
        self._idle_s = idle_s
        self._idle: _Reading | None = None
        self._ends: list[_Reading] = []

    def preflight(self) -> RunWarning | None:
        """Whether ipmctl reports counters of a module."""
        try:
            printed = self._run()
        except (OSError, subprocess.SubprocessError) as error:
            return _problem(str(error))
        if media_counters(printed):
            return None
        lines = printed.strip().splitlines()
        return _problem(lines[0].strip() if lines else "ipmctl printed nothing")

    def start(self) -> None:
        """Read the counters, and again after an idle second."""
        self._idle = _read(self._run)
        time.sleep(self._idle_s)
        self._ends = [_read(self._run)]

    def stop(self) -> None:
        if self._ends:
            self._ends.append(_read(self._run))

    def series(self) -> Mapping[str, Any]:
        """``samples``: the ends, bytes by module; ``idle_bytes_per_s``: the drift by module."""
        return {
            "clock": "monotonic",
            "samples": [vars(reading) for reading in self._ends],
            "idle_bytes_per_s": self._drift(),
        }

    def metrics(self) -> Sequence[Metric]:
        """Of each module over the measured phase: bytes, and the effective write ratio.

        The ratio is requested over written bytes (FAST'20, Section 5.1): below 1 the media wrote
        more than was requested.
        """
        if len(self._ends) < 2:
            return []
        metrics = []
        for module, moved in _moved(*self._ends).items():
            labels = {"dimm": module}
            metrics += [
                Metric(f"phase_{name}", "B", "none", labels, value=float(value))
                for name, value in moved.items()
            ]
            if (ratio := effective_write_ratio(moved)) is not None:
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
    """Reads the modules' counters between the configurations of a suite.

    ``idle_write_bytes_per_s``: what all modules wrote by themselves in an idle second.
    """

    run: Callable[[], str]
    idle_write_bytes_per_s: float = 0.0
    _last: _Reading | None = None

    @classmethod
    def here(cls, run: Callable[[], str] | None = None, idle_s: float = 1.0) -> MediaReader | None:
        """Return a reader that has measured the drift; None where no module is counted."""
        reader = cls(run or _ipmctl)
        try:
            if not media_counters(reader.run()):
                return None
        except (OSError, subprocess.SubprocessError):
            return None
        reader.moved()
        time.sleep(idle_s)
        begin = reader._last
        written = reader.moved()["media_write_bytes"]
        assert begin is not None and reader._last is not None
        passed_ns = reader._last.monotonic_ns - begin.monotonic_ns
        reader.idle_write_bytes_per_s = written * 1e9 / max(1, passed_ns)
        return reader

    def moved(self) -> dict[str, int]:
        """Return the bytes of all modules since the last call, by counter."""
        before, after = self._last, _read(self.run)
        self._last = after
        every = _moved(before, after).values() if before else ()
        return {name: sum(by[name] for by in every) for name in _COUNTERS}


def effective_write_ratio(moved: Mapping[str, int]) -> float | None:
    """Return requested over written bytes (FAST'20, Section 5.1); None where none were written."""
    written = moved["media_write_bytes"]
    return moved["request_write_bytes"] / written if written > 0 else None


def media_counters(printed: str) -> Counts:
    """Bytes by module and counter; a module without all four counters is left out."""
    modules: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in printed.splitlines():
        if module := _MODULE.search(line):
            counters = modules.setdefault(module[1], {})
        elif counter := _COUNTER.fullmatch(line):
            counters[counter[1]] = int(counter[2], 0) * _UNIT_BYTES
    return {
        module: {name: found[theirs] for name, theirs in _COUNTERS.items()}
        for module, found in modules.items()
        if found.keys() >= set(_COUNTERS.values())
    }


def _read(run: Callable[[], str]) -> _Reading:
    begin = time.monotonic_ns()
    modules = media_counters(run())
    end = time.monotonic_ns()
    return _Reading((begin + end) // 2, (end - begin + 1) // 2, modules)


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
