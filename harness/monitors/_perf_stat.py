"""``perf stat``: counts events on all processors, and prints the counts of each interval as JSON.

perf has the names and encodings of each processor's events. Its stamps are seconds of the monotonic
clock since a moment between its start and its first answer on the control descriptor.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness import jsonfile
from harness.supervise import programs
from harness.units import NS_PER_S
from harness.warnings import RunWarning

#: The time that perf may take to open its events, to print an interval, and to end.
PATIENCE_S = 10
_UNSUPPORTED = "<not supported>"
_MS_NS = 1_000_000


@dataclass(frozen=True)
class EventCount:
    """A count of an event; ``value`` None: not counted. Clocks are in ns.

    ``stamp_s``: the end of its interval, since perf began (0: perf has none). ``running_share``:
    the share of the interval in which it was counted. ``unit``: of a value that perf has scaled.
    ``socket``: empty unless perf counts by socket. ``supported``: the processor has the event.
    """

    event: str
    value: float | None
    stamp_s: float
    running_share: float
    unit: str = ""
    socket: str = ""
    supported: bool = True


def counts(printed: str) -> Iterator[EventCount]:
    """Yield what ``perf stat -j`` prints, a count on each line; other lines are its messages."""
    for line in printed.splitlines():
        try:
            row = jsonfile.parse(line)
            event, text, share = row["event"], row["counter-value"], float(row["pcnt-running"])
        except (ValueError, TypeError, KeyError):
            continue
        if row.get("aggregate-number") == 0:  # a socket without such counters
            continue
        value, unit = None, str(row.get("unit", ""))
        with suppress(ValueError):  # <not counted>, <not supported>
            value = float(text) * (_MS_NS if unit == "msec" else 1)
        stamp_s, socket = float(row.get("interval", 0)), str(row.get("socket", "")).lstrip("S")
        supported = text != _UNSUPPORTED
        yield EventCount(str(event), value, stamp_s, share / 100, unit, socket, supported)


class PerfStat:
    """A perf that passes its counts on, as they come, on a thread of its own.

    ``earliest_ns`` and ``latest_ns``: bounds of the moment from which it counts its stamps.
    ``options``: what perf is called with, next to its events. ``ended``: the status of a perf that
    ended before its stop.
    """

    def __init__(
        self,
        program: str,
        interval_s: float,
        on_count: Callable[[EventCount], None],
        options: Sequence[str] = (),
    ) -> None:
        self.program = shutil.which(program)
        self.earliest_ns = self.latest_ns = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.ended: int | None = None
        self._interval_s, self._on_count = interval_s, on_count
        self._options = ("-j", "-a", *options)
        self._output = self._control = -1
        self._reader = threading.Thread(target=self._follow, name="monitor-perf", daemon=True)

    @property
    def prints(self) -> bool:
        """Return whether perf may still print counts."""
        return self._reader.is_alive()

    def tried(self, events: Sequence[str]) -> tuple[list[EventCount], str]:
        """Count these events for a moment; without counts, why perf does not count."""
        if self.program is None:
            return [], "perf is not installed"
        argv = [self.program, "stat", *self._options, "-e", ",".join(events), "true"]
        try:
            done = programs.run(argv, timeout_s=PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return [], str(error)
        if done.returncode == 0 and (counted := list(counts(done.stderr))):
            return counted, ""
        lines = [line for line in done.stderr.splitlines() if line.strip(" :") not in ("", "Error")]
        return [], lines[0] if lines else f"perf ended with status {done.returncode}"

    def start(self, events: Sequence[str], options: Sequence[str] = ()) -> None:
        """Start perf, and wait until it counts. ``options``: those that follow the events."""
        assert self.program is not None
        commands, self._control = os.pipe()
        answers, answer = os.pipe()
        self._output, log = os.pipe()
        argv = [
            *(self.program, "stat", *self._options, "-I", str(round(self._interval_s * 1000))),
            *("-D", "-1", "--control", f"fd:{commands},{answer}", "--log-fd", str(log)),
            *("-e", ",".join(events), *options),
        ]
        before = time.monotonic_ns()
        try:
            self.process = programs.start(argv, descriptors=(commands, answer, log))
        finally:
            for descriptor in (commands, answer, log):
                os.close(descriptor)
        self._reader.start()
        try:
            os.write(self._control, b"enable\n")
            if not select.select([answers], [], [], PATIENCE_S)[0]:
                raise RuntimeError(f"perf did not begin to count within {PATIENCE_S} s")
            if not os.read(answers, 16):
                raise RuntimeError("perf ended before it counted")
        finally:
            os.close(answers)
        self.earliest_ns, self.latest_ns = before, time.monotonic_ns()

    def stop(self) -> None:
        """End perf, which then prints its last counts; it may have been killed."""
        if (process := self.process) is None:
            return
        if not self.prints:  # its output has ended; so will it, in a moment
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        self.ended = process.poll()
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        programs.end(process)
        self.process = None
        self._reader.join(PATIENCE_S)
        os.close(self._control)

    def warnings(self, monitor: str) -> Sequence[RunWarning]:
        """Warn about a perf that was killed."""
        if self.ended is None:
            return []
        context = f"perf ended with status {self.ended}"
        return [RunWarning("monitor-failed", f"monitor {monitor} is incomplete", context)]

    def receive(self, line: str, received_ns: int) -> None:
        """Pass on the count of a line that perf has printed, unless it is of no interval."""
        for count in counts(line):
            if count.stamp_s:
                begun_ns = received_ns - round(count.stamp_s * NS_PER_S)
                self.latest_ns = max(self.earliest_ns, min(self.latest_ns, begun_ns))
                self._on_count(count)

    def _follow(self) -> None:
        with os.fdopen(self._output, encoding="utf-8", errors="replace") as output:
            for line in output:
                self.receive(line, time.monotonic_ns())
