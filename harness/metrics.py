"""Metrics shown of workloads, stated once: in ``metrics.yml`` of each workload's folder.

Lists of runs, reports, charts, response curves and prices read this table; nothing else names a
workload's metrics, parameters or checks. ``harness/workloads/metrics.yml`` has those that several
workloads share. A folder of ``$HARNESS_WORKLOAD_PATH`` may have such a file, too. A metric that no
file states has a title and role by its form (``reports.metric_registry``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import field

from harness.errors import UsageError
from harness.paths import extension_folders
from harness.store.spec import MICRO, JsonObject
from harness.structs import Misfit, Struct, convert

FILE = "metrics.yml"
_VARIABLE = "HARNESS_WORKLOAD_PATH"
_WORKLOADS = Path(__file__).with_name("workloads")
_MICRO = Path(__file__).with_name("micro") / FILE

#: headline: the verdict is read from it; detail: one of its parts (a query), drawn; part:
#: the same, in a table alone; counter: why; breakdown: parts of a second execution, or of
#: queries next to one another; mark: shown as a mark on another metric, never as a value.
Role = Literal["headline", "detail", "part", "counter", "breakdown", "mark"]
#: Where one metric stands for a run: in a list, on a response curve, for its price.
Purpose = Literal["result", "curve", "price"]
_EVERYWHERE: tuple[Purpose, ...] = ("result", "curve", "price")
#: What draws a metric: functions of ``reports.charts``.
Chart = Literal[
    "rates",
    "times",
    "operation-waits",
    "query-waits",
    "operators",
    "tiers",
    "working-set",
    "bandwidth",
    "together",
]
_Names: TypeAlias = tuple[str, ...]


class _MetricsStruct(Struct, frozen=True):
    """Base of the parts of a file."""

    documented = "docs/adding-a-workload.md"


class MetricInfo(_MetricsStruct, frozen=True):
    """Title of a metric, its role, and the label that its parts are distinguished by (``axis``).

    ``resolution``: the step that it is counted in, in its unit; 0 where that is finer than shown.
    ``short``: its name in the terminal's tables, which list only metrics that have one.
    ``stands_for``: where it stands for the run, unless an earlier headline does; None: everywhere,
    of a headline. ``inverse``: what is done in that time (``queries``), of a duration that stands
    for performance; ``sum_of``: the metric whose values the duration adds up.
    """

    title: str
    role: Role
    axis: str | None = None
    resolution: float = 0.0
    short: str = ""
    stands_for: tuple[Purpose, ...] | None = None
    inverse: str = ""
    sum_of: str = ""
    chart: Chart | None = None


class Swept(_MetricsStruct, frozen=True):
    """A metric and the parameter that it is shown over, as a fact of the spec.

    ``place``: another parameter, whose values have a place of their own each, side by side;
    ``percentiles``: which of a histogram's; ``mean``: its mean, too. ``share``: a metric with the
    same labels that says which share of the whole the parameter stands for; values are then per
    cent, cut as the papers print them. ``offered``: the parameter is the rate of a load, and the
    metric is shown of its main operation only.
    """

    metric: str
    parameter: str
    place: str = ""
    percentiles: _Names = ()
    mean: bool = False
    share: str = ""
    offered: bool = False


class Load(_MetricsStruct, frozen=True):
    """A load that a client offers to a server, at a rate that may be set.

    ``users``: the parameter with the number of users; ``rate``: that which sets the rate.
    ``offered``, ``done``: the metrics of what was offered and done, in
    ``per_s`` times operations per second. ``durations``: the metric of the operations' times,
    distinguished by the label ``noun``. ``main``: the operation that stands for all of them;
    ``shares``: parameters with the share of each, where the largest does. ``writes``: operations
    that write, and commit once each; empty if that depends on the run. ``only_with``: the parameter
    without which the workload offers no load. ``random``: whether operations of clients that do not
    report outstanding ones are due at random times, so that their number varies by chance.
    """

    noun: Literal["operation", "transaction"]
    users: str
    rate: str
    offered: str
    done: str
    per_s: float
    durations: str
    main: str = ""
    shares: Mapping[str, str] = field(default_factory=dict)
    writes: _Names = ()
    only_with: str = ""
    random: bool = False


class ParameterInfo(_MetricsStruct, frozen=True):
    """Words for a parameter, and the parameters that follow from it unless they are set.

    ``words``: its name in sentences where its own is another program's, or has several meanings.
    """

    words: str = ""
    implies: _Names = ()


class WorkloadInfo(_MetricsStruct, frozen=True):
    """Static facts of a workload.

    ``essential``: parameters without which a number of the workload means nothing. ``brief``: more
    of them that a list of runs has room for. ``sweeps``: metrics that are drawn over a parameter.
    ``checks``: names of the checks that a column of the terminal's table of runs counts.
    ``answer``: a sentence with ``{metric}``, ``{share %}`` and ``{parameter noun}`` in it.
    """

    title: str
    essential: _Names = ()
    brief: _Names = ()
    load: Load | None = None
    sweeps: tuple[Swept, ...] = ()
    checks: Mapping[str, _Names] = field(default_factory=dict)
    answer: str = ""


class _MetricsFile(WorkloadInfo, frozen=True):
    """One file. A shared one is about no workload, and has no title.

    ``counters``: titles of counters of a query and of the window alike.
    """

    title: str = ""
    metrics: Mapping[str, MetricInfo] = field(default_factory=dict)
    parameters: Mapping[str, ParameterInfo] = field(default_factory=dict)
    counters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of_workload = (self.essential, self.brief, self.load, self.sweeps, self.checks, self.answer)
        if not self.title and any(of_workload):
            raise Misfit("the workload has no title", "name it: title: WORKLOAD")


@dataclass(frozen=True)
class _Stated:
    """All files together."""

    metrics: Mapping[str, MetricInfo]
    workloads: Mapping[str, WorkloadInfo]
    parameters: Mapping[str, ParameterInfo]
    counters: Mapping[str, str]


def metric_files() -> list[Path]:
    """List the files that state metrics: those of workloads by name, then the shared ones."""
    folders = [_WORKLOADS, *extension_folders(_VARIABLE)]
    files = [file for folder in folders for file in sorted(folder.glob(f"*/{FILE}"))]
    return [*files, _MICRO, _WORKLOADS / FILE]


def metrics() -> Mapping[str, MetricInfo]:
    """Return the stated metrics by name. Headlines are read in this order."""
    return _stated(os.environ.get(_VARIABLE)).metrics


def counter_titles() -> Mapping[str, str]:
    """Return titles of counters, by name without the prefix of a query or window."""
    return _stated(os.environ.get(_VARIABLE)).counters


def parameters() -> Mapping[str, ParameterInfo]:
    """Return what is stated of parameters by name, of all workloads together."""
    return _stated(os.environ.get(_VARIABLE)).parameters


def workload_info(workload: str) -> WorkloadInfo:
    """Return what is stated of a workload; its name alone where nothing is."""
    return _stated(os.environ.get(_VARIABLE)).workloads.get(workload) or WorkloadInfo(workload)


def standing_for(purpose: Purpose) -> dict[str, MetricInfo]:
    """Return the metrics that stand for a run where one has to; the first that a run has does."""
    return {
        name: info
        for name, info in metrics().items()
        if info.role == "headline"
        and purpose in (_EVERYWHERE if info.stands_for is None else info.stands_for)
    }


def result_of(values: Mapping[str, float]) -> tuple[str, float] | None:
    """Choose the value that stands for a run in a list, of its values without labels."""
    return next(((n, values[n]) for n in standing_for("result") if n in values), None)


def load_of(workload: str, params: JsonObject) -> Load | None:
    """Return the load that a workload with these parameters offers; None where it offers none."""
    load = workload_info(workload).load
    return load if load and (not load.only_with or params.get(load.only_with)) else None


def brief_parameters(workload: str) -> tuple[str, ...]:
    """Name the parameters that distinguish runs of a workload in a list."""
    info = workload_info(workload)
    return (*info.essential, *info.brief)


@lru_cache(maxsize=8)
def _stated(_folders: str | None) -> _Stated:
    """Merge the files; UsageError where two state a metric, or words of a parameter, differently.

    A parameter implies what follows from it in any workload.
    """
    metrics: dict[str, MetricInfo] = {}
    workloads: dict[str, WorkloadInfo] = {}
    parameters: dict[str, ParameterInfo] = {}
    counters: dict[str, str] = {}
    files: dict[str, Path] = {}
    for path in metric_files():
        stated = _read(path)
        counters |= stated.counters
        for name, metric in stated.metrics.items():
            if metrics.setdefault(name, metric) != metric:
                raise _stated_twice(f"metric {name}", files[name], path)
            files.setdefault(name, path)
        for name, info in stated.parameters.items():
            earlier = parameters.get(name, ParameterInfo())
            if earlier.words and info.words and earlier.words != info.words:
                raise _stated_twice(f"words of parameter {name}", files[f"words {name}"], path)
            if info.words:
                files.setdefault(f"words {name}", path)
            implied = dict.fromkeys((*earlier.implies, *info.implies))
            parameters[name] = ParameterInfo(earlier.words or info.words, tuple(implied))
        if stated.title:
            name = MICRO if path == _MICRO else path.parent.name
            workloads.setdefault(name, stated)
    return _Stated(metrics, workloads, parameters, counters)


def _stated_twice(what: str, first: Path, second: Path) -> UsageError:
    return UsageError(f"{second}: {what}", f"{first} states it differently", "choose another name")


def _read(path: Path) -> _MetricsFile:
    """Read a file; UsageError with the line and the nearest name for what does not fit."""
    from harness.yamlfile import load_yaml, shipped_yaml  # takes long to import

    if path.is_relative_to(Path(__file__).parent):
        return convert(shipped_yaml(path), _MetricsFile, lambda where: load_yaml(path).at(where))
    return load_yaml(path).to(_MetricsFile)
