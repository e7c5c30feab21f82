"""What the measured window added to the counters: in all, and for each transaction done."""

from __future__ import annotations

from collections.abc import Mapping

from harness.reports.series import Arm
from harness.reports.values import Measured, Quantity, Summary, measured, summarise

_WINDOW = "window_"
#: How long it was is no count of what happened in it.
_LENGTH = "window_duration_ns"
#: A rate or a share does not become smaller with more transactions.
_ADDED_UP = ("ns", "B", "1")
_DONE = ("transaction_count", "transaction_rolled_back_count")


def of_window(quantity: Quantity) -> bool:
    """Whether it is what the window added to a counter."""
    return quantity.name.startswith(_WINDOW)


def window_title(quantity: Quantity) -> str:
    """``postgres wal``, ``tier read, tier ssd``: the unit stands at the values."""
    name = quantity.name.removeprefix(_WINDOW)
    for unit in ("_ns", "_bytes", "_count"):
        name = name.removesuffix(unit)
    return ", ".join(filter(None, (name.replace("_", " "), quantity.labels_text())))


def per_transaction(arm: Arm, quantity: Quantity) -> tuple[Summary, str] | None:
    """Over the arm's runs, with the unit: each run's own by its own transactions.

    None where it is no sum, or a driver does not tell how many transactions were done.
    """
    found = []
    for run in arm.usable:
        values = measured(run)
        one, done = values.get(quantity), _done_count(values)
        if one is not None and one.value is not None and done and one.unit in _ADDED_UP:
            found.append((one.value / done, one.unit))
    summary = summarise(value for value, _ in found)
    if summary is None or quantity.name == _LENGTH or quantity.name.endswith("_per_s"):
        return None
    return summary, found[0][1]


def _done_count(values: Mapping[Quantity, Measured]) -> float:
    """Transactions committed, only read, or rolled back as they should."""
    return sum(one.value or 0.0 for q, one in values.items() if q.name in _DONE)
