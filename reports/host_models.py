"""Device models of several hosts side by side, and how far models were off on each host."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.errors import RunFailed
from harness.models.device import DeviceModel, SizePoint
from harness.models.make import SUITE, model_of
from harness.models.score import DEVICE_TIME, Score, ScoredMetric
from harness.store.documents import as_json, attributes
from harness.store.runs import StoredRun
from harness.units import format_bytes, format_ns
from reports.formatting import NOTHING
from reports.sections import Block, Drawing, Section, Table, note
from reports.statistics import Value

#: Calls of a model that are shown, and of which size if it has it.
_CALLS = (("read", 4096), ("write", 4096), ("sync", 8192))


@dataclass(frozen=True)
class HostModel:
    """A model that a run of the suite ``device-model`` measured on a host's tier."""

    host: str
    tier: str
    run_id: str
    model: DeviceModel

    def to_json(self) -> dict[str, Any]:
        calls = {
            operation: attributes(point, "size_bytes")
            | {"mean_ns": point.durations.mean, "p99_ns": point.durations.quantile(99)}
            for operation, point in shown_calls(self.model)
        }
        return {**attributes(self, "host", "tier", "run_id"), "calls": calls}


@dataclass(frozen=True)
class ErrorOnHost:
    """What a model gave on a host, as a multiple of what the tier gave.

    ``of_device``: of the time of the engine's calls; else of throughput.
    """

    host: str
    engine: str
    case: str
    of_device: bool
    ratio: Value


@dataclass(frozen=True)
class HostModels:
    """Models and scores of a store, with the hosts' names by their ids."""

    models: tuple[HostModel, ...] = ()
    scores: tuple[Score, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[StoredRun], scores: Sequence[Score]) -> HostModels:
        """Return the latest model of each host's tier, and all scores."""
        names = {run.host_id: run.head.host.hostname for run in runs if run.head.host}
        models: dict[tuple[str, str], HostModel] = {}
        for run in sorted(runs, key=lambda run: run.head.started_unix_ns):
            if run.head.failed or run.spec.params.get("suite") != SUITE or not run.host_id:
                continue
            tier = run.spec.placement.data if run.spec.placement else ""
            with suppress(RunFailed):  # a part of the suite makes no model
                made = model_of(run, str(tier))
                host = names[run.host_id]
                models[run.host_id, str(tier)] = HostModel(host, str(tier), run.run_id, made)
        return cls(tuple(models.values()), tuple(scores), names)

    def errors(self, hosts: Collection[str]) -> list[ErrorOnHost]:
        """Return how far models were off on these hosts, by throughput and time of calls."""
        return [
            ErrorOnHost(
                self.names[score.host_id],
                score.engine,
                score.case,
                metric.name == DEVICE_TIME,
                Value(metric.ratio, metric.low, metric.high),
            )
            for score in self.scores
            if self.names.get(score.host_id) in hosts
            for metric in _shown_metrics(score)
        ]

    def to_json(self, hosts: Collection[str]) -> dict[str, Any]:
        """Return the models of these hosts and their errors as JSON."""
        models = [model for model in self.models if model.host in hosts]
        return {"models": as_json(models), "model_errors": as_json(self.errors(hosts))}

    def section(self, hosts: Sequence[str], drawing: Drawing | None) -> Iterator[Section]:
        """Yield the section of these hosts, if anything is known of their models.

        ``drawing``: of their errors.
        """
        blocks: list[Block] = [drawing] if drawing else []
        if models := [model for model in self.models if model.host in hosts]:
            head = ("", *(f"{model.host}: {model.tier}" for model in models))
            calls = [dict(shown_calls(model.model)) for model in models]
            rows = [
                (name, *(_call_text(of_model.get(name)) for of_model in calls))
                for name, _ in _CALLS
            ]
            rows += [
                (f"bandwidth, {way}", *(_rate_text(m.model.bandwidth.get(way)) for m in models))
                for way in ("read", "write")
            ]
            blocks.append(Table("Device models, measured", head, rows))
        if blocks:
            without = [host for host in hosts if host not in {model.host for model in models}]
            if without:
                hint = "`harness model make` on it, then import its results"
                blocks.append(note(f"No model of a device of {', '.join(without)}: {hint}."))
            yield Section("Models of the hosts' devices", blocks, "host-models")


def _shown_metrics(score: Score) -> Iterator[ScoredMetric]:
    """Yield throughput, which is the first metric, and the time of calls."""
    yield from score.metrics[:1]
    yield from (metric for metric in score.metrics[1:] if metric.name == DEVICE_TIME)


def shown_calls(model: DeviceModel) -> Iterator[tuple[str, SizePoint]]:
    """Yield the durations of each operation: of the usual size, or of the nearest one."""
    for operation, size in _CALLS:
        if points := model.points.get(operation):
            yield operation, min(points, key=lambda point: abs(point.size_bytes - size))


def _call_text(point: SizePoint | None) -> str:
    if point is None:
        return NOTHING
    mean, p99 = round(point.durations.mean), point.durations.quantile(99)
    return f"{format_ns(mean)}, p99 {format_ns(p99)} ({format_bytes(point.size_bytes)})"


def _rate_text(per_second: int | None) -> str:
    return NOTHING if per_second is None else f"{format_bytes(per_second)}/s"


NO_HOST_MODELS = HostModels()
