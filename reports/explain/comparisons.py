"""Comparisons of placements, explained: what the waits on A bound, and what was measured.

Every ratio is how many times better B is than A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.basis import Fact
from reports.compare import Group
from reports.explain.ceilings import PARTS, Devices, ceilings
from reports.explain.devices import tiers_of
from reports.explain.known import Known, Missing, Value, value_of
from reports.series import Arm, Panel
from reports.values import Quantity

#: The total that stands for queries: ceilings add up over them.
_QUERIES = Quantity("queries_duration_ns")


@dataclass(frozen=True)
class Explained:
    """One row of the table: a comparison of a baseline A with another placement B.

    ``where``: engine and workload; ``a``, ``b``: names of the arms; ``moved``: parts that are on
    another tier on B, or in which delays were planted. ``ceiling``: the largest speed-up that
    devices of zero latency could give to what moved. ``rests_on``: what the certainty of the
    comparison rests on.
    """

    where: str
    a: str
    b: str
    moved: tuple[str, ...]
    ceiling: Known
    measured: Known
    rests_on: tuple[Fact, ...] = ()

    @property
    def above_ceiling(self) -> bool:
        """Whether even the lower end of what was measured is above the ceiling: a mistake.

        Few repeats, whose interval covers less than 95 %, do not show one.
        """
        measured, ceiling = self.measured, self.ceiling
        if isinstance(measured, Missing) or isinstance(ceiling, Missing):
            return False
        return measured.covered and (measured.low or 0.0) > ceiling.value


def explained(panels: Sequence[Panel]) -> list[Explained]:
    """Explain every comparison with a baseline."""
    return [_row(panel, group) for panel in panels for group in panel.groups]


def _row(panel: Panel, group: Group) -> Explained:
    arms = {arm.name: arm for arm in panel.arms}
    a, b = arms[group.a.name], arms[group.b.name]
    moved = _moved(a, b)
    return Explained(
        panel.title_with_workload,
        group.a.marked_name,
        group.b.marked_name,
        moved,
        _ceiling(a, moved),
        _measured(group),
        group.rests_on,
    )


def _moved(a: Arm, b: Arm) -> tuple[str, ...]:
    on_a, on_b = tiers_of(a.usable[0]), tiers_of(b.usable[0])
    planted = {text.partition(".")[0] for arm in (a, b) for text in arm.usable[0].spec.plant}
    parts = dict.fromkeys((*on_a, *on_b))
    return tuple(part for part in parts if on_a.get(part) != on_b.get(part) or part in planted)


def _ceiling(a: Arm, moved: Sequence[str]) -> Known:
    devices = _devices(moved)
    if devices is None:
        return Missing("memory moved" if "memory" in moved else "no part moved")
    known = ceilings(a.usable)
    if known is None:
        return Missing("no waits")
    if known.rate is not None:
        return Missing("a rate was set")
    one = known.of(devices) or known.of("all")
    if one is None or one.gain is None:
        return Missing("no ceiling")
    return Value(one.gain)


def _measured(group: Group) -> Known:
    row = group.row(_QUERIES) or group.deciding
    if row is None or row.estimate is None:
        return Missing("not measured")
    return value_of(row.estimate)


def _devices(moved: Sequence[str]) -> Devices | None:
    """Return the smallest set of devices that holds all that moved; None of nothing, or memory."""
    every: tuple[Devices, ...] = ("log", "data", "all")
    return next((one for one in every if moved and set(moved) <= PARTS[one]), None)
