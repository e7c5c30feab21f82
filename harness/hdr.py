"""Histograms of durations: HdrHistogram V2, compressed and in base64, as loadgen prints them.

A histogram is an array of counts; where each counter lies on the axis of values follows
from three numbers in the header: the lowest value with a counter of its own (its largest power of
two is the unit), the highest value, and the significant digits. Histograms of the same
three numbers are merged by adding counts, and percentiles are taken from the merged one:
percentiles are never averaged.

The format: an envelope (cookie, length) around deflated data; in those a header of 40
bytes, big-endian, and the counts as zigzag LEB128 numbers, where a negative number -n is a
run of n zeros.
"""

from __future__ import annotations

import base64
import binascii
import functools
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.later import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]

_ENVELOPE = struct.Struct(">II")
_HEADER = struct.Struct(">IIIIQQd")
_COOKIE = 0x1C849303
_COMPRESSED = 0x1C849304
#: The lower byte's upper half is the word size, which V2 does not use.
_COOKIE_MASK = 0xFFFFFF0F
#: Bounds of every histogram that is read, whatever its format. The sum of counts has seven bits
#: in each of eight bytes at most: longer numbers need not be understood.
MOST_DIGITS, MOST_COUNTERS, MOST_TOTAL = 5, 10**7, 2**54
_MOST_HIGHEST = 2**62
_LEB128_LONGEST = 8

_MEDIAN = 50.0


@dataclass(frozen=True)
class Layout:
    """The three numbers that determine the value of each counter, in the histogram's unit.

    ValueError for one that HdrHistogram does not make, or with too many counters.
    """

    lowest: int
    highest: int
    digits: int

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= MOST_DIGITS:
            raise ValueError(f"{self.digits} significant digits, not 1 to {MOST_DIGITS}")
        if not 2 <= 2 * self.lowest <= self.highest <= _MOST_HIGHEST:
            raise ValueError(f"values from {self.lowest} to {self.highest}")
        if self.unit_bits + self.half_bits > 60 or self.counters > MOST_COUNTERS:
            raise ValueError(f"more than {MOST_COUNTERS} counters")

    @property
    def unit_bits(self) -> int:
        """The counters' unit is two to this power."""
        return self.lowest.bit_length() - 1

    @property
    def half_bits(self) -> int:
        """Two to this power counters cover each doubling of the value."""
        return (2 * int(10**self.digits) - 1).bit_length() - 1

    @property
    def counters(self) -> int:
        """The largest number of counters."""
        doublings, untrackable = 1, 2 << (self.half_bits + self.unit_bits)
        while untrackable <= self.highest:
            untrackable <<= 1
            doublings += 1
        return (doublings + 1) << self.half_bits

    def bounds(self) -> tuple[Counts, Counts]:
        """Return the lowest value of each counter, and the highest."""
        return _bounds(self)


@functools.lru_cache(maxsize=8)
def _bounds(layout: Layout) -> tuple[Counts, Counts]:
    index = np.arange(layout.counters, dtype=np.int64)
    half = np.int64(1 << layout.half_bits)
    bucket = np.maximum((index >> layout.half_bits) - 1, 0)
    sub = np.where(index < 2 * half, index, index % half + half)
    low = sub << (bucket + layout.unit_bits)
    high = low + (np.int64(1) << (bucket + layout.unit_bits)) - 1
    return low, high


@dataclass(frozen=True)
class Histogram:
    """A histogram: counts by counter; durations in nanoseconds in everything the harness stores."""

    layout: Layout
    counts: Counts

    @functools.cached_property
    def total(self) -> int:
        """The number of recorded values."""
        return int(self.counts.sum())

    @functools.cached_property
    def _used(self) -> Counts:
        """The counters that are not zero: a few hundred of tens of thousands."""
        return np.flatnonzero(self.counts)

    @functools.cached_property
    def _middles(self) -> Counts:
        """Their middles."""
        low, high = (bounds[self._used] for bounds in self.layout.bounds())
        middles: Counts = low + (high - low + 1) // 2
        return middles

    @property
    def max(self) -> int:
        """The highest value of the last counter in use; 0 of an empty histogram."""
        return int(self.layout.bounds()[1][self._used[-1]]) if len(self._used) else 0

    @property
    def mean(self) -> float:
        """The mean of the counters' middles; 0 of an empty histogram."""
        sums = self.counts[self._used] * self._middles.astype(np.float64)
        return float(sums.sum()) / self.total if self.total else 0.0

    def percentile(self, percent: float) -> int:
        """Return the highest value equivalent to that of rank ``percent``; 0 of an empty histogram.

        As HdrHistogram has it: the rank is rounded to the nearest value, the first at least.
        """
        return self.percentiles([percent])[0]

    def percentiles(self, percents: Sequence[float]) -> list[int]:
        total = self.total
        if total == 0:
            return [0] * len(percents)
        ranks = [max(1, int(min(p, 100.0) * total / 100 + 0.5)) for p in percents]
        indexes = np.searchsorted(np.cumsum(self.counts[self._used]), ranks)
        return [int(high) for high in self.layout.bounds()[1][self._used[indexes]]]

    def divided(self, percents: Sequence[float]) -> tuple[list[int], list[float]]:
        """Return the values at ascending percentiles, and the mean of those between each two.

        Values are the counters' middles, and ranks are fractions: of the value in which a
        percentile lies, each side has its share, so a mean lies between its percentiles. An empty
        histogram, and an interval of no width, have zeros.
        """
        used, middles = self._used, self._middles
        if not len(used):
            return [0] * len(percents), [0.0] * (len(percents) - 1)
        ranks = np.concatenate([[0], np.cumsum(self.counts[used])])
        sums = np.concatenate([[0.0], np.cumsum(self.counts[used] * middles.astype(np.float64))])
        # A millionth of a rank is rounding of the percentage, and not a part of the next value.
        places = np.round([min(p, 100.0) / 100 * self.total for p in percents], 6)
        values = middles[np.clip(np.searchsorted(ranks, places) - 1, 0, len(used) - 1)]
        widths, totals = np.diff(places), np.diff(np.interp(places, ranks, sums))
        means = [float(t / w) if w > 0 else 0.0 for t, w in zip(totals, widths, strict=True)]
        return [int(value) for value in values], means

    def encode(self) -> str:
        numbers = b"".join(_zigzag(number) for number in _runs(self.counts))
        layout = self.layout
        header = _HEADER.pack(
            _COOKIE | 0x10, len(numbers), 0, layout.digits, layout.lowest, layout.highest, 1.0
        )
        deflated = zlib.compress(header + numbers)
        return base64.b64encode(
            _ENVELOPE.pack(_COMPRESSED | 0x10, len(deflated)) + deflated
        ).decode()


