"""A cell of the table: a value with its interval, or why there is none; the realised fraction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from reports.json_form import attributes
from reports.statistics import ALPHA, Estimate

#: Why a cell of the table has no value.
Reason = Literal[
    "no trace",
    "no suite",
    "suite incomplete",
    "no waits",
    "no ceiling",
    "a rate was set",
    "memory moved",
    "delays planted",
    "no part moved",
    "no what-if",
    "what-if unlike A",
    "not linear",
    "not monotonic",
    "below zero",
    "below floor",
    "too uncertain",
    "above the ceiling",
    "not measured",
    "not resolvable",
]
#: How far the I/O of a derived suite may be off the run's: a device ratio nearer to one is none.
_SUITE_ERROR = 0.05


@dataclass(frozen=True)
class Missing:
    """Why there is no value, and the commands that give it where there are any.

    ``detail``: its numbers, or the evidence that does not count.
    """

    why: Reason
    commands: tuple[str, ...] = ()
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "value": None,
            **attributes(self, "why", "commands"),
            "detail": self.detail or None,
        }


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


def realised_fraction(measured: Known, ratio: Known) -> Known:
    """log(measured) / log(device ratio); not resolvable where either may be one.

    The interval puts those of both together (MOVER: Zou and Donner, Statist. Med. 27, 2008), on a
    logarithmic scale; there is none without that of the device ratio.
    """
    if isinstance(measured, Missing):
        return measured
    if not measured.covered or _may_be_one(measured):
        return Missing("not resolvable")
    if isinstance(ratio, Missing):
        return Missing("not resolvable") if ratio.why == "no part moved" else ratio
    no_difference = abs(math.log(ratio.value)) < math.log1p(_SUITE_ERROR)
    if no_difference or (ratio.low is not None and _may_be_one(ratio)):
        return Missing("not resolvable")
    value = math.log(measured.value) / math.log(ratio.value)
    if ratio.low is None:
        return Value(value)
    (low_a, a, high_a), (low_b, b, high_b) = (_sizes(one) for one in (measured, ratio))
    least = abs(value) * math.exp(-math.hypot(a - low_a, high_b - b))
    most = abs(value) * math.exp(math.hypot(high_a - a, b - low_b))
    low, high = sorted(math.copysign(end, value) for end in (least, most))
    return Value(value, low, high, min(measured.confidence, ratio.confidence))


def _may_be_one(one: Value) -> bool:
    return one.low is None or one.high is None or one.low <= 1 <= one.high


def _sizes(one: Value) -> list[float]:
    """log |log x| of the interval's ends and the value, in order."""
    assert one.low is not None and one.high is not None
    return sorted(math.log(abs(math.log(x))) for x in (one.low, one.value, one.high))
