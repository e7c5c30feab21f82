"""A conclusion, the ratios that it is tested by, and the outcome.

Every conclusion says on which side of a bound a ratio lies. Its trials are the ratios that were
measured here; they are tested as one family (reports.trials). On a stand-in a trial is always open:
neither DRAM nor a model shows anything about the papers' devices. What was not measured is named,
with the command that measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.store.documents import as_json, attributes
from harness.store.runs import StoredRun
from harness.structs import Struct
from reports.micro.devices import Device, devices, is_micro
from reports.run_configuration import Facts, facts
from reports.select import unplanted
from reports.trials import Outcome as TrialOutcome
from reports.trials import Side, Trial, decided

Outcome = Literal["holds here", "does not hold here", "not testable here"]


@dataclass(frozen=True)
class Evidence:
    """The runs that conclusions are tested on: neither failed nor with planted delays."""

    runs: tuple[StoredRun, ...]

    @classmethod
    def of(cls, runs: Iterable[StoredRun]) -> Evidence:
        return cls(tuple(run for run in unplanted(runs) if run.head.status != "failed"))

    @cached_property
    def of_engines(self) -> tuple[StoredRun, ...]:
        return tuple(run for run in self.runs if not is_micro(run))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        micro = [run for run in self.runs if is_micro(run)]
        return tuple(devices(micro)) if micro else ()

    @cached_property
    def run_facts(self) -> Mapping[Path, Facts]:
        return {run.directory: facts(run) for run in self.of_engines}


class Test(Struct, frozen=True):
    """A test of a conclusion, as data: which runs it takes, and from them its ratios.

    ``needs``: the runs or tiers without which there is no ratio.
    """

    documented = "docs/papers.md"
    needs: ClassVar[str] = ""

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """Yield the ratios that can be formed."""
        raise NotImplementedError

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Yield what the runs lack of its needs."""
        yield self.needs


class AnyOf(Test, frozen=True):
    """Tests what any of several tests does, all trials together."""

    tests: tuple[Test, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for test in self.tests:
            yield from test.trials(evidence, bound)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        for test in self.tests:
            yield from test.missing(evidence)


@dataclass(frozen=True)
class Conclusion:
    """A paper's conclusion. ``ratio``: what its trials are ratios of, and ``expected`` where.

    ``of``: ``most``: it holds where it does for more than half of its trials; ``some``: where it
    does for any; ``all``: where it does for each. ``command``: what measures it.
    """

    paper: str
    number: str
    statement: str
    ratio: str
    expected: Side
    test: Test
    command: str
    bound: float = 1.1
    of: Literal["all", "most", "some"] = "most"


@dataclass(frozen=True)
class Checked:
    """A checked conclusion has the trials of its runs.

    ``missing``: the runs or tiers that the store lacks; empty where it was tested.
    """

    conclusion: Conclusion
    tested: tuple[Trial, ...]
    missing: tuple[str, ...] = ()

    def count(self, outcome: TrialOutcome) -> int:
        return sum(trial.outcome == outcome for trial in self.tested)

    @property
    def outcome(self) -> Outcome:
        """Return the outcome by ``Conclusion.of``; not testable without enough trials."""
        holds, contrary = self.count("holds"), self.count("contrary")
        if self.conclusion.of == "some":
            if holds:
                return "holds here"
            return "does not hold here" if contrary else "not testable here"
        real = sum(not trial.emulated for trial in self.tested)
        every = self.conclusion.of == "all"
        if holds and (holds == real if every else 2 * holds > real):
            return "holds here"
        if contrary and (every or 2 * contrary >= real):
            return "does not hold here"
        return "not testable here"

    @property
    def why(self) -> str:
        """Return a code for why it is not testable; empty where it was tested."""
        if self.outcome != "not testable here":
            return ""
        if not self.tested:
            return "not-measured"
        if any(trial.outcome != "open" for trial in self.tested):
            return "undecided"
        real = {trial.why for trial in self.tested if not trial.emulated}
        reasons = real or {trial.why for trial in self.tested}
        return reasons.pop() if len(reasons) == 1 else "not-shown"

    @property
    def repeats_needed(self) -> int:
        """Return the repeats from which its trials could be shown; 0 where these are enough."""
        short = (trial.repeats_needed for trial in self.tested if trial.why == "too-few-repeats")
        return max(filter(None, short), default=0)

    @property
    def emulated(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(by for trial in self.tested for by in trial.emulated))

    def to_json(self) -> dict[str, Any]:
        command = self.conclusion.command
        return {
            **attributes(self.conclusion, "paper", "number", "statement"),
            **attributes(self, "outcome", "why"),
            **attributes(self.conclusion, "ratio", "expected", "bound"),
            **attributes(self, "emulated", "repeats_needed"),
            "trials": as_json(self.tested),
            "missing": [{"what": what, "command": command} for what in self.missing],
        }


def check(conclusion: Conclusion, evidence: Evidence) -> Checked:
    """Test one conclusion on these runs."""
    trials = [
        replace(trial, expected=conclusion.expected)
        for trial in decided(list(conclusion.test.trials(evidence, conclusion.bound)))
    ]
    unlike = ("runs of both sides that are alike in all but what is compared",)
    missing = () if trials else tuple(conclusion.test.missing(evidence)) or unlike
    return Checked(conclusion, tuple(trials), missing)


def check_all(conclusions: Sequence[Conclusion], runs: Iterable[StoredRun]) -> list[Checked]:
    """Test all of these conclusions, each as a family of its own."""
    evidence = Evidence.of(runs)
    return [check(conclusion, evidence) for conclusion in conclusions]
