"""A cell of the table: a value with its interval, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from reports.json_form import attributes
from reports.statistics import ALPHA, Estimate

#: Why a cell of the table has no value.
Reason = Literal[
    "no waits",
    "no ceiling",
    "a rate was set",
    "memory moved",
    "no part moved",
    "no trace",
    "no figures",
    "no modelled runs",
    "modelled",
    "not resolved",
]


@dataclass(frozen=True)
class Missing:
    """Why there is no value. ``tiers``: those that lack figures."""

    why: Reason
    tiers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"value": None, **attributes(self, "why", "tiers")}


@dataclass(frozen=True)
class Value:
    """With its interval, where it has one, and what that covers."""

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA

    @property
    def covered(self) -> bool:
        """Whether the interval has the required confidence: with few repeats it has less."""
        return self.confidence >= 1 - ALPHA - 1e-4

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        confidence = None if self.low is None else self.confidence
        return attributes(self, "value", "low", "high") | {"confidence": confidence}


Known = Value | Missing


def value_of(one: Estimate) -> Value:
    """As it was estimated."""
    return Value(one.ratio, one.low, one.high, one.confidence)
