"""The differences that an experiment can show, before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.sequences import grouped
from harness.store.spec import RunSpec
from reports.ranks import repeats_needed
from reports.run_configuration import (
    dimension,
    facts_of_spec,
    other_facts,
    swept_facts,
)
from reports.series import varying_dimension
from reports.statistics import ALPHA


@dataclass(frozen=True)
class PlannedRepeats:
    """``repeats`` of each run, ``comparisons`` with a baseline over the dimension ``over``.

    ``needed``: the repeats from which the headlines, one for each comparison, can show a
    difference; None where nothing is compared. ``level``: that of a look.
    """

    over: str
    repeats: int
    comparisons: int
    needed: int | None
    level: float = ALPHA

    @property
    def text(self) -> str:
        """One sentence; empty where nothing is compared."""
        if self.needed is None:
            return ""
        noun = "comparison" if self.comparisons == 1 else "comparisons"
        looks = round(ALPHA / self.level)
        at = f", with {looks} looks" if looks > 1 else ""
        need = (
            f"to show a difference at p ≤ {ALPHA:g} in {self.comparisons} {noun}{at}, the "
            f"headline needs {self.needed} repeats of each run"
        )
        if self.repeats >= self.needed:
            return f"{need}; {self.repeats} are planned"
        planned = "1 is" if self.repeats == 1 else f"{self.repeats} are"
        return (
            f"{need}, but {planned} planned: no difference can be shown, however large; "
            f"give --repeats {self.needed}"
        )


def planned_repeats(
    specs: Sequence[RunSpec], host_mode: str, interim_analyses: int = 1
) -> PlannedRepeats:
    """Return what a report on these runs would compare, on a host in this mode.

    ``interim_analyses``: how often at most results decide whether there are more repeats.
    """
    over, together = compared_together(specs, host_mode)
    comparisons = sum(len(arms) - 1 for arms in together)
    repeats = max((spec.block for spec in specs), default=0) + 1
    level = ALPHA / interim_analyses
    needed = repeats_needed(level / comparisons, "paired") if comparisons else None
    return PlannedRepeats(over, repeats, comparisons, needed, level)


def compared_together(
    specs: Sequence[RunSpec], host_mode: str
) -> tuple[str, list[list[list[RunSpec]]]]:
    """The compared dimension, and the runs that are compared with one another, by their arms.

    Comparisons leave out runs with planted delays.
    """
    specs = [spec for spec in specs if not spec.plant]
    facts = []
    for spec in specs:
        other_mode = (spec.required_host_mode or "").partition("|")[0]
        facts.append(facts_of_spec(spec, host_mode if spec.runs_in(host_mode) else other_mode))
    over = varying_dimension(facts)
    dim = dimension(over)
    swept = swept_facts(
        grouped((planned.get(dim.fact), planned) for planned in facts).values(), [dim]
    )
    together: dict[frozenset[tuple[str, str]], dict[str, list[RunSpec]]] = {}
    for spec, planned in zip(specs, facts, strict=True):
        rest = other_facts(planned, [dim], swept)
        together.setdefault(rest, {}).setdefault(planned.get(dim.fact, ""), []).append(spec)
    return over, [list(arms.values()) for arms in together.values()]
