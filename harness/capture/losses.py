"""What a log has and a record does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.capture.replay_file import LeftOut


@dataclass
class Losses:
    """Lines and statements that are left out, by reason: their number, and the first place."""

    by_reason: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, reason: str, place: str, count: int = 1) -> None:
        before, first = self.by_reason.get(reason, (0, place))
        self.by_reason[reason] = before + count, first

    def listed(self) -> tuple[LeftOut, ...]:
        return tuple(LeftOut(reason, *entry) for reason, entry in self.by_reason.items())
