"""The results of a run: metrics and checks, as in run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Better = Literal["higher", "lower", "none"]
RunStatus = Literal["complete", "failed", "unknown"]
CheckStatus = Literal["passed", "failed", "unknown"]


@dataclass(frozen=True)
class Metric:
    """One measured quantity; exactly one of ``value``, ``samples`` and ``hdr`` is set.

    ``name`` ends in its unit (``query_duration_ns``); ``labels`` distinguish
    series of the same name (``{"query": "6"}``). ``hdr``: HdrHistogram V2 compressed,
    base64.
    """

    name: str
    unit: str
    better: Better
    labels: Mapping[str, str] = field(default_factory=dict)
    value: float | int | None = None
    samples: tuple[float | int, ...] | None = None
    hdr: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in run.json: only the form that is set."""
        base: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "labels": dict(self.labels),
        }
        if self.value is not None:
            return base | {"value": self.value}
        if self.samples is not None:
            return base | {"samples": list(self.samples)}
        return base | {"hdr": self.hdr}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Metric:
        """The inverse of :meth:`to_json`."""
        samples = tuple(document["samples"]) if "samples" in document else None
        return cls(**{**document, "samples": samples})


@dataclass(frozen=True)
class Check:
    """One answer to "is it right?"; a check that itself breaks is *unknown*, never passed."""

    name: str
    status: CheckStatus
    detail: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def run_status(checks: list[Check]) -> RunStatus:
    """complete when every check passed, failed when one failed, else unknown."""
    states = {check.status for check in checks}
    if "failed" in states:
        return "failed"
    return "unknown" if "unknown" in states or not states else "complete"
