"""The client's histogram logs: for each measurement a file, in it a histogram an interval.

The client writes an interval at each of its status lines and one at its end. Histograms are
HdrHistogram V1 as HdrHistogram 2.1.4 encodes them: an envelope as of V2 (see harness.hdr),
counts as plain words of eight bytes. Values are whole microseconds, cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import hdr
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.later import np
from harness.supervise.user_files import Credentials, acting_as, read_text

#: Of V1 in words of eight bytes.
_COOKIE, _COMPRESSED = 0x1C849381, 0x1C849382
_START = "#[StartTime: "
_SUFFIX = ".hdr"
_NS_PER_US = 1000
#: Far more than a histogram each second of a day.
_MAX_LOG_BYTES = 1 << 30
#: As the native client's: 1 ns … 1 h, three digits.
STORED = Layout(lowest=1, highest=3_600_000_000_000, digits=3)


@dataclass(frozen=True)
class Interval:
    """An interval by the wall clock, in milliseconds, and the operations that ended in it."""

    begin_ms: int
    end_ms: int
    histogram: Histogram

    @property
    def count(self) -> int:
        """Operations that ended in it."""
        return self.histogram.total


def read_logs(folder: Path, user: Credentials | None = None) -> dict[str, list[Interval]]:
    """Return all logs of a folder, by measurement (``READ``, ``Intended-READ`` …).

    ``user``: whose folder it is.
    """
    with acting_as(user):
        paths = sorted(folder.glob(f"*{_SUFFIX}"))
    return {path.name[: -len(_SUFFIX)]: _log(path, user) for path in paths}


def stored(intervals: Iterable[Interval]) -> str:
    """:func:`merged_ns`, encoded."""
    return merged_ns(intervals).encode()


def merged_ns(intervals: Iterable[Interval]) -> Histogram:
    """Merge intervals into one histogram, in nanoseconds and with the layout that is stored.

    The client truncates values to whole microseconds: its n means n to n + 1, and is taken
    as the middle of them.
    """
    counts = np.zeros(STORED.counters, dtype=np.int64)
    lows = STORED.bounds()[0]
    for interval in intervals:
        low, high = interval.histogram.layout.bounds()
        used = np.flatnonzero(interval.histogram.counts)
        middles = (low[used] * _NS_PER_US + (high[used] + 1) * _NS_PER_US) // 2
        places = np.searchsorted(lows, np.minimum(middles, STORED.highest), side="right") - 1
        np.add.at(counts, places, interval.histogram.counts[used])
    return Histogram(STORED, counts)


def _log(path: Path, user: Credentials | None) -> list[Interval]:
    base_s = None
    found: list[Interval] = []
    for number, line in enumerate(read_text(path, user, _MAX_LOG_BYTES).splitlines(), 1):
        if line.startswith(_START):
            base_s = float(line[len(_START) :].split()[0])
        elif line[:1].isdigit() or line[:1] == "-":
            try:
                found.append(_interval(line, base_s))
            except (ValueError, OverflowError) as error:
                raise RunFailed(
                    "read the client's histogram logs",
                    f"{path.name}:{number}: {error}",
                    "run again; a full disk cuts them off",
                ) from error
    return found


def _interval(line: str, base_s: float | None) -> Interval:
    start, length, _, encoded = line.split(",")
    if base_s is None:
        raise ValueError("an interval before the start time")
    begin_ms = round((base_s + float(start)) * 1000)
    return Interval(begin_ms, begin_ms + round(float(length) * 1000), _decode(encoded))


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


def length_ms(logs: Iterable[Sequence[Interval]]) -> int:
    """Return the length of the log that has all intervals, as others may begin later."""
    return max((sum(one.end_ms - one.begin_ms for one in log) for log in logs), default=0)
