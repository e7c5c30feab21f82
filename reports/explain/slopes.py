"""What delays that were planted in an engine's I/O did to its latency, as ``harness whatif`` stored
it: ns of latency per ns of delay, which is the number of such calls on the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.store.runs import StoredRun
from reports.metric_registry import essential_parameters

#: Parameters in which a what-if and the run that it is of agree, in addition to the essential ones.
_ALIKE = ("scale", "cache", "rate_per_s", "target", "think_time")


@dataclass(frozen=True)
class Slope:
    """Of delays in one operation on one part; ``query``: empty unless it is of one.

    ``linear``: whether latency was a straight line over the delay.
    """

    part: str
    operation: str
    query: str
    value: float
    low: float
    high: float
    linear: bool
    run_id: str


def is_what_if(run: StoredRun) -> bool:
    """Whether it may hold slopes: delays were planted in it."""
    return bool(run.head["spec"].get("plant"))


def slopes(what_ifs: Sequence[StoredRun], runs: Sequence[StoredRun]) -> list[Slope]:
    """Of the what-ifs with the engine, workload and placement of ``runs``; of several of the same
    operation, the newest."""
    wanted = context(runs[0])
    found: dict[tuple[str, str, str], Slope] = {}
    for run in sorted(what_ifs, key=lambda one: int(one.head["started_unix_ns"])):
        if not run.head["failed"] and context(run) == wanted:
            found |= {(one.part, one.operation, one.query): one for one in _slopes(run)}
    return list(found.values())


def setting(run: StoredRun) -> dict[str, Any]:
    """The parameters in which a what-if and the run that it is of agree."""
    spec = run.head["spec"]
    names = (*essential_parameters(spec["workload"]), *_ALIKE)
    return {name: spec["params"][name] for name in names if spec["params"].get(name)}


def context(run: StoredRun) -> tuple[Any, ...]:
    """What a run and its evidence agree in."""
    spec = run.head["spec"]
    placement = spec["placement"] or {}
    limit = spec["memory_limit_bytes"]
    return spec["workload"], spec["engine"], placement.get("name"), limit, setting(run)


def _slopes(run: StoredRun) -> list[Slope]:
    values: dict[tuple[str, str, str], dict[str, float]] = {}
    for metric in run.run["metrics"]:
        name, labels = metric["name"], metric["labels"]
        if name.startswith("whatif_") and {"part", "operation"} <= labels.keys():
            key = (labels["part"], labels["operation"], labels.get("query", ""))
            values.setdefault(key, {})[name.removeprefix("whatif_")] = metric["value"]
    return [_slope(key, known, run) for key, known in values.items() if "slope" in known]


def _slope(key: tuple[str, str, str], known: Mapping[str, float], run: StoredRun) -> Slope:
    value = known["slope"]
    low, high = known.get("slope_low", value), known.get("slope_high", value)
    return Slope(*key, value, low, high, bool(known.get("linear", 0)), run.run_id)
