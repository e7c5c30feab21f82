"""What a person reads of how far work is."""

from __future__ import annotations

import io

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


def test_bars_say_the_same():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with BarProgress(console) as bars, bars.task("TPC-C", 210, "s") as task:
        task.advance(5.3367, note="ramp-up, 5 transactions")
        bars._bars.refresh()
    assert "TPC-C: ramp-up, 5 transactions" in out.getvalue()
    assert "5.3 of 210 s" in out.getvalue()
