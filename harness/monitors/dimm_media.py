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
        self._idle = self._read()
        time.sleep(self._idle_s)
        self._ends = [self._read()]

    def stop(self) -> None:
        if self._ends:
            self._ends.append(self._read())

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
            if moved["media_write_bytes"] > 0:
                ratio = moved["request_write_bytes"] / moved["media_write_bytes"]
                metrics.append(
                    Metric("phase_effective_write_ratio", "1", "none", labels, value=ratio)
                )
        return metrics

    def _read(self) -> _Reading:
        begin = time.monotonic_ns()
        modules = media_counters(self._run())
        end = time.monotonic_ns()
        return _Reading((begin + end) // 2, (end - begin + 1) // 2, modules)

    def _drift(self) -> Mapping[str, Mapping[str, float]]:
        if self._idle is None or not self._ends:
            return {}
        passed_ns = self._ends[0].monotonic_ns - self._idle.monotonic_ns
        return {
            module: {name: value * 1e9 / passed_ns for name, value in moved.items()}
            for module, moved in _moved(self._idle, self._ends[0]).items()
        }


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
