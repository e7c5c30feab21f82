"""A run and its repetition, compared as any two runs are (reports.compare): do they agree?

Agreement has three parts, each reported separately: no fact of the runs differs, the answers are
the same, and the ratio is within a tolerance. The tolerance is a parameter because one run against
one run has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from harness.store.documents import attributes
from harness.store.runs import StoredRun
from reports.compare import Comparison, Group, compare
from reports.compared_rows import Row


@dataclass(frozen=True)
class Reproduction:
    """A run, its repetition, and their comparison (None where the repetition failed).

    ``tolerance``: the largest distance of the ratio from 1, as a share: 0.25.
    """

    original: StoredRun
    again: StoredRun
    comparison: Comparison | None
    tolerance: float

    @classmethod
    def of(cls, original: StoredRun, again: StoredRun, tolerance: float) -> Reproduction:
        """Compare two runs of one spec."""
        failed = "failed" in (original.result.status, again.result.status)
        comparison = None if failed else compare([original], [again], force=True)
        return cls(original, again, comparison, tolerance)

    @property
    def differences(self) -> tuple[str, ...]:
        """Return the facts that differ, those that a comparison would be over included."""
        if self.comparison is None:
            return (f"the repetition failed: {self.again.result.why_failed}",)
        over = ", ".join(self.comparison.over)
        compared = [
            f"{over}: {group.a.name} against {group.b.name}" for group in self._groups if over
        ]
        return (*compared, *map(str, self.comparison.differences))

    @property
    def answers_equal(self) -> bool | None:
        """Return whether the answers are equal; None where a run has none."""
        before, after = self.original.artifact("answers"), self.again.artifact("answers")
        return None if before is None or after is None else bool(before == after)

    @property
    def ratio(self) -> float | None:
        """Return how much better the repetition is: by the headline, else by all results.

        The geometric mean of several; None without a result that both have.
        """
        ratios = [row.ratio for group in self._groups for row in _results(group)]
        return geometric_mean(ratios) if ratios else None

    @property
    def _groups(self) -> tuple[Group, ...]:
        return self.comparison.groups if self.comparison else ()

    @property
    def within_tolerance(self) -> bool:
        """Return whether the ratio is within the tolerance of 1, in either direction."""
        return self.ratio is not None and abs(math.log(self.ratio)) <= math.log1p(self.tolerance)

    @property
    def agrees(self) -> bool:
        """Return whether all three parts agree."""
        return (
            self.again.result.status == self.original.result.status
            and not self.differences
            and self.answers_equal is not False
            and self.within_tolerance
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "original": self.original.run_id,
            "again": self.again.run_id,
            **attributes(self, "agrees", "differences", "answers_equal", "ratio", "tolerance"),
        }

    def text(self) -> str:
        """Return the lines that ``harness repro`` prints."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.original.run_id} again as {self.again.run_id}:"
        yield from (f"  differs: {difference}" for difference in self.differences)
        if self.answers_equal is not None:
            yield f"  answers: {'equal' if self.answers_equal else 'DIFFERENT'}"
        if self.ratio is None:
            yield "  results: nothing to compare"
        else:
            within = "within" if self.within_tolerance else "outside"
            yield (
                f"  results: {self.ratio:.3f} times as good, {within} the tolerance of "
                f"{self.tolerance:.0%}"
            )
        yield f"  it {'agrees' if self.agrees else 'does NOT agree'}"


def _results(group: Group) -> list[Row]:
    """Return the row of the headline; without one the rates, else the times.

    Never both: rates fall as times rise.
    """
    if group.deciding is not None and group.deciding.estimate is not None:
        return [group.deciding]
    rows = [row for row in group.rows if row.estimate is not None and row.better != "none"]
    return [row for row in rows if row.better == "higher"] or rows
