"""Finished runs of microbenchmarks as points: one configuration and job, its labels, its samples.

A *device* is a tier of a host: all runs on it are laid together, so that a card needs not
come from one run. Samples of the same point in several runs of a device follow one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from harness.errors import UsageError
from harness.sequences import grouped
from harness.store.result import Label, Metric, label_text
from harness.store.runs import StoredRun
from harness.store.spec import content_hash
from harness.tiers.linux.model import TierRecord
from reports.formatting import stand_in_mark
from reports.run_configuration import emulated_tiers, facts
from reports.values import Point, laid_together, natural, stored_points

WORKLOAD = "micro"
RATE = "bandwidth_bytes_per_second"
OPERATIONS = "operations_per_second"
DURATION = "operation_duration_ns"
LATENCY = "latency_ns"
MEAN = "operation_mean_duration_ns"
EMPTY = "empty_body_ns"
WRITE_RATIO = "effective_write_ratio"
#: The label ``numa`` of accesses from near processors.
NEAR_NODES = ("", "near")
_MAIN_MEMORY = "main memory"
#: What of a host can be switched and makes another device of each of its tiers: clocks and threads
#: of the processors, pages, and PVLDB 15(11), Sections 4.5.1 and 4.5.2. `unreadable` is a state of
#: its own; so is each release of Linux, whose calls are timed.
_KERNEL = "Linux"
_HOST_STATE = {
    "governor": "governor",
    "turbo": "turbo",
    "smt": "SMT",
    "thp": "huge pages",
    "prefetchers": "prefetchers",
    "memory_speed": "memory bus",
    "uncore_frequency": "uncore",
    "dimm_power_budget": "power budget",
}
_STATE = "host."
#: Labels of devices by the state of their host.
STATES = tuple(words.replace(" ", "_") for words in (*_HOST_STATE.values(), _KERNEL))
#: Labels that name a configuration, not what was done in it.
NAMES = ("measurement", "configuration", "job")


@dataclass(frozen=True)
class Device:
    """A tier of a host with everything measured on it.

    ``name``: the tier's, with the host's where several hosts are shown. ``tier``: as in the
    manifest, None where no run has one. ``emulated``: by what it is stood in for. ``state``: of
    the host by name (``prefetchers``, ``memory bus``): another one makes another device.
    ``source``: what it was read from, where it is no run's; it has no ``runs`` then.
    """

    host: str
    tier_name: str
    tier: TierRecord | None
    runs: tuple[StoredRun, ...]
    points: tuple[Point, ...]
    emulated: tuple[str, ...]
    several_hosts: bool = False
    state: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @cached_property
    def llc_bytes(self) -> int:
        """The last-level cache of the host, as its runs report; 0 where none does."""
        artifacts = (run.artifact("microbench") or {} for run in self.runs)
        return max((int(_cpu(artifact).get("llc_bytes") or 0) for artifact in artifacts), default=0)

    @property
    def name(self) -> str:
        """``pmem``, or ``lab1: pmem``."""
        return f"{self.host}: {self.tier_name}" if self.several_hosts else self.tier_name

    @property
    def marked_name(self) -> str:
        """With the mark of a stand-in after it, and where the page cache was measured."""
        marks = [self.source] if self.source else []
        marks += [stand_in_mark(self.emulated)] if self.emulated else []
        warned = {warning.code for run in self.runs for warning in run.result.uncontrolled}
        marks += ["page cache"] if "page-cache" in warned else []
        return f"{self.name} ({', '.join(marks)})" if marks else self.name

    def select(self, metric: str, **labels: str | Sequence[str]) -> list[Point]:
        """Points of a metric with these labels; a label that is absent counts as empty.

        A sequence: one of its values.
        """
        return [p for p in self.points if p.metric == metric and matches(p, labels)]


def _cpu(artifact: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the processor as the program's result describes it."""
    return (artifact.get("result") or {}).get("cpu") or {}


def matches(point: Point, labels: Mapping[str, str | Sequence[str]]) -> bool:
    """Return whether a point has these labels."""
    return all(
        point[name] == value if isinstance(value, str) else point[name] in value
        for name, value in labels.items()
    )


def best(points: Sequence[Point]) -> Point:
    """The one with the best median."""
    better = max if points[0].better == "higher" else min
    return better(points, key=lambda point: point.median)


def is_micro(run: StoredRun) -> bool:
    """Return whether a run is one of microbenchmarks."""
    return bool(run.spec.workload == WORKLOAD)


def device_of_metrics(
    host: str, tier: str, emulated: str, source: str, metrics: Iterable[tuple[str, Metric]]
) -> Device:
    """Return the device of another program's file. ``metrics``: each with its place in it."""
    points = [
        Point(
            metric.name,
            metric.unit,
            metric.better,
            metric.labels,
            (float(metric.value or 0),),
            runs=(where,),
        )
        for where, metric in metrics
    ]
    marks = (emulated,) if emulated else ()
    return Device(host, tier, None, (), tuple(points), marks, several_hosts=True, source=source)


