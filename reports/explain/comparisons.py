"""Comparisons of placements, explained: the ceiling by the waits on A, the speed-up predicted by
the tiers' baselines and by runs on models, and the measured one.

Every ratio is how many times better B is than A. Rows are independent: of n arms under the same
conditions there are n − 1, each against the baseline, so that no two rows have runs of both sides
in common and no row follows from others. They share the baseline's runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.errors import UsageError
from reports.arm import Arm
from reports.basis import Fact
from reports.compare import Group, compare
from reports.explain.ceilings import ceilings
from reports.explain.correlation import CheckedPrediction
from reports.explain.devices import TierSources, devices_that_hold, moved_parts
from reports.explain.marks import Mark, mark_of
from reports.explain.prediction import NotPredicted, Predicted, predict
from reports.run_configuration import modelled_tiers
from reports.series import Panel
from reports.statistics import Missing, Value
from reports.values import Quantity

#: The total that stands for queries: ceilings add up over them.
_QUERIES = Quantity("queries_duration_ns")


@dataclass(frozen=True)
class ExplainedComparison:
    """One row of the table: a comparison of a baseline A with another placement B.

    ``where``: engine, its version, workload and what else distinguishes it; ``a``, ``b``: names of
    the arms; ``emulated``: stand-ins among their tiers; ``moved``: parts that are on another tier
    on B, or in which delays were planted. ``ceiling``: the largest speed-up that devices of zero
    latency could give to what moved. ``predicted``: the speed-up by A's runs and the baselines of
    the tiers; ``modelled``: by runs on ``models`` (and on what else is not real); ``measured``: by
    runs on the devices. ``rests_on``: what the certainty of the comparison rests on. ``mark``: what
    the prediction misses, if that is much.
    """

    engine: str
    workload: str
    where: str
    a: str
    b: str
    emulated: tuple[str, ...]
    moved: tuple[str, ...]
    ceiling: Value | Missing
    predicted: Predicted | NotPredicted
    models: tuple[str, ...]
    modelled: Value | Missing
    measured: Value | Missing
    rests_on: tuple[Fact, ...] = ()
    mark: Mark | None = None

    @property
    def above_ceiling(self) -> bool:
        """Return whether even the lower end of what was measured is above the ceiling: a mistake.

        Few repeats, whose interval covers less than 95 %, do not show one.
        """
        measured, ceiling = self.measured, self.ceiling
        if isinstance(measured, Missing) or isinstance(ceiling, Missing):
            return False
        return measured.covered and (measured.low or 0.0) > ceiling.value

    @cached_property
    def checked(self) -> tuple[CheckedPrediction, ...]:
        """The predictions of it that there are, by baselines and by models, if it was measured."""
        if isinstance(self.measured, Missing):
            return ()
        predicted = [] if isinstance(self.predicted, NotPredicted) else [self.predicted.speed_up]
        modelled = [] if isinstance(self.modelled, Missing) else [self.modelled]
        return (
            *(CheckedPrediction(self.engine, by, self.measured) for by in predicted),
            *(CheckedPrediction(self.engine, by, self.measured, modelled=True) for by in modelled),
        )

    @property
    def residual(self) -> float | None:
        """Return the residual of the prediction by baselines."""
        return self._residual(modelled=False)

    @property
    def modelled_residual(self) -> float | None:
        """Return the residual of the prediction by models."""
        return self._residual(modelled=True)

    def _residual(self, *, modelled: bool) -> float | None:
        checked = (by.residual for by in self.checked if by.modelled == modelled)
        return next(checked, None)


def explained(panels: Sequence[Panel], sources: TierSources) -> list[ExplainedComparison]:
    """Explain every comparison with a baseline."""
    return [row for panel in panels for row in _Models(panel, sources).rows()]


@dataclass(frozen=True)
class _Models:
    """The arms of a panel with the tiers that they stand for."""

    panel: Panel
    sources: TierSources

    def rows(self) -> Iterator[ExplainedComparison]:
        """Explain each comparison, but not that of a model with its own tier."""
        real = [self._stands[name] for name in self._arms if not self._is_model(name)]
        for group in self.panel.groups:
            if not self._is_model(group.b.name) or self._stands[group.b.name] not in real:
                yield self._row(group)

    def _row(self, group: Group) -> ExplainedComparison:
        a, b = self._arms[group.a.name], self._arms[group.b.name]
        moved = moved_parts(a.usable[0], b.usable[0])
        models, modelled = self._modelled(group)
        row = ExplainedComparison(
            self.panel.engine_name,
            self.panel.workload,
            self.panel.title_with_workload,
            group.a.marked_name,
            group.b.marked_name,
            group.emulated,
            moved,
            _ceiling(a, moved),
            predict(a, b, self.sources),
            models,
            modelled,
            Missing("modelled") if self._is_model(a.name, b.name) else speed_up_of(group),
            group.rests_on,
        )
        return replace(row, mark=mark_of(a.usable, b.usable, row.residual, self.sources))

    @cached_property
    def _arms(self) -> Mapping[str, Arm]:
        return {arm.name: arm for arm in self.panel.arms if arm.usable}

    @cached_property
    def _stands(self) -> Mapping[str, Mapping[str, str]]:
        """By arm, part → tier."""
        return {name: self.sources.stands_for(arm.usable[0]) for name, arm in self._arms.items()}

    def _is_model(self, *names: str) -> bool:
        return any(modelled_tiers(self._arms[name].usable[0]) for name in names)

    def _modelled(self, group: Group) -> tuple[tuple[str, ...], Value | Missing]:
        """The speed-up of B's model over A's model, or over A where that has none."""
        a, b = group.a.name, group.b.name
        for model in [b] if self._is_model(b) else self._models_of(b):
            for base in (*self._models_of(a), a):
                speed_up = self._between(base, model)
                if not isinstance(speed_up, Missing):
                    stand_ins = (*self._arms[base].emulated, *self._arms[model].emulated)
                    return tuple(dict.fromkeys(stand_ins)), speed_up
        return (), Missing("no modelled runs")

    def _models_of(self, name: str) -> list[str]:
        """The arms that stand for another arm."""
        tiers = self._stands[name]
        return [
            other for other in self._arms if self._is_model(other) and self._stands[other] == tiers
        ]

    def _between(self, base: str, model: str) -> Value | Missing:
        """The speed-up between two arms; models of the same tier's name may differ, too."""
        a, b = (self._arms[name].usable for name in (base, model))
        tiers = {tier: None for run in (a[0], b[0]) for tier, _ in modelled_tiers(run)}
        try:
            made = compare(a, b, ["placement", *(f"tier.{tier}.model" for tier in tiers)])
        except UsageError:
            return Missing("no modelled runs")
        return speed_up_of(made.groups[0])


def _ceiling(a: Arm, moved: Sequence[str]) -> Value | Missing:
    devices = devices_that_hold(moved)
    if devices is None:
        return Missing("memory moved" if "memory" in moved else "no part moved")
    bounds = ceilings(a.usable)
    if bounds is None:
        return Missing("no waits")
    if bounds.rate is not None:
        return Missing("a rate was set")
    ceiling = bounds.of(devices) or bounds.of("all")
    if ceiling is None or ceiling.gain is None:
        return Missing("no ceiling")
    return Value(ceiling.gain)


def speed_up_of(group: Group) -> Value | Missing:
    """Return the measured speed-up: of queries, of the sum of their times."""
    row = group.row(_QUERIES) or group.deciding
    if row is None or row.estimate is None:
        return Missing("not resolved")
    return row.estimate
