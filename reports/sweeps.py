"""A result over a parameter that was varied: one line for each arm, across the panels.

Runs that differ in a parameter stand in panels of their own, where each is compared with its
counterpart. Here their medians are laid side by side: new orders a minute over the number of
users, one line a placement and setting (VLDB 2023, Fig. 5 to 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from harness.reports.facts import spec_facts
from harness.reports.naming import FOLLOWING, differing, in_words, leading, telling_first
from harness.reports.published import PublishedSeries
from harness.reports.series import Arm, Panel
from harness.reports.values import Quantity, Summary

#: Metric, and the parameter that it is shown over.
SWEPT = (("new_orders_per_minute", "users"),)
#: Of two lines of a paper: ``pmem-both over ssd-both``, under the metric's name with this.
RATIO = "_ratio"
OVER = " over "
#: What the panel's engine and the placement say already.
_TOLD = ("emulate", "engine", "host_mode")


@dataclass(frozen=True)
class Line:
    """One arm under one set of other conditions, over the parameter.

    ``settings``: the engine's settings that tell it from the sweep's other lines.
    ``points``: median and range by the parameter's value, ascending.
    """

    name: str
    arm: str
    emulated: bool
    unknown: bool
    settings: Mapping[str, str]
    points: Mapping[int, Summary]

    @property
    def marked_name(self) -> str:
        """As every legend and header shows it."""
        return f"{self.name}{' (EMULATED)' if self.emulated else ''}{' †' if self.unknown else ''}"

    def is_meant_by(self, arm: str) -> bool:
        """Whether a paper's ``pmem-both,wal_compression=on`` is this line."""
        name, *given = arm.split(",")
        wanted = dict(one.partition("=")[::2] for one in given)
        return (
            name == self.arm
            and wanted.keys() == self.settings.keys()
            and all(fnmatchcase(self.settings[key], value) for key, value in wanted.items())
        )


@dataclass(frozen=True)
class Sweep:
    """The lines of one engine. ``values``: those of the parameter, ascending."""

    title: str
    engine: str
    metric: str
    unit: str
    parameter: str
    lines: tuple[Line, ...]

    @property
    def values(self) -> tuple[int, ...]:
        """Every value of the parameter that some line has a point at."""
        return tuple(sorted({value for line in self.lines for value in line.points}))


@dataclass(frozen=True)
class _Part:
    """One arm of one panel: a point of a line."""

    arm: Arm
    value: int
    summary: Summary
    facts: Mapping[str, str]


def sweeps(panels: Sequence[Panel]) -> list[Sweep]:
    """Those of every engine that has the metric, a single value of the parameter included."""
    found = []
    for metric, parameter in SWEPT:
        for title in dict.fromkeys(panel.engine for panel in panels):
            own = [panel for panel in panels if panel.engine == title]
            parts = list(_parts(own, metric, parameter))
            if parts:
                lines = tuple(_lines(parts, parameter))
                unit = next(one.unit for q, one in parts[0].arm.kinds().items() if q.name == metric)
                found.append(Sweep(title, own[0].engine_name, metric, unit, parameter, lines))
    return found


def published_points(
    sweep: Sweep, published: Sequence[PublishedSeries]
) -> Iterator[tuple[Line, PublishedSeries]]:
    """The paper's series of the sweep's metric, each with the line that it is one of."""
    for series in published:
        if series.engine != sweep.engine or series.metric != sweep.metric:
            continue
        if series.base_unit == sweep.unit:
            yield from ((line, series) for line in sweep.lines if line.is_meant_by(series.arm))


def _parts(panels: Sequence[Panel], metric: str, parameter: str) -> Iterator[_Part]:
    for panel in panels:
        for arm in panel.arms:
            summary = arm.summaries(metric).get(Quantity(metric))
            if summary is None:
                continue
            spec: Mapping[str, Any] = arm.usable[0].run["spec"]
            value = spec["params"].get(parameter)
            if isinstance(value, int):
                yield _Part(arm, value, summary, spec_facts(arm.usable[0]))


def _lines(parts: Sequence[_Part], parameter: str) -> Iterator[Line]:
    """Parts that agree in all but the parameter and what follows from it."""
    names = [f"params.{parameter}", *FOLLOWING.get(f"params.{parameter}", ())]
    told = leading(names, [part.facts for part in parts])
    free = {name for name in names if name not in told[1:]}
    grouped = _grouped(parts, free)
    sets = [{f: v for f, v in held[0].facts.items() if f not in free} for held in grouped]
    telling = [f for f in telling_first(differing(sets)) if f.partition(".")[0] not in _TOLD]
    for held, known in zip(grouped, sets, strict=True):
        first = held[0].arm
        words = [in_words(f, known.get(f)) for f in telling if known.get(f) != first.value]
        yield Line(
            ", ".join([first.name, *filter(None, words)]),
            first.value,
            any(part.arm.emulated for part in held),
            any(part.arm.unknown for part in held),
            {f.partition(".")[2]: known[f] for f in telling
             if f.startswith("settings.") and f in known},
            {p.value: p.summary for p in sorted(held, key=lambda part: part.value)},
        )  # fmt: skip


def _grouped(parts: Sequence[_Part], free: set[str]) -> list[list[_Part]]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], list[_Part]] = {}
    for part in parts:
        known = frozenset((f, v) for f, v in part.facts.items() if f not in free)
        found.setdefault((part.arm.name, known), []).append(part)
    return list(found.values())
