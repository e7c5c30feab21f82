"""A window in which the delay of log syncs varies, on a clock of its own."""

from __future__ import annotations

import os

from harness.explain.blocks import BLOCK_NS, DelayBlocks
from harness.iotrace.page import CELL_FIELDS, HEADS_AT, Page
from harness.iotrace.plant import parse_plant

LEVELS = "wal.sync=+100us/200us/400us/800us"
START_NS, SERIES_NS = 7_000_000_000, DelayBlocks.series_ns
#: Foreground, wal, sync in the first slot.
_CELL = HEADS_AT + 64 + 8 * len(CELL_FIELDS) * 5
#: A thread wakes up that late.
LATE_NS = 20_000
#: Duration of a call without the delay.
CALL_NS = 300_000
#: Of calls that began before a change.
LEVEL_BEFORE_NS = 3_000_000


class Window:
    """``users`` in a closed loop whose latency is ``base_ns`` and ``slope`` times the delay."""

    def __init__(
        self,
        rounds: int = 12,
        users: int = 2,
        base_ns: int = 1_000_000,
        slope=1.5,
        levels: str = LEVELS,
        call_ns: int = CALL_NS,
    ):
        self.page = Page()
        os.pwrite(self.page.descriptor, (1).to_bytes(4, "little"), 28)  # slots in use
        self.plant = parse_plant(levels)
        self.call_ns = call_ns
        self.users, self.base_ns, self.slope = users, base_ns, slope
        self.now_ns = START_NS
        self.left = rounds * len(self.plant.levels_ns) + self.plant.adapts
        self.series: list[dict] = []
        self._calls = self._delayed = self._delay_ns = 0
        self.delays = DelayBlocks(self.page, self.plant, 3, lambda: self.now_ns, self._work)

    def run(self) -> DelayBlocks:
        self.delays.run()
        self.delays.offered(self.series)
        self.page.close()
        return self.delays

    def planted_ns(self) -> int:
        """As the engine reads it: foreground, wal, sync."""
        return int.from_bytes(os.pread(self.page.descriptor, 8, 256 + 16 * 5), "little")

    def _work(self, seconds: float) -> bool:
        """Until the next change of the delay, which comes within an interval of the series."""
        if seconds < BLOCK_NS / 2e9:  # calls under the previous delay end
            self._pass(round(seconds * 1e9), LEVEL_BEFORE_NS)
            return False
        self.left -= 1
        self._pass(round(seconds * 1e9) + 13_000_000, self.planted_ns() + LATE_NS)
        return self.left < 0

    def _pass(self, time_ns: int, achieved_ns: int) -> None:
        latency_ns = self.base_ns + self.slope * achieved_ns
        end_ns = self.now_ns + time_ns
        while START_NS + len(self.series) * SERIES_NS < end_ns:
            done = round(self.users * SERIES_NS / latency_ns)
            stamp_ns = START_NS + len(self.series) * SERIES_NS
            counts = {"pay": done - done // 3, "order": done // 3}
            sums_ns = {
                "pay": round(counts["pay"] * latency_ns * 2 / 3),
                "order": round(counts["order"] * latency_ns * 5 / 3),
            }
            self.series.append(
                {"monotonic_ns": stamp_ns, "counts": counts, "latencies_ns": sums_ns}
            )
            self.count(done, achieved_ns)
        self.now_ns = end_ns

    def count(self, calls: int, achieved_ns: int) -> None:
        self._calls += calls
        self._delayed += calls * bool(achieved_ns)
        self._delay_ns += calls * achieved_ns
        counters = {
            "calls": self._calls,
            "timed": self._calls,
            "ns": self._calls * self.call_ns,
            "delayed": self._delayed,
            "delay_ns": self._delay_ns,
        }
        for name, value in counters.items():
            at = _CELL + 8 * CELL_FIELDS.index(name)
            os.pwrite(self.page.descriptor, value.to_bytes(8, "little"), at)
