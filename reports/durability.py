"""What became of commits when the server was killed under its clients, arm by arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from harness.store.runs import StoredRun
from reports.series import Arm, Panel
from reports.values import Quantity
from reports.words import quantity_text, range_text

#: What the check is called that looks for commits, and the metric of what it looked for.
_CHECK, _LOOKED_FOR = "durability", "journal_committed_count"
_RECOVERY, _KILLED_AFTER = "recovery_duration_ns", "killed_after_ns"
#: What the cells of a row are.
DURABILITY_HEAD = (
    "",
    "compared",
    "runs",
    "every commit was there",
    "commits looked for",
    "start after the kill",
    "killed after",
)


@dataclass(frozen=True)
class Kept:
    """One arm; cells are text."""

    panel: str
    arm: str
    runs: str
    passed: str
    looked_for: str
    recovery: str
    killed_after: str

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the order of the fields."""
        return astuple(self)


def asked_for_commits(arm: Arm) -> bool:
    """Whether its server was killed, and what had been committed was looked for."""
    return any(_checked(run) for run in arm.runs)


def durability(panels: Sequence[Panel]) -> Iterator[Kept]:
    """Of every arm whose server was killed."""
    for panel in panels:
        for arm in panel.arms:
            if asked_for_commits(arm):
                yield _kept(panel, arm)


def _kept(panel: Panel, arm: Arm) -> Kept:
    held = [state for run in arm.runs if (state := _checked(run))]
    passed = sum(set(states) == {"passed"} for states in held)
    return Kept(
        panel.title_with_workload,
        arm.marked_name,
        str(len(arm.runs)),
        f"in {passed} of {len(held)}",
        _looked_for(arm),
        _time(arm, _RECOVERY),
        _time(arm, _KILLED_AFTER),
    )


def _checked(run: StoredRun) -> list[str]:
    return [check["status"] for check in run.run["checks"] if check["name"] == _CHECK]


def _looked_for(arm: Arm) -> str:
    """Over all of its runs: ``450 new order, 460 payment``."""
    counts = [
        (quantity.labels_text(), sum(values))
        for quantity, values in arm.values(_LOOKED_FOR).items()
    ]
    return ", ".join(f"{count:,.0f} {what}" for what, count in counts) or "–"


def _time(arm: Arm, metric: str) -> str:
    """Median, and where runs differ their range."""
    one = arm.summaries(metric).get(Quantity(metric))
    if one is None:
        return "–"
    spread = f" ({range_text(one.low, one.high, 'ns')})" if one.low != one.high else ""
    return quantity_text(one.median, "ns") + spread
