"""A parser of the lines that the official client prints.

The official client ends with status 0 whatever has become of it: exceptions are printed and
its threads give up silently. The first line that reports a failure counts as one, and only
a client that has printed ``[OVERALL]`` at its end has done its work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import hdr, jsonfile
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.later import np
from harness.supervise.user_files import Credentials, acting_as, read_text
from harness.units import NS_PER_US

#: A status line: its moment (wall clock, UTC) and the operations of all threads so far.
_STATUS = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d):(?P<ms>\d{3}) \d+ sec: (?P<operations>\d+) operations;"
)
_OURS = re.compile(r"tierbench: (?P<name>\S+) ?(?P<words>.*)")
_EXCEPTION = re.compile(
    r"(?:Exception in thread \S+ )?(?P<what>(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b.*)"
)
_REFUSAL = re.compile(
    r"(Unknown DB .*|Error initializing datastore bindings.*|Invalid combination of .*"
    r"|Must have constant field size .*|Missing property.*|Could not export measurements.*"
    r"|Error inserting, not retrying.*|Unable to open the properties file.*"
    r"|Could not find exporter.*|Error: Could not find or load main class.*"
    r"|# A fatal error has been detected.*|Error occurred during initialization of VM.*)"
)
_RESULT = re.compile(r"\[(?P<group>[^\]]+)\], (?P<name>[^,]+), (?P<value>\S+)")
_FEWER = "Warning: the threadcount is bigger"


@dataclass(frozen=True)
class Tick:
    """One status line: when it was made by the client's wall clock, and operations so far."""

    at_ms: int
    operations: int