def devices(runs: Iterable[StoredRun]) -> list[Device]:
    """Return the devices measured by these runs, in natural order; UsageError without any.

    Failed runs are left out: what they hold is not all of what was requested.
    """
    usable = (run for run in runs if is_micro(run) and run.result.status != "failed")
    by_key = grouped((_key(run), run) for run in usable)
    if not by_key:
        raise UsageError(
            "what a device likes",
            "no finished run of microbenchmarks is selected",
            "`harness run micro --suite device-card --tier TIER` makes one",
        )
    ordered = sorted(by_key, key=lambda key: (natural(key.hostname), natural(key.tier)))
    return [_device(key, by_key[key], ordered) for key in ordered]


@dataclass(frozen=True)
class _DeviceKey:
    """Identity of a device: the same tier of the same host, as the kernel describes it."""

    hostname: str
    host_id: str
    tier: str
    facts: frozenset[tuple[str, str]]


def _key(run: StoredRun) -> _DeviceKey:
    placement = run.spec.placement
    tier = str(placement.data if placement else run.spec.label or "unknown")
    if not run.manifest:
        return _DeviceKey("unknown", "", tier, frozenset())
    host = run.manifest.host
    mine = {item for item in facts(run).items() if item[0].startswith(f"tier.{tier}.")}
    mine.add((f"tier.{tier}.{_MAIN_MEMORY}", main_memory(run)))
    mine |= {
        (f"{_STATE}{words}", _state_text(getattr(host, name)))
        for name, words in _HOST_STATE.items()
    }
    mine.add((f"{_STATE}{_KERNEL}", _state_text(host.kernel.release)))
    return _DeviceKey(host.hostname, host.host_id, tier, frozenset(mine))


def _state_text(value: str | bool | None) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value or "unknown"


def main_memory(run: StoredRun) -> str:
    """Name the host's main memory: in Memory mode it is another device, of the same tier name."""
    mode = str(run.result.host_mode)
    return "DRAM" if mode in ("Default", "AppDirect") else mode


def _device(key: _DeviceKey, runs: Sequence[StoredRun], every: Sequence[_DeviceKey]) -> Device:
    tiers = (tier for run in reversed(runs) for tier in run.tiers if tier.name == key.tier)
    emulated = {stand_in.by: None for run in runs for stand_in in emulated_tiers(run)}
    return Device(
        _host_name(key, every),
        _name_apart(key, every),
        next(tiers, None),
        tuple(runs),
        tuple(points_of(runs)),
        tuple(emulated),
        len({other.host_id for other in every}) > 1,
        {fact.removeprefix(_STATE): value for fact, value in key.facts if fact.startswith(_STATE)},
    )


def _host_name(key: _DeviceKey, every: Sequence[_DeviceKey]) -> str:
    """Two hosts of one name have a piece of their ids after it."""
    namesakes = {other.host_id for other in every if other.hostname == key.hostname}
    return key.hostname if len(namesakes) == 1 else f"{key.hostname} ({key.host_id[:6]})"


def _name_apart(key: _DeviceKey, every: Sequence[_DeviceKey]) -> str:
    """Two devices that were one tier by turns have their difference after its name."""
    same = [other for other in every if (other.host_id, other.tier) == (key.host_id, key.tier)]
    if len(same) == 1:
        return key.tier
    shared = frozenset.intersection(*(other.facts for other in same))
    differences = sorted(
        f"{n.rpartition('.')[2]} {v}" for n, v in key.facts - shared if v != "null"
    )
    return f"{key.tier} ({', '.join(differences)})"


def points_of(runs: Iterable[StoredRun]) -> Iterator[Point]:
    """Yield the points of these runs of one device.

    Repeats of several runs are laid together where all labels, but for the configuration's name,
    and the hash of the settings that no label states are equal. Configurations of one run that
    nothing else distinguishes stay apart.
    """
    points = laid_together(item for run in runs for item in _keyed(run))
    for key, point in points.items():
        empty = points.get(key._replace(metric=EMPTY)) if point.encoded else None
        empty_ns = (empty.value if empty else None) or 0.0
        if point.samples or point.encoded:
            yield replace(point, settings=key.settings, empty_ns=empty_ns)


class _PointKey(NamedTuple):
    """Identity of a point of a device. ``number``: of those that nothing else distinguishes."""

    metric: str
    settings: str
    labels: frozenset[tuple[str, Label]]
    number: int


def _keyed(run: StoredRun) -> Iterator[tuple[_PointKey, Point]]:
    whole = content_hash(dict(run.spec.params))
    alike: Counter[tuple[object, ...]] = Counter()
    for point in stored_points(run):
        labels = dict(point.labels)
        name = label_text(labels.pop("configuration", ""))
        settings = run.result.configurations.get(name, "") if name else whole
        work = (point.metric, settings, frozenset(labels.items()))
        yield _PointKey(*work, alike[work]), point
        alike[work] += 1
