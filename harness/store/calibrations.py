"""Calibrations: the noise between identical runs of a workload on this host.

``<results>/calibrations`` has a file for each, and a store of their runs. These are no part of
any experiment: selectors and reports read the other store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store import schemas
from harness.store.documents import write_json_atomically
from harness.store.result import Better
from harness.store.runs import Store
from harness.store.spec import RunSpec
from harness.supervise.user_files import make_own
from harness.warnings import RunWarning, warn

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
_SCHEMA: int = schemas.schema("calibration")["properties"]["schema"]["const"]


@dataclass(frozen=True)
class MetricNoise:
    """``log_ratios``: ln(A/B) of each pair of identical runs; of one metric and label set."""

    name: str
    unit: str
    better: Better
    labels: Mapping[str, str]
    log_ratios: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """Pairs of identical runs (``spec``, of the first), and how they differed.

    ``run_ids``: (A, B) of each pair. ``headline``: position in ``metrics``; None: no metric
    stands for the whole. ``run_duration_ns``: the median. ``warnings``: of the runs.
    """

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
        own, params = self.spec.params, spec.params
        found = [name for name in {**own, **params} if own.get(name) != params.get(name)]
        found += [
            name
            for attribute, name in _CONDITIONS.items()
            if getattr(self.spec, attribute) != getattr(spec, attribute)
        ]
        unlike = set(self.spec.stand_ins) != set(spec.stand_ins)
        return found + (["emulated or modelled tiers"] if unlike else [])

    def to_json(self) -> dict[str, Any]:
        """As stored (schema calibration)."""
        return {
            **{name: value for name, value in vars(self).items() if name not in _DOCUMENTS},
            "schema": _SCHEMA,
            "spec": self.spec.to_json(),
            "run_ids": [list(pair) for pair in self.run_ids],
            "metrics": [asdict(one) | {"log_ratios": [*one.log_ratios]} for one in self.metrics],
            "warnings": [warning.to_json() for warning in self.warnings],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Calibration:
        """The inverse of :meth:`to_json`; ValueError or UsageError for a wrong document."""
        if (document["headline"] or 0) >= max(1, len(document["metrics"])):
            raise ValueError(f"headline {document['headline']} is none of its metrics")
        fields = {name: value for name, value in document.items() if name != "schema"}
        fields |= {
            "spec": RunSpec.from_json(document["spec"]),
            "run_ids": tuple((a, b) for a, b in document["run_ids"]),
            "metrics": tuple(
                MetricNoise(**{**one, "log_ratios": tuple(one["log_ratios"])})
                for one in document["metrics"]
            ),
            "warnings": tuple(map(RunWarning.from_json, document["warnings"])),
        }
        return cls(**fields)


def latest_of(
    calibrations: Sequence[Calibration], host_id: str, spec: RunSpec
) -> Calibration | None:
    """The latest of a host, engine and workload; first of those under the run's conditions."""
    found = [
        one
        for one in calibrations
        if (one.host_id, one.spec.engine, one.spec.workload)
        == (host_id, spec.engine, spec.workload)
    ]
    same = [one for one in found if not one.differing(spec)]
    return max(same or found, key=lambda one: one.unix_ns, default=None)


_DOCUMENTS = ("spec", "run_ids", "metrics", "warnings")


class CalibrationStore:
    """The calibrations of a results directory."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "calibrations"
        #: The runs that they were made of.
        self.runs = Store(self.folder)

    def write(self, calibration: Calibration) -> None:
        """Store it under its id."""
        document = calibration.to_json()
        schemas.validate(document, "calibration", source=calibration.calibration_id)
        make_own(self.folder)
        write_json_atomically(self.folder / f"{calibration.calibration_id}.json", document)

    def all(self) -> list[Calibration]:
        """All that can be read; warns of each other one."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                found.append(Calibration.from_json(schemas.read(path, "calibration")))
            except (OSError, ValueError, UsageError) as error:
                context = f"{path}: {error}"
                warn(RunWarning("calibration-unreadable", "a calibration is left out", context))
        return found
