"""Traffic of CXL ports, by ``pcm-memory`` of Intel PCM, for hosts whose devices have no counters.

Its CSV (``display_bandwidth_csv`` in src/pcm-memory.cpp) has two lines of headers, sockets and
names, and a line of MB/s for each interval. Granite Rapids counts both directions of each port;
Sapphire and Emerald Rapids count writes by port, and reads of the whole host, from groups of events
that take turns.
"""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.counters import labelled
from harness.monitors._program import interrupt
from harness.supervise import programs
from harness.supervise.user_files import refuse_writable

VARIABLE = "PCM_HOME"
_PLACES = ("pcm-memory", "bin/pcm-memory", "sbin/pcm-memory", "build/bin/pcm-memory")
_PORT = re.compile(r"CXL\.mem_P(\d+)(Read|Write)")
_BYTES_PER_MB = 1_000_000
#: It looks for the counters of all sockets before it begins.
_PATIENCE_S = 60
_NS_PER_S, _NS_PER_MS = 1_000_000_000, 1_000_000


class PcmTable:
    """Reads the CSV line by line. ``columns``: our names by position, once the headers are read."""

    def __init__(self) -> None:
        self.columns: Mapping[int, str] = {}
        self._sockets: Sequence[str] = ()

    def read(self, line: str) -> tuple[int, dict[str, float]] | None:
        """Wall-clock time in ns and bytes per second by name, of a line of figures.

        None for any other line, and for one that lacks a figure: a sum without it would be wrong.
        """
        fields = [field.strip() for field in next(csv.reader([line]), [])]
        if fields[:2] == ["Date", "Time"]:
            self.columns = dict(self._names(fields))
        elif fields[:2] == ["", ""]:
            self._sockets = fields
        elif self.columns and len(fields) > max(self.columns):
            try:
                at = datetime.strptime(" ".join(fields[:2]), "%Y-%m-%d %H:%M:%S.%f")
                rates = {n: float(fields[i]) * _BYTES_PER_MB for i, n in self.columns.items()}
            except ValueError:
                return None
            if all(math.isfinite(rate) and rate >= 0 for rate in rates.values()):
                return round(at.replace(tzinfo=UTC).timestamp() * 1000) * _NS_PER_MS, rates
        return None

    def _names(self, fields: Sequence[str]) -> list[tuple[int, str]]:
        names = []
        for at, (socket, field) in enumerate(zip(self._sockets, fields, strict=False)):
            if port := _PORT.fullmatch(field):
                labels = {"port": port[1], "socket": socket.removeprefix("SKT")}
                names.append((at, labelled(f"cxl_{port[2].lower()}_bytes", **labels)))
            elif (socket, field) == ("System", "CXLRead"):
                names.append((at, labelled("cxl_read_bytes", of="host")))
        return names


class PcmTraffic:
    """Runs pcm-memory. ``home``: where it is installed."""

    def __init__(self, home: Path, interval_s: float = 1.0) -> None:
        self._home, self._interval_s = home, interval_s
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._follow, name="monitor-pcm", daemon=True)
        self._table = PcmTable()
        self._samples: list[dict[str, Any]] = []
        self._late_ns = 0
        self._begun = threading.Event()
        #: Exit status of a program that ended by itself.
        self.ended: int | None = None

    @classmethod
    def installed(cls) -> PcmTraffic | None:
        """That of ``$PCM_HOME``; None where the user names none: it programs the counters."""
        home = os.environ.get(VARIABLE)
        return cls(Path(home)) if home else None

    def problem(self) -> str | None:
        """Why it cannot count; None if it prints columns of CXL ports."""
        if (program := self._program()) is None:
            return f"there is no pcm-memory in {VARIABLE}={self._home}"
        argv = self._argv("-i=1")
        try:
            if os.geteuid() == 0:
                refuse_writable(program.resolve().parent)
            done = programs.run(argv, timeout_s=_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        table = PcmTable()
        for line in done.stdout.splitlines():
            table.read(line)
        if table.columns:
            return None
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        if done.returncode == 0:
            return "pcm-memory reports no CXL port"
        return errors[-1] if errors else f"pcm-memory ended with status {done.returncode}"

    def start(self) -> None:
        """Start it, and wait for its first line; RuntimeError if there is none."""
        self._process = programs.start(self._argv(), stdout=subprocess.PIPE)
        self._reader.start()
        if not self._begun.wait(_PATIENCE_S) or not self._samples:
            raise RuntimeError("pcm-memory printed no figures")

    def stop(self) -> None:
        """End it; it may have been killed."""
        if self._process is None:
            return
        self.ended = interrupt(self._process, _PATIENCE_S)
        self._process = None
        self._reader.join()

    def series(self) -> Mapping[str, Any]:
        """``samples: [{monotonic_ns, cxl_read_bytes[…]}]``: bytes since the first sample."""
        return {
            "interval_s": self._interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self._late_ns,
            "events": ["pcm-memory"],
            "samples": self._samples,
        }

    def moved(self) -> Mapping[str, float]:
        """Bytes between the first sample and the last; none where it was killed before the end."""
        if len(self._samples) < 2 or self.ended is not None:
            return {}
        return {n: value for n, value in self._samples[-1].items() if n != "monotonic_ns"}

    def _program(self) -> Path | None:
        places = (self._home / place for place in _PLACES)
        return next((place for place in places if os.access(place, os.X_OK)), None)

    def _argv(self, *more: str) -> list[str]:
        """Without channels of DRAM; ``-f`` flushes each line."""
        return [str(self._program()), f"{self._interval_s:g}", "-nc", "-csv", "-f", *more]

    def _follow(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                if (found := self._table.read(line.decode(errors="replace"))) is not None:
                    self._add(*found)
                    self._begun.set()
        self._begun.set()

    def _add(self, printed_ns: int, rates: Mapping[str, float]) -> None:
        """A line's rates are means since the previous line. It has its time in milliseconds."""
        monotonic_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        self._late_ns = max(self._late_ns, abs(wall_ns - printed_ns) + _NS_PER_MS)
        before = self._samples[-1] if self._samples else {"monotonic_ns": monotonic_ns}
        passed_s = (monotonic_ns - before["monotonic_ns"]) / _NS_PER_S
        moved = {n: before.get(n, 0.0) + rate * passed_s for n, rate in rates.items()}
        self._samples.append({"monotonic_ns": monotonic_ns, **moved})
