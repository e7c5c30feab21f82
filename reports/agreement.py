"""How far two drivers agree that offered the same load: each on data of its own making.

One driver calibrates the other. Nothing is won by the one that shows more: what they differ by
is client, statements and data together, and no tier is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.runs import StoredRun
from harness.units import format_bytes
from reports.compare import Group, Row, compare
from reports.conclusion import rate_lines
from reports.metric_registry import metric_info
from reports.run_configuration import placement_name
from reports.series import Panel, panels
from reports.statistics import Estimate
from reports.words import (
    EMULATED,
    counted,
    interval_text,
    metric_title,
    times,
)

#: The dimension that they are compared over.
DRIVER = "driver"
#: Data of two drivers whose sizes are farther apart are told: caches hold less of the larger.
_SIZES_APART = 0.01


@dataclass(frozen=True)
class Agreement:
    """Two drivers under the same conditions: a sentence, and what stands behind it."""

    panel: Panel
    sentence: str
    details: tuple[str, ...]


def driven_by_several(runs: Sequence[StoredRun]) -> list[Panel]:
    """The runs that differ in their driver alone, ordered by it; empty where one drove all."""
    drivers: dict[str, set[str]] = {}
    for run in runs:
        spec = run.run["spec"]
        drivers.setdefault(spec["workload"], set()).add(spec["driver"])
    own = [run for run in runs if len(drivers[run.run["spec"]["workload"]]) > 1]
    return [panel for panel in panels(own, DRIVER, None, force=True) if panel.groups] if own else []


def agreements(found: Sequence[Panel]) -> list[Agreement]:
    """For every pair of drivers that has a headline in common."""
    return [one for panel in found for group in panel.groups for one in _of_group(panel, group)]


def _of_group(panel: Panel, group: Group) -> Iterator[Agreement]:
    rows = {row.quantity: row for row in group.rows if row.estimate and row.better != "none"}
    head = group.row(group.headline.quantity)
    if head is None or head.estimate is None:
        return
    estimate = head.estimate
    a, b = group.a.marked_name, group.b.marked_name
    sentence = (
        f"{_where(panel)}: {b} has {times(_of_b_to_a(head))} of what {a} has in "
        f"{metric_title(head)}{_marked(group)}: {_outcome(head)}."
    )
    details = [
        f"Ratio {interval_text(estimate)} over {_runs(estimate)}; each drove data of its own "
        "making.",
        *(f"{line}." for line in rate_lines(group)),
        *_sizes(panel, group),
        *_times(list(rows.values()), a, b),
    ]
    details += [f"{remark[0].upper()}{remark[1:]}." for remark in group.remarks]
    if differences := _besides(panel, group):
        details.append(f"Beside the driver they differ in {'; '.join(differences)}.")
    yield Agreement(panel, sentence, tuple(details))


def _runs(estimate: Estimate) -> str:
    """``6 runs of each``, ``1 and 2 runs``."""
    if estimate.n_a == estimate.n_b:
        return f"{counted(estimate.n_a, 'run')} of each"
    return f"{estimate.n_a} and {estimate.n_b} runs"


def _besides(panel: Panel, group: Group) -> list[str]:
    """What else differs: a client that holds the engine opens it in its own way."""
    arms = {arm.name: arm for arm in panel.arms}
    a, b = (arms[side.name].usable for side in (group.a, group.b))
    return [str(one) for one in compare(a, b, [DRIVER], force=True).differences]


def _sizes(panel: Panel, group: Group) -> Iterator[str]:
    """How large their data are, where that differs: the same records compress in another way."""
    arms = {arm.name: arm for arm in panel.arms}
    sizes: list[float] = []
    for side in (group.a, group.b):
        told = [run.run["data_bytes"] for run in arms[side.name].usable]
        if not told or None in told:
            return
        sizes.append(median(told))
    a, b = sizes
    if abs(b - a) > _SIZES_APART * max(a, b):
        yield (
            f"Their data differ in size: {format_bytes(int(a))} of {group.a.marked_name}, "
            f"{format_bytes(int(b))} of {group.b.marked_name}; caches hold more of the smaller, "
            "and tiers carry less."
        )


def _where(panel: Panel) -> str:
    """With the placement, which the title has only where it differs."""
    names = dict.fromkeys(placement_name(run.run["spec"]) for run in panel.runs)
    rest = [name for name in names if not any(name in told for told in panel.context)]
    return ", ".join([panel.title_with_workload, *rest])


def _marked(group: Group) -> str:
    return f" ({EMULATED})" if group.a.emulated or group.b.emulated else ""


def _of_b_to_a(row: Row) -> float:
    """How much of A's value B has; an estimate says how much better B is."""
    assert row.estimate is not None
    return row.estimate.ratio if row.better == "higher" else 1 / row.estimate.ratio


def _outcome(row: Row) -> str:
    if row.judgement is None or row.judgement.outcome == "cannot be shown":
        needed = f" ({row.judgement.repeats_needed} of each are needed)" if row.judgement else ""
        return f"whether they differ cannot be shown with so few repeats{needed}"
    if row.judgement.outcome == "shown":
        return "that they differ is shown"
    return "no difference was shown"


def _times(rows: Sequence[Row], a: str, b: str) -> Iterator[str]:
    """How far the times of what was asked for are apart, over all of their percentiles."""
    for metric in dict.fromkeys(row.quantity.name for row in rows):
        own = [row for row in rows if row.quantity.name == metric]
        info = metric_info(own[0].quantity, own[0].better)
        if info.role != "detail":
            continue
        ratios = sorted(_of_b_to_a(row) for row in own)
        told = ", percentiles of one as it tells them" if any(row.told for row in own) else ""
        yield (
            f"{info.title[0].upper()}{info.title[1:]}, {counted(len(own), 'row')}: {b} has from "
            f"{times(ratios[0])} to {times(ratios[-1])} those of {a}{told}."
        )
