"""How every chart looks and is written: palette, hatches, deterministic SVG and PNG.

Colours are Okabe and Ito's, distinguishable under every common colour blindness; hatches
distinguish them in black and white. Emulated arms are hatched densely and named EMULATED.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from reports.formatting import stand_in_mark
from reports.sections import Drawing
from reports.series import Panel

ARM_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = "osD^vP"
DASHES = ("-", "--", ":", "-.")
#: Axes in a row of a grid.
ACROSS = 2
ARM_HATCHES = ("", "..", "--", "++", "xx", "oo")
EMULATED_HATCH = "////"
OPERATOR_STYLES = {
    "scan": ("#56B4E9", ""),
    "join": ("#E69F00", "//"),
    "aggregate": ("#009E73", ".."),
    "sort": ("#CC79A7", "xx"),
    "other": ("#BBBBBB", ""),
    "outside": ("#666666", "--"),
}
#: What waits for devices in shades of two colours, the log's hatched.
RESOURCE_STYLES = {
    "processor": ("#009E73", ""),
    "data read": ("#56B4E9", ""),
    "data write": ("#0072B2", ""),
    "log write": ("#E69F00", "//"),
    "log sync": ("#D55E00", "//"),
    "lock": ("#CC79A7", "xx"),
    "buffer": ("#F0E442", ".."),
    "client": ("#BBBBBB", ""),
    "other": ("#666666", "--"),
}
#: Of bold 12 point and of 10 point letters, in fonts that may be wider than those measured.
_TITLE_PER_IN, _LABEL_PER_IN = 8.5, 11.0
_LINE_IN, _BESIDE_IN = 0.2, 1.1
#: What a legend's mark and its gaps take, in letters.
_HANDLE = 6
INK, FAINT = "#1f2328", "#8a9099"
#: What the label of a tick takes of the axis, with a gap.
_TICK_WIDTH = 0.1
_MANTISSAS = (1, 1.1, 1.25, 1.5, 2, 2.5, 3.3, 4, 5, 6.7, 8, 9)
_RATIOS = tuple(
    float(f"{mantissa * 10.0**power:.2g}") for power in range(-3, 4) for mantissa in _MANTISSAS
)

_STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("style.mplstyle"), use_default_template=False
)


_with_png = ContextVar("_with_png", default=True)


@contextmanager
def svg_alone() -> Iterator[None]:
    """Leave ``Drawing.png`` empty: for pages that have the SVG in them and no files of figures."""
    token = _with_png.set(False)
    try:
        yield
    finally:
        _with_png.reset(token)


@contextmanager
def style() -> Iterator[None]:
    """The look of every chart, without touching the caller's matplotlib."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure, sizes in inches."""
    return Figure(figsize=(width_in, height_in))


