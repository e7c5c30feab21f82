"""A conclusion, the ratios that it is tested by, and the outcome.

Every conclusion says on which side of a bound a ratio lies. Its trials are the ratios that were
measured here; they are tested as one family (reports.micro.hypotheses). A trial *holds* where its
ratio is shown on the side that the paper says, is *contrary* where it is shown on the other, and is
*open* otherwise. On a stand-in it is always open: neither DRAM nor a model shows anything about the
papers' devices. What was not measured is named, with the command that measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.store.runs import StoredRun
from reports.formatting import stand_in_mark
from reports.json_form import as_json, attributes
from reports.micro.hypotheses import Claim, Verdict, verdicts_of
from reports.micro.points import Device, devices, is_micro
from reports.run_configuration import Facts, facts
from reports.select import unplanted

Outcome = Literal["holds here", "does not hold here", "not testable here"]
TrialOutcome = Literal["holds", "contrary", "open"]
Side = Literal["above", "below"]


@dataclass(frozen=True)
class Evidence:
    """The runs that conclusions are tested on: neither failed nor with planted delays."""

    runs: tuple[StoredRun, ...]

    @classmethod
    def of(cls, runs: Iterable[StoredRun]) -> Evidence:
        """The usable ones of these runs."""
        return cls(tuple(run for run in unplanted(runs) if run.head["status"] != "failed"))

    @cached_property
    def of_engines(self) -> tuple[StoredRun, ...]:
        """Runs of engines."""
        return tuple(run for run in self.runs if not is_micro(run))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Devices that were measured by microbenchmarks."""
        micro = [run for run in self.runs if is_micro(run)]
        return tuple(devices(micro)) if micro else ()

    @cached_property
    def known(self) -> Mapping[Path, Facts]:
        """The facts of the runs of engines, by directory."""
        return {run.directory: facts(run) for run in self.of_engines}


@dataclass(frozen=True)
class Trial:
    """One ratio of a conclusion. ``claim``: None where there is no ratio, with the reason ``why``.

    ``verdict``: where the claim was tested in another family already.
    """

    what: str
    claim: Claim | None
    why: str = ""
    emulated: tuple[str, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Missing:
    """What a conclusion needs and the store lacks, and the command that measures it."""

    what: str
    command: str


class Test(Protocol):
    """How a conclusion is tested, as data: which runs it takes, and from them its ratios."""

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """The ratios that can be formed."""
        ...

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """The runs or tiers without which there is no ratio."""
        ...


@dataclass(frozen=True)
class AnyOf:
    """The trials of several tests, together."""

    tests: tuple[Test, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """Those of each."""
        for test in self.tests:
            yield from test.trials(evidence, bound)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """What each lacks."""
        for test in self.tests:
            yield from test.missing(evidence)


@dataclass(frozen=True)
class Conclusion:
    """A paper's conclusion. ``ratio``: what its trials are ratios of, and ``expected`` where.

    ``of``: ``most``: it holds where it does for more than half of its trials; ``some``: where it
    does for any. ``command``: what measures it.
    """

    paper: str
    number: str
    statement: str
    ratio: str
    expected: Side
    test: Test
    command: str
    bound: float = 1.1
    of: Literal["most", "some"] = "most"


@dataclass(frozen=True)
class Tested:
    """A trial with its verdict; None where it makes no claim, or is of a stand-in."""

    trial: Trial
    verdict: Verdict | None
    expected: Side

    @property
    def outcome(self) -> TrialOutcome:
        """What the trial says of its conclusion."""
        if self.verdict is None or not self.verdict.shown:
            return "open"
        return "holds" if self.verdict.claim.above == (self.expected == "above") else "contrary"

    @property
    def why(self) -> str:
        """Why it is open; empty where it is not."""
        if self.trial.emulated:
            return stand_in_mark(self.trial.emulated).lower()
        return self.verdict.reason if self.verdict else self.trial.why

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        estimate = self.trial.claim.ratio if self.trial.claim else None
        return {
            "what": self.trial.what,
            **attributes(self, "outcome", "why"),
            **attributes(estimate, "ratio", "low", "high", "confidence"),
            **attributes(self.trial.claim, "bound"),
            "repeats": self.trial.claim.repeats if self.trial.claim else 0,
            "repeats_needed": self.verdict.decision.repeats_needed if self.verdict else None,
            "emulated": as_json(self.trial.emulated),
        }


@dataclass(frozen=True)
class Checked:
    """A conclusion with what the runs say of it. ``missing``: empty where it was tested."""

    conclusion: Conclusion
    tested: tuple[Tested, ...]
    missing: tuple[Missing, ...] = ()

    def count(self, outcome: TrialOutcome) -> int:
        """How many trials have this outcome."""
        return sum(one.outcome == outcome for one in self.tested)

    @property
    def outcome(self) -> Outcome:
        """See ``Conclusion.of``; not testable where neither side has enough trials."""
        holds, contrary = self.count("holds"), self.count("contrary")
        if self.conclusion.of == "some":
            if holds:
                return "holds here"
            return "does not hold here" if contrary else "not testable here"
        real = sum(not one.trial.emulated for one in self.tested)
        if 2 * holds > real:
            return "holds here"
        if contrary and 2 * contrary >= real:
            return "does not hold here"
        return "not testable here"

    @property
    def why(self) -> str:
        """A code for why it is not testable; empty where it was tested."""
        if self.outcome != "not testable here":
            return ""
        if not self.tested:
            return "not-measured"
        if any(one.outcome != "open" for one in self.tested):
            return "undecided"
        real = {one.why for one in self.tested if not one.trial.emulated}
        reasons = real or {one.why for one in self.tested}
        return reasons.pop() if len(reasons) == 1 else "not-shown"

    @property
    def repeats_needed(self) -> int:
        """Repeats from which its trials could be shown; 0 where these are enough."""
        short = [one.verdict for one in self.tested if one.why == "too-few-repeats"]
        return max((one.decision.repeats_needed for one in short if one), default=0)

    @property
    def emulated(self) -> tuple[str, ...]:
        """The emulated tiers that its numbers come from."""
        return tuple(dict.fromkeys(by for one in self.tested for by in one.trial.emulated))

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            **attributes(self.conclusion, "paper", "number", "statement"),
            **attributes(self, "outcome", "why"),
            **attributes(self.conclusion, "ratio", "expected", "bound"),
            **attributes(self, "emulated", "repeats_needed"),
            "trials": as_json(self.tested),
            "missing": as_json(self.missing),
        }


def check(conclusion: Conclusion, evidence: Evidence) -> Checked:
    """Test one conclusion on these runs."""
    trials = list(conclusion.test.trials(evidence, conclusion.bound))
    own = {
        str(i): one.claim
        for i, one in enumerate(trials)
        if one.claim and not one.verdict and not one.emulated
    }
    verdicts = verdicts_of(own)
    tested = tuple(
        Tested(
            one,
            None if one.emulated else one.verdict or verdicts.get(str(i)),
            conclusion.expected,
        )
        for i, one in enumerate(trials)
    )
    unlike = ("runs of both sides that are alike in all but what is compared",)
    missing = () if tested else tuple(conclusion.test.missing(evidence)) or unlike
    return Checked(conclusion, tested, tuple(Missing(what, conclusion.command) for what in missing))


def check_all(conclusions: Sequence[Conclusion], runs: Iterable[StoredRun]) -> list[Checked]:
    """All of these conclusions, each a family of its own."""
    evidence = Evidence.of(runs)
    return [check(conclusion, evidence) for conclusion in conclusions]
