"""Marks next to a line of equal ones: predicted and measured speed-ups, models' errors by host."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from matplotlib.axes import Axes

from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    INK,
    MARKERS,
    columns,
    finish,
    heading_above,
    new_figure,
    ratio_ticks,
    style,
)
from reports.explain.correlation import CheckedPrediction
from reports.formatting import range_text
from reports.host_models import ErrorOnHost
from reports.run_configuration import marked
from reports.sections import Drawing
from reports.statistics import Value

_SIDE_IN = 5.4
#: An entry of the legend.
_LEGEND_IN = 0.2
#: Between the outermost end of a bar and the frame, as a factor.
_MARGIN = 1.15
_EQUAL, _MODELLED = "equal", "modelled"
_CAPTION = (
    "A mark for each comparison: above the line, more was measured than predicted. Bars: the "
    "interval of each side. One colour for each engine."
)
_OF_MODELS = " Hollow: predicted by runs of the engine on models of the devices."


def scatter(
    marks: Sequence[CheckedPrediction], name: str, emulated: Sequence[str] = ()
) -> Drawing | None:
    """Draw them on one pair of log axes with equal ends; None where there are none.

    ``emulated``: the stand-ins on which speed-ups were measured.
    """
    if not marks:
        return None
    engines = list(dict.fromkeys(mark.engine for mark in marks))
    title = "Predicted and measured speed-up"
    with style():
        figure = new_figure(_SIDE_IN + 0.4, _SIDE_IN)
        axes = figure.add_subplot()
        low, high = _ends(marks)
        axes.plot([low, high], [low, high], color=INK, linewidth=1, label=_EQUAL)
        for at, engine in enumerate(engines):
            colour = ARM_COLOURS[at % len(ARM_COLOURS)]
            marker = MARKERS[(at + at // len(ARM_COLOURS)) % len(MARKERS)]
            for mark in marks:
                if mark.engine == engine:
                    _draw(axes, mark, colour, marker)
            axes.plot([], [], marker, color=colour, ms=6, label=engine)
        labels = [_EQUAL, *engines]
        if modelled := any(mark.modelled for mark in marks):
            axes.plot([], [], "o", label=_MODELLED, color=FAINT, mfc="white", ms=6)
            labels.append(_MODELLED)
        _dress(axes, low, high)
        ncols = columns(axes, labels, 3)
        figure.set_figheight(figure.get_figheight() + _LEGEND_IN * -(-len(labels) // ncols))
        figure.legend(loc="outside lower left", ncols=ncols)
        heading_above(figure, marked(title, emulated, unknown=False))
        caption = _CAPTION + _OF_MODELS * modelled
        return finish(figure, name, title, _alt(marks, engines), caption)


def _draw(axes: Axes, mark: CheckedPrediction, colour: str, marker: str) -> None:
    (x, *x_bar), (y, *y_bar) = map(_with_bar, (mark.predicted, mark.measured))
    axes.errorbar(
        x,
        y,
        xerr=[[bar] for bar in x_bar],
        yerr=[[bar] for bar in y_bar],
        color=colour,
        marker=marker,
        mfc="white" if mark.modelled else colour,
        ms=6,
        elinewidth=0.9,
        capsize=2,
        linestyle="none",
    )


def _with_bar(value: Value) -> tuple[float, float, float]:
    """The value, and what its bar takes below and above."""
    low, high = _interval(value)
    return value.value, value.value - low, high - value.value


def _interval(value: Value) -> tuple[float, float]:
    low = value.value if value.low is None else min(value.low, value.value)
    return low, value.value if value.high is None else max(value.high, value.value)


def _ends(marks: Sequence[CheckedPrediction]) -> tuple[float, float]:
    """The ends of both axes: 1 is among what they show."""
    intervals = [_interval(side) for mark in marks for side in (mark.predicted, mark.measured)]
    lows, highs = zip(*intervals, strict=True)
    return min(1.0, *lows) / _MARGIN, max(1.0, *highs) * _MARGIN


#: Of each host, and a line of its name.
_HOST_IN, _HOST_LETTERS = 1.6, 15
#: Between the marks of a host, of the distance of two hosts.
_APART = 0.7
_OF_ERRORS = (
    "A mark for each scored case: above the line, the model gave more than the tier. Filled: "
    "throughput. Hollow: the time of the engine's calls, which is what carries over to other "
    "loads. Bars: intervals."
)


def model_errors(errors: Sequence[ErrorOnHost], hosts: Sequence[str], name: str) -> Drawing | None:
    """Draw what models gave over what tiers gave, by host; None where there is nothing to draw.

    By host and as a ratio, since who compares hosts wants to know where models can be trusted:
    measured over modelled throughput spans decades, in which an error of 10 % is not seen.
    """
    if not errors:
        return None
    engines = list(dict.fromkeys(error.engine for error in errors))
    title = "Models' errors by host"
    with style():
        figure = new_figure(max(_SIDE_IN + 0.4, _HOST_IN * len(hosts)), _SIDE_IN * 0.7)
        axes = figure.add_subplot()
        axes.axhline(1.0, color=INK, linewidth=1)
        intervals = [_interval(error.ratio) for error in errors]
        low = min(1 / 1.25, *(low for low, _ in intervals)) / _MARGIN
        high = max(1.25, *(high for _, high in intervals)) * _MARGIN
        for at, host in enumerate(hosts):
            of_host = [error for error in errors if error.host == host]
            for number, error in enumerate(of_host):
                place = engines.index(error.engine)
                x = at + _APART * ((number + 0.5) / len(of_host) - 0.5)
                y, below, above = _with_bar(error.ratio)
                colour = ARM_COLOURS[place % len(ARM_COLOURS)]
                axes.errorbar(
                    x,
                    y,
                    yerr=[[below], [above]],
                    color=colour,
                    marker=MARKERS[place % len(MARKERS)],
                    mfc="white" if error.of_device else colour,
                    ms=6,
                    elinewidth=0.9,
                    capsize=2,
                    linestyle="none",
                )
        for place, engine in enumerate(engines):
            colour, marker = ARM_COLOURS[place % len(ARM_COLOURS)], MARKERS[place % len(MARKERS)]
            axes.plot([], [], marker, color=colour, ms=6, label=engine)
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        ratio_ticks(axes.yaxis, low, high)
        axes.set_xlim(-0.5, len(hosts) - 0.5)
        names = ("\n".join(wrap(host, _HOST_LETTERS)) for host in hosts)
        axes.set_xticks(range(len(hosts)), list(names))
        axes.set_ylabel("model over tier, log axis")
        figure.legend(loc="outside lower left", ncols=columns(axes, engines, 4))
        heading_above(figure, title)
        return finish(figure, name, title, _errors_alt(errors, hosts), _OF_ERRORS)


def _errors_alt(errors: Sequence[ErrorOnHost], hosts: Sequence[str]) -> str:
    texts = []
    for host in hosts:
        for what, of_device in (("throughput", False), ("time of calls", True)):
            ratios = [e.ratio.value for e in errors if e.host == host and e.of_device == of_device]
            if ratios:
                texts.append(f"{host}, {what} {range_text(min(ratios), max(ratios), '×')}")
    return f"Scatter. {'; '.join(texts)}."


def _dress(axes: Axes, low: float, high: float) -> None:
    for axis, set_scale, set_ends in (
        (axes.xaxis, axes.set_xscale, axes.set_xlim),
        (axes.yaxis, axes.set_yscale, axes.set_ylim),
    ):
        set_scale("log")
        set_ends(low, high)
        ratio_ticks(axis, low, high)
    axes.set_aspect("equal")
    axes.set_xlabel("predicted speed-up, log axis")
    axes.set_ylabel("measured speed-up, log axis")


def _alt(marks: Sequence[CheckedPrediction], engines: Sequence[str]) -> str:
    """Say what both sides range over, by engine and by what predicts."""
    texts = []
    for engine in engines:
        for modelled in (False, True):
            pairs = [
                (mark.predicted.value, mark.measured.value)
                for mark in marks
                if mark.engine == engine and mark.modelled == modelled
            ]
            if pairs:
                sides = (range_text(min(side), max(side), "×") for side in zip(*pairs, strict=True))
                by = "predicted by runs on models" if modelled else "predicted"
                texts.append(f"{engine}, {by} {', measured '.join(sides)}")
    return f"Scatter. {'; '.join(texts)}."
