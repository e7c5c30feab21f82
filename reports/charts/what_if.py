"""Latency of an operation over the duration of one of its calls: measured, fitted, extended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from harness.explain.fit import Refusal
from harness.explain.question import Device, devices
from harness.explain.whatif import WhatIf
from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    INK,
    MARKERS,
    Drawing,
    finish,
    heading_above,
    new_grid,
    style,
)
from reports.series import Arm, Panel

_US = 1e3
_EACH_IN, _HIGH_IN = 4.6, 3.4
_MOST, _MOST_TIERS = 8, 3
_CAPTION = (
    "Each point is a planted delay on top of the calls' own duration, with the 95 % interval of "
    "the mean latency; dots are blocks of half a second, or executions. The line is extended to a "
    "device without latency, and to the tiers on which stored runs have measured these calls: "
    "dotted if the points do not lie on one. A mark is hollow if the prediction is refused. The "
    "dashed line is the time of an operation that this device cannot change."
)


def whatif_fits(
    panel: Panel, metric: str, title: str, name: str, runs: Sequence[StoredRun] = ()
) -> Drawing | None:
    """The fits of the first run of each arm; None without any. ``runs``: that measure tiers."""
    found = [(arm, *fit) for arm in panel.arms for fit in _fits(arm)][:_MOST]
    if not found:
        return None
    with style():
        figure, places = new_grid(len(found), _EACH_IN, _HIGH_IN)
        for (_, run, fit), axes in zip(found, places, strict=True):
            _draw(axes, fit, _tiers(runs, run, fit))
        heading_above(figure, f"What if: {panel.title}")
        alt = "; ".join(_in_words(arm, fit) for arm, _, fit in found)
        return finish(figure, name, title, alt, _CAPTION)


def _fits(arm: Arm) -> list[tuple[StoredRun, WhatIf]]:
    for run in arm.usable:
        document = run.artifact("whatif")
        if document is not None:
            return [(run, WhatIf.from_json(fit)) for fit in document["fits"]]
    return []


def _tiers(runs: Sequence[StoredRun], run: StoredRun, fit: WhatIf) -> list[Device]:
    """Those that ``harness whatif --like-tier`` knows, without the part's own."""
    own = run.head["spec"]["placement"][fit.part]
    found = devices(runs, run.spec, fit.part, fit.operation)
    return [device for tier, device in sorted(found.items()) if tier != own][:_MOST_TIERS]


def _in_words(arm: Arm, fit: WhatIf) -> str:
    slope = fit.fit.slope
    line = "on a line" if fit.fit.linear else "not on a line"
    return (
        f"{arm.marked_name}: latency over the duration of {fit.part} {fit.operation}, {line}, "
        f"slope {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
    )


def _draw(axes: Axes, one: WhatIf, tiers: Sequence[Device]) -> None:
    own_ns = one.calls.mean_ns
    colour, line = ARM_COLOURS[0], ARM_COLOURS[5]
    known_ns = [own_ns if block.call_ns is None else block.call_ns for block in one.blocks]
    axes.plot(
        [(ns + block.delay_ns) / _US for ns, block in zip(known_ns, one.blocks, strict=True)],
        [block.latency_ns / _US for block in one.blocks],
        linestyle="none",
        marker=".",
        markersize=3,
        color=FAINT,
        alpha=0.5,
    )
    levels = one.levels
    values = [level.latency.value for level in levels]
    axes.errorbar(
        [(level.call_ns + level.delay_ns) / _US for level in levels],
        [value / _US for value in values],
        yerr=[
            [(level.latency.value - level.latency.low) / _US for level in levels],
            [(level.latency.high - level.latency.value) / _US for level in levels],
        ],
        fmt="o",
        color=colour,
        label="planted delays",
    )
    last_ns = max(level.call_ns + level.delay_ns for level in levels)
    calls_ns = np.linspace(0.0, last_ns, 30)
    at = [one.fit.at(call_ns - own_ns) for call_ns in calls_ns]
    xs = calls_ns / _US
    linear = one.fit.linear
    axes.plot(xs, [found.value / _US for found in at], "-" if linear else ":", color=line)
    if linear:
        low, high = [found.low / _US for found in at], [found.high / _US for found in at]
        axes.fill_between(xs, low, high, color=line, alpha=0.15, linewidth=0)
        _mark(axes, one, 0.0, "D", line, "no latency")
        axes.plot([own_ns / _US], [one.now.value / _US], "s", color=line, label="this device")
    for device, marker, shade in zip(tiers, MARKERS[3:], ARM_COLOURS[1:], strict=False):
        _mark(axes, one, device.call_ns, marker, shade, device.title)
    if one.floor_ns is not None:
        axes.axhline(one.floor_ns / _US, linestyle="--", color=INK, linewidth=1)
    query = "".join(f" of {key} {value}" for key, value in one.labels.items())
    axes.set_title(f"{one.part}.{one.operation}{query}", loc="left")
    axes.set_xlabel("duration of a call")
    axes.set_ylabel("mean latency")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda us, _: format_ns(us * _US) if us else "0"))
    axes.set_xlim(left=0.0)
    top = max(*values, one.now.value) / _US
    axes.set_ylim(0.0, 1.25 * top)
    axes.legend(loc="lower right")


def _mark(axes: Axes, one: WhatIf, call_ns: float, marker: str, colour: str, name: str) -> None:
    """The prediction for a device; where it is refused, what the line says there."""
    found = one.at_latency(call_ns)
    refused = isinstance(found, Refusal)
    at = one.fit.at(call_ns - one.calls.mean_ns)
    axes.errorbar(
        [call_ns / _US],
        [at.value / _US],
        yerr=[[(at.value - at.low) / _US], [(at.high - at.value) / _US]],
        fmt=marker,
        color=colour,
        markerfacecolor="none" if refused else colour,
        label=f"{name}, {'refused' if refused else 'predicted'}",
    )
