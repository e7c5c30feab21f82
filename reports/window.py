"""What the measured window added to the counters: in all, and for each unit of work done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.metric_registry import metric_info
from reports.series import Arm
from reports.values import (
    ASKED_FOR,
    Measured,
    Quantity,
    Summary,
    measured,
    summarise,
)

_WINDOW = "window_"
#: How long it was is no count of what happened in it.
_LENGTH = "window_duration_ns"
#: A rate or a share does not become smaller with more transactions.
_ADDED_UP = ("ns", "B", "1")
#: What counts as done: transactions that were to be rolled back, too.
_DONE = ("count", "rolled_back_count")


def of_window(quantity: Quantity) -> bool:
    """Whether it is what the window added to a counter."""
    return quantity.name.startswith(_WINDOW)


def window_title(quantity: Quantity) -> str:
    """``postgres wal``, ``tier read, tier ssd``: the unit stands at the values."""
    name = quantity.name.removeprefix(_WINDOW)
    for unit in ("_ns", "_bytes", "_count"):
        name = name.removesuffix(unit)
    return ", ".join(filter(None, (name.replace("_", " "), quantity.labels_text())))


def window_titles(quantities: Sequence[Quantity]) -> list[str]:
    """One each; with the unit where two would be called the same."""
    plain = [window_title(quantity) for quantity in quantities]
    return [
        title if plain.count(title) == 1 else f"{title} ({quantity.name.rpartition('_')[2]})"
        for title, quantity in zip(plain, quantities, strict=True)
    ]


def work_done(arms: Sequence[Arm]) -> str:
    """What a client's unit of work is called here: transaction, operation; empty without any."""
    names = {quantity.name for arm in arms for quantity in arm.kinds()}
    return next((noun for noun in ASKED_FOR if f"{noun}_{_DONE[0]}" in names), "")


def per_work(arm: Arm, quantity: Quantity) -> tuple[Summary, str] | None:
    """Over the arm's runs, with the unit: each run's own by the work that it did itself.

    None where it is no sum, is below what can be told from nothing, or a driver does not
    tell how much was done.
    """
    noun = work_done([arm])
    found = []
    for run in arm.usable:
        values = measured(run)
        one, done = values.get(quantity), _done_count(values, noun)
        if one is None or one.value is None or not done or one.unit not in _ADDED_UP:
            continue
        if abs(one.value) >= metric_info(quantity, one.better).resolution:
            found.append((one.value / done, one.unit))
    summary = summarise(value for value, _ in found)
    if summary is None or quantity.name == _LENGTH or quantity.name.endswith("_per_s"):
        return None
    return summary, found[0][1]


def _done_count(values: Mapping[Quantity, Measured], noun: str) -> float:
    """Transactions committed, only read, or rolled back as they should; operations done."""
    names = {f"{noun}_{count}" for count in _DONE}
    return sum(one.value or 0.0 for q, one in values.items() if q.name in names)