def new_grid(count: int, each_in: float, high_in: float) -> tuple[Figure, list[Axes]]:
    """A figure with as many axes of this width and height, in rows of two."""
    across = min(ACROSS, count)
    down = -(-count // ACROSS)
    figure = new_figure(0.6 + each_in * across, 0.5 + high_in * down)
    places = list(figure.subplots(down, across, squeeze=False).flat)
    for axes in places[count:]:
        axes.set_visible(False)
    return figure, places[:count]


def query_figure(groups: int, arms: int) -> Figure:
    """A figure for ``groups`` groups of ``arms`` bars: wider where the bars would get too thin."""
    per_group = max(0.36, 0.13 * arms)
    return new_figure(min(14.0, max(6.0, 2.2 + per_group * groups)), 3.9)


def bar_places(index: int, arms: int, groups: int) -> tuple[list[float], float]:
    """Where the ``index``-th arm's bars of ``groups`` groups stand, and how wide they may be."""
    width = 0.8 / arms
    return [group + (index - (arms - 1) / 2) * width for group in range(groups)], width


def letters(axes: Axes, names: Sequence[str], below: float) -> None:
    """A legend that says which arm is ``a``, which ``b`` …, so far below the axes."""
    handles = [
        Patch(facecolor="none", edgecolor="none", label=f"{chr(ord('a') + index)}: {name}")
        for index, name in enumerate(names)
    ]
    axes.legend(
        handles=handles,
        bbox_to_anchor=(0, below),
        handlelength=0,
        handletextpad=0,
        ncols=columns(axes, [f"a: {name}" for name in names], 4),
        loc="upper left",
        borderaxespad=0,
    )


def finish(figure: Figure, name: str, title: str, alt: str, caption: str) -> Drawing:
    """Write the figure as SVG and PNG, the same bytes every time."""
    svg, png = io.StringIO(), io.BytesIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with warnings.catch_warnings():
        # A browser has other fonts; the PNG shows a box.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        ConstrainedLayoutEngine().execute(figure)  # once, for both files
        for axes in figure.axes:  # the solver's last digits differ from one process to another
            x, y, width, height = axes.get_position().bounds
            axes.set_position((round(x, 9), round(y, 9), round(width, 9), round(height, 9)))
        figure.savefig(svg, format="svg", metadata=nothing)
        if _with_png.get():
            figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Drawing(name, title, alt, caption, svg.getvalue(), png.getvalue())


def arm_style(index: int, emulated: bool) -> dict[str, Any]:
    """Fill, edge and hatch of the bars of the ``index``-th arm."""
    place = index % len(ARM_COLOURS)
    return {
        "facecolor": ARM_COLOURS[place],
        "edgecolor": "white" if emulated or ARM_HATCHES[place] else ARM_COLOURS[place],
        "hatch": EMULATED_HATCH if emulated else ARM_HATCHES[place],
        "linewidth": 0.4,
    }


def panel_title(axes: Axes, panel: Panel) -> None:
    """The panel's name above the axes, and which of its arms are emulated; in lines that fit."""
    emulated = [arm for arm in panel.arms if arm.emulated]
    names = ", ".join(arm.name for arm in emulated)
    mark = f" · {names} {stand_in_mark([t for a in emulated for t in a.emulated])}" if names else ""
    title_above(axes, panel.title + mark)


def title_above(axes: Axes, text: str) -> None:
    """A title in lines that fit."""
    lines = wrap(text, _characters(axes, _TITLE_PER_IN), break_on_hyphens=False)
    axes.set_title("\n".join(lines), loc="left", fontweight="bold")
    figure = axes.get_figure(root=True)
    if figure is not None:  # what the lines take is not taken from the axes
        figure.set_figheight(figure.get_figheight() + _LINE_IN * (len(lines) - 1))


def heading_above(figure: Figure, text: str) -> None:
    """A title over several axes, in lines that fit."""
    per_line = int((figure.get_figwidth() - 0.3) * _TITLE_PER_IN)
    lines = wrap(text, per_line, break_on_hyphens=False)
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontweight="bold")
    figure.set_figheight(figure.get_figheight() + _LINE_IN * len(lines))


def ratio_ticks(axis: Axis, low: float, high: float) -> None:
    """Label round ratios on a log axis, 1 always among them, none nearer than its label is wide."""
    apart = _TICK_WIDTH * math.log(high / low)
    ticks: list[float] = []
    for ratio in sorted((ratio for ratio in _RATIOS if low <= ratio <= high), key=_roundness):
        if all(abs(math.log(ratio / other)) >= apart for other in ticks):
            ticks.append(ratio)
    axis.set_major_locator(FixedLocator(sorted(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))


def _roundness(tick: float) -> tuple[int, float]:
    """1 first, then powers of ten, 2 and 5 times them, and the others."""
    digits = f"{tick:e}".partition("e")[0].rstrip("0").rstrip(".")
    return (0 if tick == 1 else {"1": 1, "2": 2, "5": 2}.get(digits, 3), tick)


def columns(axes: Axes, labels: Sequence[str], most: int) -> int:
    """Into how many columns a legend of these labels fits, at most ``most``."""
    longest = max(map(len, labels), default=0) + _HANDLE
    return max(1, min(most, _characters(axes, _LABEL_PER_IN) // longest))


def _characters(axes: Axes, per_in: float) -> int:
    """Characters that fit next to the labels of the axis."""
    figure = axes.get_figure(root=True)
    width_in = figure.get_figwidth() if figure is not None else 0.0
    return max(20, int((width_in - _BESIDE_IN) * per_in))
