"""A page flush predicted by its parts (DaMoN'19, Figures 1, 2 and 4), for the hybrid of Figure 5.

The text of section 3.2.3 asks for a simple cost model that chooses CoW or µLog. CoW streams the
page, and has two barriers: after the page (sequential) and after its header (random). µLog streams
the dirty lines twice, to the log and to their places, and has four barriers: two at the
log's header (the same line again), one after the log, one after the page. With ``T`` threads

- a thread needs its lines by the bandwidth of one thread (Figure 2), and its barriers by the
  latency of persistent writes (Figure 4);
- the device needs its bytes by the bandwidth of all cores: of 1024 bytes for pages and logs, of
  64 for scattered lines (Figure 1).

The slower of both decides; the hybrid takes the faster method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from reports.micro.devices import DURATION, RATE, Device, best
from reports.values import Point

PAGE_BYTES, _LINE_BYTES = 16 * 1024, 64
PAGE_LINES = PAGE_BYTES // _LINE_BYTES
_STREAM_BYTES = "1024"
Method = Literal["cow", "mulog"]


@dataclass(frozen=True)
class FlushParts:
    """Parts of a page flush by streaming stores: seconds of a line and of barriers, and rates.

    ``line_s``: a line of a thread alone. ``barrier_s``: by pattern of the line that is written.
    ``stream``, ``scattered``: bytes a second of all cores.
    """

    line_s: float
    barrier_s: dict[str, float]
    stream: float
    scattered: float

    @staticmethod
    def of(device: Device) -> FlushParts | None:
        """Return what the device was measured to need; None where a figure is not measured."""
        alone = _rate(device.select(RATE, measurement="threads", operation="ntstore", threads="1"))
        stream, scattered = (
            _rate(
                device.select(
                    RATE, measurement="granularity", operation="ntstore", access_size_bytes=size
                )
            )
            for size in (_STREAM_BYTES, str(_LINE_BYTES))
        )
        barriers = {
            point["pattern"]: point.compared / 1e9
            for point in device.select(DURATION, measurement="persist_latency", operation="ntstore")
        }
        if not (alone and stream and scattered and len(barriers) == 3):
            return None
        return FlushParts(_LINE_BYTES / alone, barriers, stream, scattered)

    def pages_per_second(self, method: Method, dirty_lines: float, threads: int) -> float:
        """Return how many pages a second all threads flush."""
        barriers = self.barrier_s["sequential"] + self.barrier_s["random"]
        if method == "cow":
            lines, device_s = float(PAGE_LINES), PAGE_BYTES / self.stream
        else:
            lines = 2 * dirty_lines
            changed = dirty_lines * _LINE_BYTES
            device_s = changed / self.stream + changed / self.scattered
            barriers += 2 * self.barrier_s["hotspot"]
        return 1 / max((lines * self.line_s + barriers) / threads, device_s)

    def hybrid(self, dirty_lines: float, threads: int) -> float:
        """Return the rate of the faster method."""
        return max(
            self.pages_per_second("cow", dirty_lines, threads),
            self.pages_per_second("mulog", dirty_lines, threads),
        )

    def crossing(self, threads: int) -> int:
        """Return the most dirty lines with which µLog is the faster method; 0 where it never is."""
        return max(
            (
                lines
                for lines in range(1, PAGE_LINES + 1)
                if self.pages_per_second("mulog", lines, threads)
                > self.pages_per_second("cow", lines, threads)
            ),
            default=0,
        )


def _rate(points: Iterable[Point]) -> float:
    """The best rate; 0 without a point."""
    measured = list(points)
    return best(measured).median if measured else 0.0
