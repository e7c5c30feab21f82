"""Instruction sequences, as labels tell them: load, ntstore+sfence, store+clwb+sfence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.micro.points import Point


@dataclass(frozen=True)
class Instructions:
    """What a thread does for one access."""

    operation: str
    flush: str = "none"
    fence: str = "none"

    @property
    def title(self) -> str:
        """``store+clwb+sfence``."""
        return "+".join([self.operation, *(s for s in (self.flush, self.fence) if s != "none")])


LOAD = Instructions("load")
NTSTORE = Instructions("ntstore", fence="sfence")
CLWB = Instructions("store", "clwb", "sfence")
STORE = Instructions("store", "none", "sfence")


def sequence_of(point: Point) -> Instructions:
    """Of a point's labels; those that are absent are none."""
    return Instructions(point["operation"], point["flush"] or "none", point["fence"] or "none")


def by_kind(points: Sequence[Point]) -> Mapping[str, list[Point]]:
    """By instructions without their fence, as the papers name them: ``store+clwb``."""
    held: dict[str, list[Point]] = {}
    for point in points:
        told = sequence_of(point)
        name = told.operation + (f"+{told.flush}" if told.flush != "none" else "")
        held.setdefault(name, []).append(point)
    return held
