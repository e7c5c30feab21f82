"""Metrics shown of workloads, stated once: in ``metrics.yml`` of each workload's folder.

Lists of runs, reports, charts, response curves and prices read this table; nothing else names a
workload's metrics, parameters or checks. ``harness/workloads/metrics.yml`` has those that several
workloads share. A folder of ``$HARNESS_WORKLOAD_PATH`` may have such a file, too. A metric that no
file states is named by its form (``reports.metric_registry``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from harness.errors import UsageError, unknown
from harness.paths import extension_folders
from harness.store.spec import MICRO, JsonObject

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


@dataclass(frozen=True)
class MetricInfo:
    """Title of a metric, its role, and the label that its parts are distinguished by (``axis``).

    ``resolution``: the step that it is counted in, in its unit; 0 where that is finer than shown.
    ``short``: its name in the terminal's tables, which list only metrics that have one.
    ``stands_for``: where it stands for the run, unless an earlier headline does; None: everywhere,
    of a headline. ``inverse``: what is done in that time (``queries``), of a duration that stands
    for performance; ``sum_of``: the metric whose values the duration adds up. ``chart``: one of
    ``reports.charts``.
    """

    title: str
    role: Role
    axis: str | None = None
    resolution: float = 0.0
    short: str = ""
    stands_for: Sequence[Purpose] | None = None
    inverse: str = ""
    sum_of: str = ""
    chart: str = ""


@dataclass(frozen=True)
class Swept:
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
    percentiles: tuple[str, ...] = ()
    mean: bool = False
    share: str = ""
    offered: bool = False


@dataclass(frozen=True)
class Load:
    """A load that a client offers to a server, at a rate that may be set.

    ``users``: the parameter with the number of users; ``rate``: that which sets the rate.
    ``offered``, ``done``: the metrics of what was offered and done, in
    ``per_s`` times operations per second. ``durations``: the metric of the operations' times,
    distinguished by the label ``noun``. ``main``: the operation that stands for all of them;
    ``shares``: parameters with the share of each, where the largest does. ``only_with``: the
    parameter without which the workload offers no load.
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
    only_with: str = ""


@dataclass(frozen=True)
class ParameterInfo:
    """Words for a parameter, and the parameters that follow from it unless they are set.

    ``words``: its name in sentences where its own is another program's, or has several meanings.
    """

    words: str = ""
    implies: Sequence[str] = ()


@dataclass(frozen=True)
class WorkloadInfo:
    """Static facts of a workload.

    ``essential``: parameters without which a number of the workload means nothing. ``brief``: more
    of them that a list of runs has room for. ``sweeps``: metrics that are drawn over a parameter.
    ``checks``: names of the checks that a column of the terminal's table of runs counts.
    """

    title: str
    essential: Sequence[str] = ()
    brief: Sequence[str] = ()
    load: Load | None = None
    sweeps: Sequence[Swept] = ()
    checks: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stated:
    """All files together. ``counters``: titles of counters of a query and of the window alike."""

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
    """Merge the files; the first that states a metric or a workload counts.

    A parameter has the first words, and implies what follows from it in any workload.
    """
    metrics: dict[str, MetricInfo] = {}
    workloads: dict[str, WorkloadInfo] = {}
    parameters: dict[str, ParameterInfo] = {}
    counters: dict[str, str] = {}
    for path in metric_files():
        stated = _read(path)
        counters |= stated.pop("counters", {})
        for name, value in stated.pop("metrics", {}).items():
            metrics.setdefault(name, _checked(MetricInfo, value, f"{path}: {name}"))
        for name, value in stated.pop("parameters", {}).items():
            earlier = parameters.get(name, ParameterInfo())
            info = _checked(ParameterInfo, value, f"{path}: {name}")
            implied = dict.fromkeys((*earlier.implies, *info.implies))
            parameters[name] = ParameterInfo(earlier.words or info.words, tuple(implied))
        if stated:
            name = MICRO if path == _MICRO else path.parent.name
            workloads.setdefault(name, _workload_info(stated, path))
    return _Stated(metrics, workloads, parameters, counters)


def _read(path: Path) -> dict[str, Any]:
    from harness.yamlfile import parse_yaml, shipped_yaml  # takes long to import

    if path.is_relative_to(Path(__file__).parent):
        value = shipped_yaml(path)
    else:
        value = parse_yaml(path.read_text(), str(path)).value
    if not isinstance(value, dict):
        raise UsageError(str(path), "not a mapping", "see docs/adding-a-workload.md")
    return dict(value)


def _workload_info(value: Mapping[str, Any], path: Path) -> WorkloadInfo:
    load, sweeps, where = value.get("load"), value.get("sweeps", ()), str(path)
    parts = {
        "load": load and _checked(Load, load, f"{where}: load"),
        "sweeps": tuple(_checked(Swept, each, f"{where}: sweeps") for each in sweeps),
    }
    return _checked(WorkloadInfo, {**value, **parts}, where)


S = TypeVar("S", MetricInfo, ParameterInfo, Swept, Load, WorkloadInfo)


def _checked(kind: type[S], value: Any, where: str) -> S:
    """Return the dataclass of a mapping; UsageError for unknown and missing keys."""
    members = [each.name for each in fields(kind)]
    for key in value if isinstance(value, dict) else [str(value)]:
        if key not in members:
            raise unknown(where, f"{key!r} is no key", key, members)
    arguments: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    try:
        return kind(**arguments)
    except TypeError as error:
        raise UsageError(where, str(error), "see docs/adding-a-workload.md") from error
