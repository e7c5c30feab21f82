"""Observe a real engine's waits until what is expected has been seen, and plant some."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from patience import eventually

from harness.errors import RunFailed
from harness.waits import SampledWaits, WaitTotals


def observed(engine: Any, enough: Callable[[WaitTotals], bool]) -> WaitTotals:
    """Totals of observations until there are enough of what is expected."""
    waits = SampledWaits(engine.wait_observer())

    def now() -> WaitTotals:
        waits.sample()
        return waits.totals()

    try:
        assert eventually(lambda: enough(now()))
        return waits.totals()
    finally:
        waits.close()


@contextmanager
def executing(engine: Any, sql: str) -> Iterator[None]:
    """A session that executes ``sql``; it is cancelled at the end."""

    def run() -> None:
        with suppress(RunFailed):
            connection.execute(sql)

    with closing(engine.connect()) as connection:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            while thread.is_alive():  # it may not have begun
                connection.cancel()
                thread.join(0.1)
