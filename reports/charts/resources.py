"""Where the time goes on each placement: a bar for each arm, by resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill

from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.units import format_ns
from harness.waits import TOLERANCE
from reports.arm import Arm
from reports.charts.drawing import RESOURCE_STYLES, finish, new_figure, style
from reports.metric_registry import load_of
from reports.query_breakdown import MARK
from reports.sections import Drawing
from reports.series import Panel

#: A piece of this share of the longest bar has its time written in it.
_NAMED_SHARE = 0.12
#: Resources without a piece of this share are left out.
_SHOWN_SHARE = 0.002
_LABEL_CHARACTERS = 18
_DARK = ("#0072B2", "#009E73", "#D55E00", "#666666")


def resource_bars(panel: Panel, arms: Sequence[Arm], name: str) -> Drawing | None:
    """The mean operation, or all queries together, on these arms; None without waits on each."""
    found = [_resources(arm) for arm in arms]
    known = (resource != "other" for own in found for resource, ns in own.items() if ns)
    if not all(found) or not any(known):
        return None
    longest = max(sum(own.values()) for own in found)
    least = _SHOWN_SHARE * longest
    shown = [r for r in RESOURCE_STYLES if any(own.get(r, 0.0) > least for own in found)]
    with style():
        figure = new_figure(6.4, 1.15 + 0.42 * len(arms))
        axes = figure.add_subplot()
        left = [0.0] * len(arms)
        for resource in shown:
            colour, hatch = RESOURCE_STYLES[resource]
            widths = [own.get(resource, 0.0) for own in found]
            axes.barh(
                range(len(arms)), widths, 0.7, left, color=colour, hatch=hatch, edgecolor="white",
                linewidth=0.4, label=resource,
            )  # fmt: skip
            for y, (start, width) in enumerate(zip(left, widths, strict=True)):
                if width > _NAMED_SHARE * longest:
                    ink = "white" if colour in _DARK else "black"
                    box = {"facecolor": colour, "edgecolor": "none", "pad": 1.0}
                    axes.text(
                        start + width / 2, y, format_ns(width), color=ink, fontsize=8,
                        ha="center", va="center", bbox=box if hatch else None,
                    )  # fmt: skip
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for y, (arm, end) in enumerate(zip(arms, left, strict=True)):
            axes.text(end, y, f"  {format_ns(end)}{MARK * _off(arm)}", va="center", fontsize=9)
        labels = [fill(arm.marked_name, _LABEL_CHARACTERS, break_on_hyphens=False) for arm in arms]
        axes.set_yticks(range(len(arms)), labels)
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xlim(0, 1.16 * longest)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ns(value)))
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=4, fontsize=9)
        title = f"Where the time of {_of(panel)} goes: {panel.title}"
        return finish(figure, name, title, title, _caption(arms))


def _of(panel: Panel) -> str:
    load = load_of(panel.workload, panel.params)
    return f"the mean {load.noun}" if load else "all queries"


def _caption(arms: Sequence[Arm]) -> str:
    text = "By what its sessions wait for; medians over the runs."
    if any(map(_off, arms)):
        text += f" {MARK}: what was counted is more than {TOLERANCE:.0%} off the latency."
    return text


def _resources(arm: Arm) -> Mapping[str, float]:
    """Medians over the runs, of queries their sum."""
    found: dict[str, float] = {}
    for quantity, one in (arm.summaries("wait_ns") or arm.summaries("query_wait_ns")).items():
        resource = quantity.label("resource") or ""
        found[resource] = found.get(resource, 0.0) + one.median
    return found


def _off(arm: Arm) -> bool:
    shares = [one.median for one in arm.summaries("wait_accounted_share").values()]
    shares += [one.median for one in arm.summaries("query_wait_accounted_share").values()]
    return any(abs(1 - share) > TOLERANCE for share in shares)
