"""A result over a parameter that was varied: one line for each arm, across the panels.

Runs that differ in a parameter stand in panels of their own, where each is compared with its
counterpart. Here their medians are laid side by side: new orders a minute over the number of
users, one line a placement and setting (VLDB 2023, Fig. 5 to 10); operations a second and their
times over the client's threads, apart for each core workload (Fig. 11 and 12); the time of query 6
over the share of rows that its dates select (Fig. 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.metrics import Swept, load_of, workload_info
from harness.sequences import grouped
from harness.store.runs import StoredRun
from reports.arm import Arm
from reports.headline import main_operation
from reports.labels import (
    at_value,
    by_relevance,
    differing,
    in_words,
    leading,
    number_of,
    parameter_words,
    varied_numbers,
)
from reports.metric_registry import metric_info
from reports.run_configuration import followers, marked, spec_facts
from reports.series import Panel
from reports.values import Point, Quantity, Summary, in_order, laid_together, mean_durations

#: Of two lines of a paper: ``pmem-both over ssd-both``, under the metric's name with this.
RATIO = "_ratio"
OVER = " over "
#: What the panel's engine and the placement say already.
_KNOWN = ("emulate", "models", "engine", "host_mode")


@dataclass(frozen=True)
class Line:
    """One arm under one set of other conditions, over the parameter.

    ``settings``: the engine's settings that tell it from the sweep's other lines.
    ``points``: median and range by the parameter's value, ascending.
    """

    name: str
    arm: str
    emulated: tuple[str, ...]
    unknown: bool
    settings: Mapping[str, str]
    points: Mapping[float, Summary]

    @property
    def marked_name(self) -> str:
        """As every legend and header shows it."""
        return marked(self.name, self.emulated, self.unknown)


@dataclass(frozen=True)
class Sweep:
    """The lines of one engine. ``values``: those of the parameter, ascending.

    ``measured``: the quantity with its unit and direction. ``shared``: what all of its runs share
    and must be known. ``place``: name and value of the parameter that other sweeps of the
    quantity have other values of; empty without one. ``per_cent``: whether values are shares;
    ``offered``: whether they are rates. ``x_unit``: of the parameter, empty for counts.
    """

    engine_title: str
    engine: str
    measured: Point
    parameter: str
    lines: tuple[Line, ...]
    shared: tuple[str, ...] = ()
    place: tuple[str, str] = ("", "")
    per_cent: bool = False
    offered: bool = False
    x_unit: str = ""

    @property
    def title(self) -> str:
        return ", ".join([self.engine_title, *self.shared])

    @property
    def metric(self) -> str:
        """The name under which a paper's numbers stand; with its labels in brackets."""
        quantity = self.measured.quantity
        labels = ",".join(f"{name}={value}" for name, value in quantity.labels)
        return f"{quantity.name}[{labels}]" if labels else quantity.name

    @property
    def unit(self) -> str:
        return self.measured.unit

    @property
    def measure(self) -> str:
        """``New-Orders per minute``, ``time of an operation: read, percentile 99``."""
        info, labels = (
            metric_info(self.measured.quantity, self.measured.better),
            self.measured.quantity,
        )
        return ": ".join(filter(None, [info.title, labels.labels_text()]))

    @property
    def over(self) -> str:
        return "share of rows selected" if self.per_cent else parameter_words(self.parameter)

    def at(self, value: float) -> str:
        """``1 client thread``, ``scale 0.1``, ``15 % of rows selected``."""
        if self.per_cent:
            return f"{value} % of rows selected"
        return at_value(self.parameter, value, self.x_unit)

    @property
    def place_name(self) -> str:
        """``core workload a``; empty where there are no other places."""
        name, value = self.place
        return in_words(f"params.{name}", value) if name else ""

    @property
    def values(self) -> tuple[float, ...]:
        """Return all values of the parameter at which some line has a point."""
        return tuple(sorted({value for line in self.lines for value in line.points}))

    @property
    def varies(self) -> bool:
        """Return whether there is a line: a single point each says nothing over the parameter."""
        return any(len(line.points) > 1 for line in self.lines)

    def meant_by(self, arm: str) -> list[Line]:
        """The lines that a paper's ``pmem-both,wal_compression=on`` is one of.

        Where there are several places it names its own, too: ``pmem-both,workload=a``.
        """
        name, *given = arm.split(",")
        wanted = dict(setting.partition("=")[::2] for setting in given)
        place, value = self.place
        if place and wanted.pop(place, "") != value:
            return []
        return [
            line
            for line in self.lines
            if name == line.arm
            and wanted.keys() == line.settings.keys()
            and all(fnmatchcase(line.settings[key], value) for key, value in wanted.items())
        ]


