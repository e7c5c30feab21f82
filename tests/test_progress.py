"""Progress messages for a person."""

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from harness.progress import BarProgress


def drawn(bars: BarProgress, out: io.StringIO) -> list[str]:
    """The lines of the live view as it is drawn now, without its bars."""
    out.seek(0)
    out.truncate()
    bars._bars.refresh()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    return [line.lstrip("━╸╺ ").rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.fixture
def live() -> Iterator[tuple[BarProgress, io.StringIO]]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with BarProgress(console) as bars:
        bars._bars.get_time = lambda: 0.0
        yield bars, out


def test_a_live_view_has_the_window_and_its_last_second(live):
    bars, out = live
    with (
        bars.command("experiment nightly", 24, "runs", lambda: "0:06:40 left") as runs,
        bars.run("tpcc postgres pmem-data-ssd-wal"),
    ):
        runs.advance(3)
        bars.note("restoring the dataset")
        first = "experiment nightly 3 of 24 runs: 0:06:40 left"
        run = "tpcc postgres pmem-data-ssd-wal"
        assert drawn(bars, out) == [first, f"{run}: restoring the dataset, 0:00:00"]
        with bars.task("warm-up", 5, "s") as task:
            task.advance(5)
            task.enter("measurement", 30)
            task.advance(2.0, lambda: "12,345 transactions/s, p99 3.21 ms")
            window = "measurement 2.0 of 30 s: 12,345 transactions/s, p99 3.21 ms"
            assert drawn(bars, out) == [first, f"{run}: 0:00:00", window]


def test_a_live_view_cuts_no_name(live):
    bars, out = live
    command = "harness experiment run nightly --engine postgres --placement data=ssd,wal=pmem"
    with bars.waiting(f"waiting for process 12345 of user bench, since 14:02:11: {command}"):
        assert "".join(drawn(bars, out)).replace(" ", "").count(command.replace(" ", "")) == 1
