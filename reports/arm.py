"""An arm: runs that count as repeats of one another, and what they measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.store.runs import StoredRun
from reports.headline import headline
from reports.run_configuration import emulations, marked
from reports.values import (
    Point,
    Quantity,
    duration_of,
    laid_together,
    limit_of,
    measured,
    measured_together,
)


@dataclass(frozen=True)
class Arm:
    """Runs with one value of the compared dimension, alike in every fact: a side of a comparison.

    ``name`` is unique in a panel; ``value`` names the value alone, which several arms
    share where their runs differ in something else.
    """

    name: str
    value: str
    runs: tuple[StoredRun, ...]

    @cached_property
    def usable(self) -> tuple[StoredRun, ...]:
        """Return the runs with a result: complete, or with an unknown check (marked)."""
        return tuple(run for run in self.runs if run.result.status != "failed")

    @cached_property
    def emulated(self) -> tuple[str, ...]:
        """Return the emulated tiers that its numbers come from, as ``pmem by tmpfs``."""
        return emulations(self.runs)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the runs with an unknown check."""
        return tuple(run.run_id for run in self.runs if run.result.status == "unknown")

    @property
    def marked_name(self) -> str:
        return marked(self.name, self.emulated, bool(self.unknown))

    @cached_property
    def of_each_run(self) -> list[Mapping[Quantity, Point]]:
        """Return what each usable run measured by itself."""
        return [measured(run) for run in self.usable]

    @cached_property
    def points(self) -> dict[Quantity, Point]:
        """Return every quantity with the values of its repeats."""
        return laid_together(
            item for values in measured_together(self.usable) for item in values.items()
        )

    @cached_property
    def _by_metric(self) -> dict[str, dict[Quantity, Point]]:
        by_metric: dict[str, dict[Quantity, Point]] = {}
        for quantity, point in self.points.items():
            if point.samples:
                by_metric.setdefault(quantity.name, {})[quantity] = point
        return by_metric

    def of_metric(self, metric: str) -> dict[Quantity, Point]:
        """Return the label sets of a metric that have a value."""
        return self._by_metric.get(metric, {})

    def point(self, quantity: Quantity) -> Point | None:
        """Return a quantity with its repeats; None where it has no value."""
        return self.of_metric(quantity.name).get(quantity)

    def limits(self, metric: str) -> dict[Quantity, Point]:
        """Return the time limits reached instead of a metric's durations."""
        reached = self.of_metric(limit_of(metric)) if limit_of(metric) else {}
        return {Quantity(metric, q.labels): point for q, point in reached.items()}

    @property
    def at_limit(self) -> set[Quantity]:
        """Return the quantities whose time limit was reached in some run."""
        return {q for q in self.points if duration_of(q.name)}

    @cached_property
    def headline(self) -> Quantity | None:
        """Return the quantity that stands for the arm; None where nothing does."""
        better = {q: point.better for q, point in self.points.items() if point.samples}
        return headline(self.usable, self.usable, better).quantity if self.usable else None


def unknown_checks(runs: Iterable[StoredRun]) -> str:
    """Name the unknown checks of unknown runs, each once: ``memory-policy, answer``."""
    unknown = (run.result for run in runs if run.result.status == "unknown")
    names = (c.name for result in unknown for c in result.checks if c.status == "unknown")
    return ", ".join(dict.fromkeys(names)) or "none was made"
