"""Calibrations: the noise between identical runs of a workload on this host; canaries.

``<results>/calibrations`` has a file for each, and a store of their runs. These are no part of
any experiment: selectors and reports read the other store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store.documents import Document, DocumentStore
from harness.store.result import Better
from harness.store.run_store import Store
from harness.store.spec import RunSpec
from harness.warnings import RunWarning

#: Attributes of a run's spec that change its noise, in words.
_CONDITIONS = {
    "placement": "placement",
    "driver": "driver",
    "tuning": "tuning",
    "settings": "settings",
    "threads": "threads",
    "memory_limit_bytes": "memory limit",
    "cpus": "processors",
    "label": "set-up of the server",
    "engine_options": "engine options",
    "plant": "planted delays",
    "added_monitors": "monitors",
    "no_monitors": "monitors left out",
}


@dataclass(frozen=True)
class MetricNoise:
    """``log_ratios``: ln(A/B) of each pair of identical runs; of one metric and label set."""

    name: str
    unit: str
    better: Better
    labels: Mapping[str, str]
    log_ratios: tuple[float, ...]


@dataclass(frozen=True)
class Calibration(Document):
    """Pairs of identical runs (``spec``, of the first), and how they differed.

    ``run_ids``: (A, B) of each pair. ``headline``: position in ``metrics``; None: no metric
    stands for the whole. ``run_duration_ns``: the median. ``warnings``: of the runs.
    """

    schema = "calibration"
    calibration_id: str
    unix_ns: int
    host_id: str
    spec: RunSpec
    run_ids: tuple[tuple[str, str], ...]
    run_duration_ns: int
    headline: int | None
    metrics: tuple[MetricNoise, ...]
    warnings: tuple[RunWarning, ...] = ()

    @property
    def deciding(self) -> MetricNoise | None:
        """The noise of the headline."""
        return None if self.headline is None else self.metrics[self.headline]

    def differing(self, spec: RunSpec) -> list[str]:
        """Names of workload parameters and other conditions in which such a run differs."""
        usual, params = self.spec.params, spec.params
        names = [name for name in {**usual, **params} if usual.get(name) != params.get(name)]
        names += [
            name
            for attribute, name in _CONDITIONS.items()
            if getattr(self.spec, attribute) != getattr(spec, attribute)
        ]
        unlike = set(self.spec.stand_ins) != set(spec.stand_ins)
        return names + (["emulated or modelled tiers"] if unlike else [])

    def __post_init__(self) -> None:
        if (self.headline or 0) >= max(1, len(self.metrics)):
            raise ValueError(f"headline {self.headline} is none of its metrics")

    @property
    def document_name(self) -> str:
        return self.calibration_id


def latest_of(
    calibrations: Sequence[Calibration], host_id: str, spec: RunSpec
) -> Calibration | None:
    """The latest of a host, engine and workload; first of those under the run's conditions."""
    candidates = [
        calibration
        for calibration in calibrations
        if (calibration.host_id, calibration.spec.engine, calibration.spec.workload)
        == (host_id, spec.engine, spec.workload)
    ]
    same = [calibration for calibration in candidates if not calibration.differing(spec)]
    return max(same or candidates, key=lambda calibration: calibration.unix_ns, default=None)


class CalibrationStore(DocumentStore[Calibration]):
    """The calibrations of a results directory; ``runs``: those that they were made of."""

    kind, place = Calibration, "calibrations"
    unreadable = RunWarning("calibration-unreadable", "a calibration is left out", "")

    def __init__(self, results: Path) -> None:
        super().__init__(results)
        self.runs = Store(self.folder)


@dataclass(frozen=True)
class CanaryBandwidth:
    """The bandwidth of one configuration of a tier; ``before``, ``after``: samples, bytes/s."""

    tier: str
    configuration: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Key that is the same in all canaries of a host."""
        return self.tier, self.configuration


@dataclass(frozen=True)
class Canary(Document):
    """The canary of one execution of an experiment; ``experiment``: hash of its plan."""

    schema = "canary"
    experiment: str
    host_id: str
    began_unix_ns: int
    ended_unix_ns: int
    figures: tuple[CanaryBandwidth, ...]

    @property
    def document_name(self) -> str:
        return str(self.began_unix_ns)


class CanaryStore(DocumentStore[Canary]):
    """The canaries of a results directory."""

    kind, place = Canary, "canaries"
    unreadable = RunWarning("canary-unreadable", "a canary is left out", "")
