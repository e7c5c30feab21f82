"""Observe a real engine's waits until what is expected has been seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from patience import eventually

from harness.engine import AccountsForWaits
from harness.waits import SampledWaits, WaitTotals


def observed(engine: Any, enough: Callable[[WaitTotals], bool]) -> WaitTotals:
    """Totals of observations until there are enough of what is expected."""
    assert isinstance(engine, AccountsForWaits)
    waits = SampledWaits(engine.wait_observer())

    def now() -> WaitTotals:
        waits.sample()
        return waits.totals()

    try:
        assert eventually(lambda: enough(now()))
        return waits.totals()
    finally:
        waits.close()
