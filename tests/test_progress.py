"""What a person reads of how far work is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from harness import progress
from harness.progress import BarProgress, Progress


@pytest.mark.parametrize(
    ("amounts", "total", "unit", "told"),
    [
        ([3], 22, "", "3 of 22"),
        ([3.2000001], 5, "s", "3.2 of 5 s"),
        ([5.0, 0.44163], 5, "s", "5.0 of 5 s"),
        ([1_701_160], 5_090_110, "rows", "1,701,160 of 5,090,110 rows"),
        ([5 << 29], 5 << 30, "B", "2.5 GiB of 5 GiB"),
        ([7.0], None, "", "7"),
    ],
)
def test_amounts_have_their_unit_and_are_never_over_all(
    amounts, total, unit, told, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    with Progress().task("work", total, unit) as task:
        for amount in amounts:
            task.advance(amount, note="ramp-up")
    assert capsys.readouterr().err.splitlines()[-1] == f"work: {told} (ramp-up)"


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


def test_elsewhere_a_run_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    lines = Progress()
    with lines.command("experiment nightly", 24, "runs", lambda: "") as runs, lines.run("tpcc"):
        lines.note("restoring the dataset")
        with lines.task("measurement", 30, "s") as task:
            task.advance(2, lambda: pytest.fail("nothing is computed for a view that is not there"))
        runs.advance()
    lines.say("20261127T0200-tpcc: complete")
    assert capsys.readouterr().err == "20261127T0200-tpcc: complete\n"
