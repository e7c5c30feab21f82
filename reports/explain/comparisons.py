"""Comparisons of placements, explained: the waits on A, the devices, models of them, and what was
measured.

Every ratio is how many times better B is than A.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.errors import UsageError
from reports.arm import Arm
from reports.basis import Fact
from reports.compare import Group, compare
from reports.explain.ceilings import ceilings
from reports.explain.devices import (
    Call,
    TierSources,
    devices_of,
    devices_that_hold,
    longest_call,
    moved_parts,
)
from reports.run_configuration import modelled_tiers
from reports.series import Panel
from reports.statistics import Missing, Value
from reports.values import Quantity

#: The total that stands for queries: ceilings add up over them.
_QUERIES = Quantity("queries_duration_ns")


@dataclass(frozen=True)
class Explained:
    """One row of the table: a comparison of a baseline A with another placement B.

    ``where``: engine and workload; ``a``, ``b``: names of the arms; ``moved``: parts that are on
    another tier on B, or in which delays were planted. ``ceiling``: the largest speed-up that
    devices of zero latency could give to what moved. ``call``: the operation that takes most of
    the sessions' time on A, and ``device`` how much faster B's device serves it alone.
    ``modelled``: the speed-up by runs on ``models`` (and on what else is not real); ``measured``:
    by runs on the devices. ``rests_on``: what the certainty of the comparison rests on.
    """

    where: str
    a: str
    b: str
    moved: tuple[str, ...]
    ceiling: Value | Missing
    call: Call | None
    device: Value | Missing
    models: tuple[str, ...]
    modelled: Value | Missing
    measured: Value | Missing
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

    @property
    def error(self) -> Value | Missing:
        """The modelled speed-up over the measured one, less one: 0.1 is 10 % too much."""
        for one in (self.modelled, self.measured):
            if isinstance(one, Missing):
                return one
        assert isinstance(self.modelled, Value) and isinstance(self.measured, Value)
        return Value(self.modelled.value / self.measured.value - 1)


def explained(panels: Sequence[Panel], sources: TierSources) -> list[Explained]:
    """Explain every comparison with a baseline."""
    return [row for panel in panels for row in _Models(panel, sources).rows()]


@dataclass(frozen=True)
class _Models:
    """The arms of a panel with the tiers that they stand for."""

    panel: Panel
    sources: TierSources

    def rows(self) -> Iterator[Explained]:
        """Explain each comparison, but not that of a model with its own tier."""
        real = [self._stands[name] for name in self._arms if not self._is_model(name)]
        for group in self.panel.groups:
            if not self._is_model(group.b.name) or self._stands[group.b.name] not in real:
                yield self._row(group)

    def _row(self, group: Group) -> Explained:
        a, b = self._arms[group.a.name], self._arms[group.b.name]
        moved = moved_parts(a.usable[0], b.usable[0])
        call = longest_call(a.usable, moved)
        models, modelled = self._modelled(group)
        return Explained(
            self.panel.title_with_workload,
            group.a.marked_name,
            group.b.marked_name,
            moved,
            _ceiling(a, moved),
            call,
            self._device(a, b, moved, call),
            models,
            modelled,
            Missing("modelled") if self._is_model(a.name, b.name) else _speed_up(group),
            group.rests_on,
        )

    @cached_property
    def _arms(self) -> Mapping[str, Arm]:
        return {arm.name: arm for arm in self.panel.arms if arm.usable}

    @cached_property
    def _stands(self) -> Mapping[str, Mapping[str, str]]:
        """By arm, part → tier."""
        return {name: self.sources.stands_for(arm.usable[0]) for name, arm in self._arms.items()}

    def _is_model(self, *names: str) -> bool:
        return any(modelled_tiers(self._arms[name].usable[0]) for name in names)

    def _device(self, a: Arm, b: Arm, moved: Sequence[str], call: Call | None) -> Value | Missing:
        if not moved or "memory" in moved:
            return Missing("memory moved" if moved else "no part moved")
        if call is None:
            return Missing("no trace")
        if self._is_model(a.name, b.name):
            return Missing("modelled")
        on_a, on_b = (self.sources.service_ns(arm.usable[0], call) for arm in (a, b))
        if not on_a or not on_b:
            pairs = ((a, on_a), (b, on_b))
            lacking = (devices_of(arm.usable[0])[call.part] for arm, ns in pairs if not ns)
            return Missing("no figures", tiers=tuple(lacking))
        return Value(on_a / on_b)

    def _modelled(self, group: Group) -> tuple[tuple[str, ...], Value | Missing]:
        """The speed-up of B's model over A's model, or over A where that has none."""
        a, b = group.a.name, group.b.name
        for model in [b] if self._is_model(b) else self._models_of(b):
            for base in (*self._models_of(a), a):
                found = self._between(base, model)
                if not isinstance(found, Missing):
                    return self._stand_ins(base, model), found
        return (), Missing("no modelled runs")

    def _models_of(self, name: str) -> list[str]:
        """The arms that stand for another arm."""
        tiers = self._stands[name]
        return [one for one in self._arms if self._is_model(one) and self._stands[one] == tiers]

    def _between(self, base: str, model: str) -> Value | Missing:
        """The speed-up between two arms; models of the same tier's name may differ, too."""
        a, b = (self._arms[name].usable for name in (base, model))
        tiers = {tier: None for run in (a[0], b[0]) for tier, _ in modelled_tiers(run)}
        try:
            made = compare(a, b, ["placement", *(f"tier.{tier}.model" for tier in tiers)])
        except UsageError:
            return Missing("no modelled runs")
        return _speed_up(made.groups[0])

    def _stand_ins(self, *names: str) -> tuple[str, ...]:
        every = (text for name in names for text in self._arms[name].emulated)
        return tuple(dict.fromkeys(every))


def _ceiling(a: Arm, moved: Sequence[str]) -> Value | Missing:
    devices = devices_that_hold(moved)
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


def _speed_up(group: Group) -> Value | Missing:
    row = group.row(_QUERIES) or group.deciding
    if row is None or row.estimate is None:
        return Missing("not resolved")
    return row.estimate
