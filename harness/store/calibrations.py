"""Calibrations: the noise between identical runs of a workload on this host; canaries.

``<results>/calibrations`` has a file for each, and a store of their runs. These are no part of
any experiment: selectors and reports read the other store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from harness.store.documents import Document, DocumentStore
from harness.store.run_store import Store
from harness.store.spec import RunSpec
from harness.structs import Misfit, Struct, whole
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
    "env": "environment of the engine",
    "plant": "planted delays",
    "added_monitors": "monitors",
    "no_monitors": "monitors left out",
}


_Natural = Annotated[int, Meta(ge=0)]


class MetricNoise(Struct, frozen=True):
    """Noise of one metric and label set."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    labels: Mapping[str, str]
    log_ratios: Annotated[
        tuple[float, ...],
        Meta(min_length=1, description="ln(A/B) of each pair of identical runs that has it"),
    ]


class Calibration(Document, frozen=True, tag_field="schema", tag=1):
    """Pairs of identical runs of one workload on one host, and how they differed: the noise."""

    calibration_id: Annotated[str, whole("[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9._=,-]+")]
    unix_ns: Annotated[int, Meta(ge=0, description="when it ended")]
    host_id: str
    spec: Annotated[RunSpec, Meta(description="of its first run")]
    run_ids: Annotated[
        tuple[tuple[str, str], ...],
        Meta(min_length=1, description="pairs of runs, next to one another: [A, B]"),
    ]
    run_duration_ns: Annotated[int, Meta(ge=0, description="median, with the restore of the data")]
    headline: Annotated[
        _Natural | None,
        Meta(description="position of the deciding metric; null: none stands for the whole"),
    ]
    metrics: tuple[MetricNoise, ...]
    warnings: Annotated[tuple[RunWarning, ...], Meta(description="of its runs, each once")]

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
            raise Misfit(f"{self.headline} is none of its metrics", "", "headline")

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


_Samples = Annotated[
    tuple[Annotated[float, Meta(gt=0)], ...], Meta(min_length=1, description="bytes per second")
]


class CanaryBandwidth(Struct, frozen=True):
    """The bandwidth of one configuration of a tier."""

    tier: str
    configuration: str
    before: _Samples
    after: _Samples

    @property
    def key(self) -> tuple[str, str]:
        """Key that is the same in all canaries of a host."""
        return self.tier, self.configuration


class Canary(Document, frozen=True, tag_field="schema", tag=1):
    """The same microbenchmarks of a host's tiers before and after an experiment."""

    experiment: Annotated[str, Meta(description="hash of its plan")]
    host_id: str
    began_unix_ns: Annotated[int, Meta(ge=0, description="when the first measurements ended")]
    ended_unix_ns: Annotated[int, Meta(ge=0, description="when the last measurements began")]
    figures: tuple[CanaryBandwidth, ...]

    @property
    def document_name(self) -> str:
        return str(self.began_unix_ns)


class CanaryStore(DocumentStore[Canary]):
    """The canaries of a results directory."""

    kind, place = Canary, "canaries"
    unreadable = RunWarning("canary-unreadable", "a canary is left out", "")