@dataclass
class YcsbOutput:
    """The state that the client's lines describe; a ``failure`` ends the client.

    ``results``: those printed at its end, by group and name. ``retried``: by the engine's
    code. By the name of the query, ``clocks``: its wall clock in milliseconds
    and its monotonic one in nanoseconds (that of the host, as ours); ``counters``: the
    engine's. ``ended``: it has done what it will do, and waits for its stdin to end.
    """

    failure: str | None = None
    ended: bool = False
    fewer_threads: bool = False
    retried: Counter[str] = field(default_factory=Counter)
    clocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    counters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    results: dict[tuple[str, str], float] = field(default_factory=dict)

    def read_line(self, line: str) -> Tick | None:
        """Read a line of its stderr; the status in it, if any."""
        if match := _STATUS.search(line):
            moment = datetime.strptime(match["at"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            at_ms = int(moment.timestamp()) * 1000 + int(match["ms"])
            return Tick(at_ms, int(match["operations"]))
        if match := _OURS.match(line):
            self._read_ours(match["name"], match["words"])
        elif self.failure is None and (match := _EXCEPTION.match(line) or _REFUSAL.match(line)):
            self.failure = line.strip()
        return None

    def read_result(self, line: str) -> None:
        """A line of its stdout."""
        if match := _RESULT.match(line):
            with suppress(ValueError):  # other words are no result
                self.results[match["group"], match["name"]] = float(match["value"])
        elif line.startswith(_FEWER):
            self.fewer_threads = True
        elif self.failure is None and (_EXCEPTION.match(line) or _REFUSAL.match(line)):
            self.failure = line.strip()

    def total(self, group: str, name: str) -> int:
        """A count printed at its end; 0 where there is none."""
        return int(self.results.get((group, name), 0))

    def _read_ours(self, name: str, words: str) -> None:
        if name == "failed" and self.failure is None:
            self.failure = words
        elif name == "retried":
            self.retried[words.rpartition(" ")[2]] += 1
        elif name == "counters":
            name, _, counters = words.partition(" ")
            self.counters[name] = jsonfile.parse(counters or "{}")
        elif name == "clock":
            name, wall_ms, monotonic_ns = words.split()
            self.clocks[name] = int(wall_ms), int(monotonic_ns)
        elif name == "ended":
            self.ended = True


#: Of V1 in words of eight bytes.
_COOKIE, _COMPRESSED = 0x1C849381, 0x1C849382
_START = "#[StartTime: "
_SUFFIX = ".hdr"
#: Far more than a histogram each second of a day.
_MAX_LOG_BYTES = 1 << 30
#: As the native client's: 1 ns … 1 h, three digits.
STORED = Layout(lowest=1, highest=3_600_000_000_000, digits=3)


@dataclass(frozen=True)
class StatusInterval:
    """An interval by the wall clock, in milliseconds, and the operations that ended in it."""

    begin_ms: int
    end_ms: int
    histogram: Histogram

    @property
    def count(self) -> int:
        """Operations that ended in it."""
        return self.histogram.total


def read_logs(folder: Path, user: Credentials | None = None) -> dict[str, list[StatusInterval]]:
    """Return all logs of a folder, by measurement (``READ``, ``Intended-READ`` …).

    ``user``: whose folder it is.
    """
    with acting_as(user):
        paths = sorted(folder.glob(f"*{_SUFFIX}"))
    return {path.name[: -len(_SUFFIX)]: _log(path, user) for path in paths}


def stored(intervals: Iterable[StatusInterval]) -> str:
    """Return the merged histogram of the intervals as the text that a run stores."""
    return merged_ns(intervals).encode()


def merged_ns(intervals: Iterable[StatusInterval]) -> Histogram:
    """Merge intervals into one histogram, in nanoseconds and with the layout that is stored.

    The client truncates values to whole microseconds: its n means n to n + 1, and is taken
    as the middle of them.
    """
    counts = np.zeros(STORED.counters, dtype=np.int64)
    lows = STORED.bounds()[0]
    for interval in intervals:
        low, high = interval.histogram.layout.bounds()
        used = np.flatnonzero(interval.histogram.counts)
        middles = (low[used] * NS_PER_US + (high[used] + 1) * NS_PER_US) // 2
        places = np.searchsorted(lows, np.minimum(middles, STORED.highest), side="right") - 1
        np.add.at(counts, places, interval.histogram.counts[used])
    return Histogram(STORED, counts)


def _log(path: Path, user: Credentials | None) -> list[StatusInterval]:
    base_s = None
    intervals: list[StatusInterval] = []
    for number, line in enumerate(read_text(path, user, _MAX_LOG_BYTES).splitlines(), 1):
        if line.startswith(_START):
            base_s = float(line[len(_START) :].split()[0])
        elif line[:1].isdigit() or line[:1] == "-":
            try:
                intervals.append(_interval(line, base_s))
            except (ValueError, OverflowError) as error:
                raise RunFailed(
                    "read the client's histogram logs",
                    f"{path.name}:{number}: {error}",
                    "run again; a full disk cuts them off",
                ) from error
    return intervals


def _interval(line: str, base_s: float | None) -> StatusInterval:
    start, length, _, encoded = line.split(",")
    if base_s is None:
        raise ValueError("an interval before the start time")
    begin_ms = round((base_s + float(start)) * 1000)
    return StatusInterval(begin_ms, begin_ms + round(float(length) * 1000), _decode(encoded))


def _decode(encoded: str) -> Histogram:
    layout, counts = hdr.unpack(encoded, _COMPRESSED, _COOKIE)
    words = np.frombuffer(counts[: len(counts) // 8 * 8], dtype=">i8")
    layout = _holding(layout, len(words))
    values = np.zeros(layout.counters, dtype=np.int64)
    values[: len(words)] = words
    return hdr.checked(Histogram(layout, values))


def _holding(layout: Layout, words: int) -> Layout:
    """Return ``layout`` with room for that many counts; ValueError for more than an hour needs.

    The highest value that HdrHistogram reports may be one of before its last growth: of two threads
    that let it grow at once, each sets that value after its own growth, outside the lock
    (AbstractHistogram.handleRecordException). Where a counter lies does not depend on it.
    """
    if words > STORED.counters:
        raise ValueError(f"{words} counts where {STORED.counters} fit")
    while layout.counters < words:
        layout = replace(layout, highest=2 * layout.highest + 1)
    return layout


def length_ms(logs: Iterable[Sequence[StatusInterval]]) -> int:
    """Return the length of the log that has all intervals, as others may begin later."""
    return max(
        (sum(interval.end_ms - interval.begin_ms for interval in log) for log in logs), default=0
    )
