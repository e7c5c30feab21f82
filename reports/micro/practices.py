"""The four best practices of the Empirical Guide (FAST'20, Section 5), tried on a device.

Each is turned into ratios: how much is gained by following it (reports.micro.practice_tests). A
practice is *confirmed* where such a ratio is shown to lie above 1.1, *refuted* where it is shown
to lie below, since a gain of less than a tenth is not worth designing for; everything else
is *not testable here*, with the reason. What is shown is decided over all verdicts of the card
together (reports.micro.verdicts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.formatting import LINE, interval_text, p_text, times
from reports.micro.hypotheses import Verdict
from reports.micro.points import RATE, Device
from reports.micro.practice_tests import BOUND, Trial, trials
from reports.micro.verdicts import verdicts

__all__ = ["BOUND", "Outcome", "Practice", "Tried", "practices"]

Outcome = Literal["confirmed", "refuted", "not testable here"]


@dataclass(frozen=True)
class Tried:
    """A trial with its verdict; None where it makes no claim."""

    trial: Trial
    verdict: Verdict | None

    @property
    def outcome(self) -> Outcome:
        """What it says of its practice."""
        if self.verdict is None or not self.verdict.shown:
            return "not testable here"
        return "confirmed" if self.verdict.claim.above else "refuted"

    @property
    def why(self) -> str:
        """Why it says nothing; empty where it does."""
        return self.verdict.why_not if self.verdict else self.trial.why

    @property
    def said(self) -> str:
        """``ntstore 4 KiB: 1.50× [1.4, 1.6], p 0.01; 3 GB/s against 2 GB/s``."""
        ratio = f"{_ratio_text(self.verdict)}; " if self.verdict else ""
        why = f" ({self.why})" if self.why else ""
        return f"{self.trial.what}: {ratio}{self.trial.figures}{why}"


def _ratio_text(verdict: Verdict) -> str:
    ratio = verdict.claim.ratio
    shown = f", p {p_text(verdict.judgement.adjusted_p)}" if verdict.shown else ""
    return f"{times(ratio.ratio)} {interval_text(ratio)}{shown}"


@dataclass(frozen=True)
class Practice:
    """A practice, what was tried of it, and what came out."""

    number: int
    text: str
    trials: tuple[Tried, ...]
    missing: str = ""

    @property
    def outcome(self) -> Outcome:
        """Confirmed where any trial is (there it pays to follow it), else refuted where one is."""
        told = [trial.outcome for trial in self.trials]
        found: tuple[Outcome, ...] = ("confirmed", "refuted")
        return next((one for one in found if one in told), "not testable here")

    @property
    def figures(self) -> str:
        """What every trial says, one a line, or why there is none."""
        return LINE.join(trial.said for trial in self.trials) or self.missing


_TEXTS = {
    1: "Avoid random accesses smaller than 256 B",
    2: "Use non-temporal stores for large transfers, and control cache evictions",
    3: "Limit the number of concurrent threads accessing a DIMM",
    4: "Avoid NUMA accesses, especially read-modify-write sequences",
}


def practices(device: Device) -> list[Practice]:
    """All four, in the paper's order and words, judged among all verdicts of the card."""
    judged = verdicts(device)
    tried = [Tried(trial, judged.get(trial.key)) for trial in trials(device)]
    missing = {
        1: _absent(device, "access_size", "access_size_sequential"),
        2: _absent(device, "persist_size"),
        3: _absent(device, "threads"),
        4: _no_far(device),
    }
    return [
        Practice(
            number,
            text,
            tuple(one for one in tried if one.trial.practice == number),
            missing[number],
        )
        for number, text in _TEXTS.items()
    ]


def _absent(device: Device, *measurements: str) -> str:
    found = device.select(RATE, measurement=measurements)
    what = "not measured in one experiment beyond the caches" if found else "not measured"
    return (
        f"{what}: {', '.join(measurements)} of the suite device-card "
        "(`harness run micro --suite device-card --tier …`)"
    )


def _no_far(device: Device) -> str:
    points = device.select(RATE, measurement="mix")
    if not points:
        return _absent(device, "mix")
    if any(p["numa"] == "far" for p in points):
        return _absent(device, "mix")
    return "no processors of another NUMA node: everything is near here"
