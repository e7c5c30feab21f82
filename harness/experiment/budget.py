"""A budget of time for runs."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """Time that runs may take together, from now on; None: no limit."""

    def __init__(self, budget_ns: int | None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._budget_ns = budget_ns
        self._clock = clock
        self._started = clock()

    def refuses(self, cost_ns: int | None) -> str:
        """Why runs of this estimated duration do not fit; empty if they do, or nothing is known."""
        if self._budget_ns is None:
            return ""
        left_ns = self._budget_ns - (self._clock() - self._started)
        if left_ns <= 0:
            return "the budget is spent"
        if cost_ns is not None and cost_ns > left_ns:
            return "does not fit into what is left of the budget"
        return ""