@dataclass(frozen=True)
class _LinePoint:
    """One arm of one panel: a point of a line."""

    arm: Arm
    value: float
    point: Point
    facts: Mapping[str, str]


def sweeps(panels: Sequence[Panel]) -> list[Sweep]:
    """Return the sweeps of each engine that has the metric, those over a single value included."""
    all_sweeps: list[Sweep] = []
    stated = {swept: None for panel in panels for swept in _stated(panel)}
    for swept in [*stated, *_others(panels)]:
        having = [panel for panel in panels if swept not in stated or swept in _stated(panel)]
        for title in dict.fromkeys(panel.engine for panel in having):
            of_engine = [panel for panel in having if panel.engine == title]
            line_points = [each for panel in of_engine for each in _line_points(panel, swept)]
            for quantity in in_order({each.point.quantity for each in line_points}):
                alike = [each for each in line_points if each.point.quantity == quantity]
                all_sweeps += _by_place(of_engine[0], swept, alike)
    return all_sweeps


def _stated(panel: Panel) -> Sequence[Swept]:
    return workload_info(panel.workload).sweeps


def _others(panels: Sequence[Panel]) -> Iterator[Swept]:
    """The headline over each other number in which panels of one engine and workload differ."""
    by_workload = grouped(((panel.engine, panel.workload), panel) for panel in panels)
    varied: dict[Swept, None] = {}
    for alike in by_workload.values():
        stated = {swept.parameter for swept in _stated(alike[0])}
        facts = [spec_facts(arm.usable[0]) for panel in alike for arm in panel.arms if arm.usable]
        heads = [arm.headline for panel in alike for arm in panel.arms if arm.headline]
        for fact in varied_numbers(facts):
            varied |= {Swept(q.name, fact): None for q in heads if fact not in stated}
    yield from varied


def side_by_side(all_sweeps: Sequence[Sweep]) -> list[list[Sweep]]:
    """Sweeps that vary, those of one engine, quantity and common conditions together."""
    varying = (sweep for sweep in all_sweeps if sweep.varies)
    together = grouped(
        ((sweep.engine_title, sweep.measured.quantity, sweep.shared), sweep) for sweep in varying
    )
    return list(together.values())


def _line_points(panel: Panel, swept: Swept) -> Iterator[_LinePoint]:
    for arm in panel.arms:
        for quantity, point in _points(arm, swept):
            if swept.offered and not _is_main(panel.workload, arm.usable, quantity):
                continue
            value = _value(arm, swept, quantity)
            if value is not None:
                yield _LinePoint(arm, value, point, spec_facts(arm.usable[0]))


def _points(arm: Arm, swept: Swept) -> Iterator[tuple[Quantity, Point]]:
    for quantity, point in arm.of_metric(swept.metric).items():
        if not swept.percentiles or quantity.label("percentile") in swept.percentiles:
            yield quantity, point
    if swept.mean:
        means = (mean_durations(run, swept.metric) for run in arm.usable)
        yield from laid_together(item for run in means for item in run.items()).items()


