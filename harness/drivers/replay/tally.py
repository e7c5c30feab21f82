"""What the replay client counts in the measured window."""

from __future__ import annotations

import time
from collections import Counter, deque

from harness.capture.replay_file import Event
from harness.drivers.client_program import histogram
from harness.drivers.replay.protocol import ClassResult, ReplayResult

#: A statement that is sent later than this is late.
LATE_NS = 10_000_000
#: Bits of a value that count: those of a histogram of three digits.
_BITS = 11
_RECENT = 1000


class _Counts:
    """A class. Durations by the lowest of equivalent ones, so memory is bounded."""

    __slots__ = ("count", "errors", "lags", "latencies", "recorded_us", "recovered", "unexpected")

    def __init__(self) -> None:
        self.count = self.unexpected = self.recovered = self.recorded_us = 0
        self.errors: Counter[str] = Counter()
        self.latencies: dict[int, int] = {}
        self.lags: dict[int, int] = {}


class Tally:
    """Counts by class, in the window alone."""

    def __init__(self, classes: int) -> None:
        self.measuring = False
        #: Statements so far, those of the ramp-up included.
        self.done = 0
        self._classes = [_Counts() for _ in range(classes)]
        self._begin_ns = self._end_ns = 0
        self._begin_cpu_ns = self._end_cpu_ns = 0
        self._first_us, self._last_us = 1 << 62, 0
        self._late = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def begin(self, now_ns: int) -> None:
        self.measuring = True
        self._begin_ns, self._begin_cpu_ns = now_ns, time.process_time_ns()

    def end(self, now_ns: int) -> None:
        self._end_ns, self._end_cpu_ns = now_ns, time.process_time_ns()

    def add(self, event: Event, error: str, latency_ns: int, lag_ns: int) -> None:
        """Count an answer that has just arrived."""
        self.done += 1
        self._recent.append(lag_ns)
        if not self.measuring:
            return
        counts = self._classes[min(event.class_number, len(self._classes) - 1)]
        self._first_us = min(self._first_us, event.at_us)
        self._last_us = max(self._last_us, event.at_us)
        self._late += lag_ns > LATE_NS
        lag = _equivalent(lag_ns)
        counts.lags[lag] = counts.lags.get(lag, 0) + 1
        if error:
            counts.errors[error] += 1
            counts.unexpected += not event.error
            return
        counts.count += 1
        counts.recovered += bool(event.error)
        counts.recorded_us += max(0, event.took_us)
        latency = _equivalent(latency_ns)
        counts.latencies[latency] = counts.latencies.get(latency, 0) + 1

    def recent_lag_ns(self) -> int:
        """Median lag of the last statements."""
        return sorted(self._recent)[len(self._recent) // 2] if self._recent else 0

    def result(self, unfinished: int, lost: int, peak_bytes: int) -> ReplayResult:
        every, lags = Counter[int](), Counter[int]()
        for counts in self._classes:
            every.update(counts.latencies)
            lags.update(counts.lags)
        return ReplayResult(
            self._end_ns - self._begin_ns,
            max(0, self._last_us - self._first_us),
            tuple(
                ClassResult(
                    of.count, dict(of.errors), of.unexpected, of.recovered, of.recorded_us,
                    _encoded(of.latencies), _encoded(of.lags),
                )
                for of in self._classes
            ),
            _encoded(every),
            _encoded(lags),
            self.recent_lag_ns(),
            self._late / max(1, sum(lags.values())),
            unfinished,
            lost,
            self._end_cpu_ns - self._begin_cpu_ns,
            peak_bytes,
        )  # fmt: skip


def _equivalent(value_ns: int) -> int:
    """The lowest value that a histogram of three digits does not distinguish from this one."""
    shift = max(0, value_ns.bit_length() - _BITS)
    return max(1, value_ns >> shift << shift)


def _encoded(counts: dict[int, int]) -> str:
    return histogram(list(counts), list(counts.values())).encode()