def fewest(percent: float) -> int:
    """Return the number of values that a percentile takes: 100 for p99, one for p50.

    Below 1 / (1 - p) values none need lie beyond the percentile p: what stands at its rank is
    then the maximum of one set, another one in each run.
    """
    return 1 if percent <= _MEDIAN else round(100 / (100 - percent))


def decode(text: str) -> Histogram:
    """Decode a V2 compressed histogram in base64; ValueError for other text."""
    layout, counts = unpack(text, _COMPRESSED, _COOKIE, _COOKIE_MASK)
    numbers = _numbers(counts)
    steps = np.where(numbers < 0, -numbers, 1)  # a negative number is a run of zeros
    if len(numbers) and (steps.max() > layout.counters or steps.sum() > layout.counters):
        raise ValueError(f"more than {layout.counters} counts in an HdrHistogram")
    values = np.zeros(layout.counters, dtype=np.int64)
    counted = numbers > 0
    values[(np.cumsum(steps) - steps)[counted]] = numbers[counted]
    return checked(Histogram(layout, values))


def unpack(text: str, envelope: int, header: int, mask: int = 0xFFFFFFFF) -> tuple[Layout, bytes]:
    """Return layout and counts of an encoded histogram whose cookies, under ``mask``, are these."""
    try:
        data = base64.b64decode(text, validate=True)
        cookie, length = _ENVELOPE.unpack_from(data)
        if cookie & mask != envelope:
            raise ValueError(f"not an HdrHistogram: cookie {cookie:#x}, not {envelope:#x}")
        plain = _inflate(data[_ENVELOPE.size : _ENVELOPE.size + length])
        cookie, length, _, digits, lowest, highest, _ = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error) as error:
        raise ValueError(f"not an HdrHistogram: {error}") from error
    counts = plain[_HEADER.size : _HEADER.size + length]
    if cookie & mask != header or len(counts) < length:
        raise ValueError(f"not an HdrHistogram: cookie {cookie:#x}, {len(counts)} bytes of counts")
    return Layout(lowest, highest, digits), counts


def _inflate(data: bytes) -> bytes:
    """Inflate ``data``; ValueError beyond the size of the largest histogram."""
    limit = _HEADER.size + 9 * MOST_COUNTERS
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, limit)
    except zlib.error as error:
        raise ValueError(f"not an HdrHistogram: {error}") from error
    if not stream.eof:
        raise ValueError("an HdrHistogram that is cut off, or inflates without end")
    return plain


def checked(histogram: Histogram) -> Histogram:
    """Return the histogram; ValueError where a count is negative, or the counts are too many."""
    counts = histogram.counts
    if (counts < 0).any() or counts.sum(dtype=np.float64) > MOST_TOTAL:
        raise ValueError(f"counts below 0, or more than {MOST_TOTAL} values")
    return histogram


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Merge histograms into one; ValueError for none, or for different layouts."""
    several = list(histograms)
    if len(layouts := {histogram.layout for histogram in several}) != 1:
        raise ValueError(f"histograms of {len(layouts)} layouts cannot be merged")
    if len(several) == 1:
        return several[0]
    return Histogram(several[0].layout, np.sum([histogram.counts for histogram in several], axis=0))


def merge_encoded(texts: Iterable[str]) -> str:
    """Merge encoded histograms; return the encoded result."""
    return merge(decode(text) for text in texts).encode()


def _numbers(data: bytes) -> Counts:
    """Return the numbers of a zigzag LEB128 sequence."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError("an HdrHistogram's counts end within a number")
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)]
    lengths = ends - starts + 1
    if len(lengths) and lengths.max() > _LEB128_LONGEST:
        raise ValueError(f"a count of an HdrHistogram has more than {_LEB128_LONGEST} bytes")
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        septets = octets[starts[longer] + place].astype(np.int64) & 0x7F
        values[longer] |= septets << (7 * place)
    return (values >> 1) ^ -(values & 1)


def _runs(counts: Counts) -> Iterator[int]:
    """Yield the counts up to the last that is not zero, runs of zeros as their negative length."""
    before = -1
    for index in np.flatnonzero(counts):
        if zeros := int(index) - before - 1:
            yield -zeros
        yield int(counts[index])
        before = int(index)


def _zigzag(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