def _is_main(workload: str, runs: Sequence[StoredRun], quantity: Quantity) -> bool:
    load = load_of(workload, runs[0].spec.params)
    return load is not None and quantity.label(load.noun) == main_operation(load, runs)


def _value(arm: Arm, swept: Swept, quantity: Quantity) -> float | None:
    """Return the parameter's value, or the share in per cent that it stands for."""
    text = spec_facts(arm.usable[0]).get(swept.parameter)
    if not swept.share:
        number = number_of(text)
        return number[0] if number else None
    share = arm.point(Quantity(swept.share, quantity.labels))
    return int(100 * share.median + 1e-6) if text is not None and share else None


def _by_place(panel: Panel, swept: Swept, line_points: Sequence[_LinePoint]) -> Iterator[Sweep]:
    places = grouped((each.facts.get(swept.place, ""), each) for each in line_points)
    names = [f"params.{name}" for name in workload_info(panel.workload).essential]
    for value in sorted(places):
        at_place = places[value]
        shared = [fact for fact in names if fact not in (swept.parameter, swept.place)]
        shared = [f for f in shared if len({each.facts.get(f) for each in line_points}) == 1]
        words = (in_words(f, at_place[0].facts.get(f)) for f in shared if f in at_place[0].facts)
        yield Sweep(
            panel.engine,
            panel.engine_name,
            at_place[0].point,
            swept.parameter,
            tuple(_lines(at_place, swept.parameter)),
            tuple(filter(None, words)),
            (swept.place.removeprefix("params."), value) if swept.place else ("", ""),
            bool(swept.share),
            swept.offered,
            _x_unit(swept, at_place),
        )


def _x_unit(swept: Swept, line_points: Sequence[_LinePoint]) -> str:
    if swept.parameter == "memory_limit_bytes":
        return "bytes"
    number = number_of(line_points[0].facts.get(swept.parameter))
    return number[1] if number and not swept.share else ""


def _lines(line_points: Sequence[_LinePoint], parameter: str) -> Iterator[Line]:
    """Parts that agree in all but the parameter and what follows from it."""
    names = [parameter, *followers().get(parameter, ())]
    leaders = leading(names, [each.facts for each in line_points])
    free = {name for name in names if name not in leaders[1:]}
    grouped = _grouped(line_points, free)
    sets = [{f: v for f, v in alike[0].facts.items() if f not in free} for alike in grouped]
    said = [name for name in _KNOWN if name != "host_mode" or _mode_follows(grouped)]
    telling = [f for f in by_relevance(differing(sets)) if f.partition(".")[0] not in said]
    for alike, facts in zip(grouped, sets, strict=True):
        first = alike[0].arm
        words = [in_words(f, facts.get(f)) for f in telling if facts.get(f) != first.value]
        yield Line(
            ", ".join([first.name, *filter(None, words)]),
            first.value,
            tuple(dict.fromkeys(text for each in alike for text in each.arm.emulated)),
            any(each.arm.unknown for each in alike),
            {
                f.partition(".")[2]: facts[f]
                for f in telling
                if f.startswith("settings.") and f in facts
            },
            {p.value: p.point.summary for p in sorted(alike, key=lambda each: each.value)},
        )


def _mode_follows(grouped: Sequence[Sequence[_LinePoint]]) -> bool:
    """Return whether each arm was measured in one host mode only, so that its name says which."""
    modes = {(alike[0].arm.value, alike[0].facts.get("host_mode")) for alike in grouped}
    return len(modes) == len({arm for arm, _ in modes})


def _grouped(line_points: Sequence[_LinePoint], free: set[str]) -> list[list[_LinePoint]]:
    by_line: dict[tuple[str, frozenset[tuple[str, str]]], list[_LinePoint]] = {}
    for each in line_points:
        facts = frozenset((f, v) for f, v in each.facts.items() if f not in free)
        by_line.setdefault((each.arm.name, facts), []).append(each)
    return list(by_line.values())
