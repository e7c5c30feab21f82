"""An arm: runs that count as repeats of one another, and what they measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.store.runs import StoredRun
from reports.headline import headline
from reports.run_configuration import emulations, marked
from reports.values import (
    Measured,
    Quantity,
    Summary,
    duration_of,
    is_ready_made,
    limit_of,
    measured,
    measured_together,
    summarise,
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
        """Return the runs with answers that could not be checked."""
        return tuple(run.run_id for run in self.runs if run.result.status == "unknown")

    @property
    def marked_name(self) -> str:
        return marked(self.name, self.emulated, bool(self.unknown))

    @cached_property
    def of_each_run(self) -> list[dict[Quantity, Measured]]:
        """Return what each usable run measured by itself."""
        return [measured(run) for run in self.usable]

    @cached_property
    def _measured(self) -> list[dict[Quantity, Measured]]:
        return measured_together(self.usable)

    @cached_property
    def _values(self) -> dict[str, dict[Quantity, list[float]]]:
        values: dict[str, dict[Quantity, list[float]]] = {}
        for metrics in self._measured:
            for quantity, value in metrics.items():
                if value.value is not None:
                    of_metric = values.setdefault(quantity.name, {})
                    of_metric.setdefault(quantity, []).append(value.value)
        return values

    def values(self, metric: str) -> dict[Quantity, list[float]]:
        """Return the repeats' values of every label set of a metric, in the metric's unit."""
        return self._values.get(metric, {})

    def summaries(self, metric: str) -> dict[Quantity, Summary]:
        """Return median and range over the repeats, of every label set of a metric."""
        return {q: summary for q, v in self.values(metric).items() if (summary := summarise(v))}

    def limits(self, metric: str) -> dict[Quantity, Summary]:
        """Return the time limits reached instead of a metric's durations, and how often."""
        reached = self.summaries(limit_of(metric)) if limit_of(metric) else {}
        return {Quantity(metric, q.labels): summary for q, summary in reached.items()}

    @property
    def at_limit(self) -> set[Quantity]:
        """Return the quantities whose time limit was reached in some run."""
        return {q for metrics in self._measured for q in metrics if duration_of(q.name)}

    @cached_property
    def ready_made(self) -> set[Quantity]:
        """Return the percentiles that its driver reports ready-made."""
        return {
            q for metrics in self._measured for q, value in metrics.items() if is_ready_made(value)
        }

    def kinds(self) -> dict[Quantity, Measured]:
        """Return every quantity with unit and direction, of a run that has a value, if one has."""
        return self._kinds

    @cached_property
    def _kinds(self) -> dict[Quantity, Measured]:
        kinds: dict[Quantity, Measured] = {}
        for run in self._measured:
            for quantity, value in run.items():
                if quantity not in kinds or (
                    kinds[quantity].value is None and value.value is not None
                ):
                    kinds[quantity] = value
        return kinds

    @cached_property
    def headline(self) -> Quantity | None:
        """Return the quantity that stands for the arm; None where nothing does."""
        better = {q: value.better for q, value in self.kinds().items() if value.value is not None}
        return headline(self.usable, self.usable, better).quantity if self.usable else None
