"""``harness selftest``: plant effects and faults of a known size, and look whether they are found.

A file for each group of cases: ``noise`` (statistics on made-up noise), ``effects`` (planted delays
in a real engine), ``faults`` (planted wrong answers, and parts that fail). The cases of
``conformance`` are about one engine (``harness engines verify``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import comb
from typing import Literal

from harness.errors import HarnessError, interruption

#: A self-test that is in order fails a case no more often than this.
_FALSE_ALARMS = 0.01


class NotMetError(Exception):
    """A case does not have the result that it must have; ``str()`` has the result."""


class NotApplicableError(Exception):
    """A case asks for what its subject does not claim to do; ``str()`` has the reason."""


Outcome = Literal["passed", "failed", "not-applicable"]


@dataclass(frozen=True)
class Case:
    """One expectation; ``check`` returns what was found, or raises NotMetError with it."""

    name: str
    check: Callable[[], str]


@dataclass(frozen=True)
class Result:
    """Outcome of a case."""

    name: str
    result: Outcome
    detail: str
    duration_ns: int

    @property
    def passed(self) -> bool:
        return self.result == "passed"

    def __str__(self) -> str:
        """Its line."""
        status = "FAILED" if self.result == "failed" else self.result
        return f"{status}  {self.name}: {self.detail} ({self.duration_ns / 1e9:.1f} s)"


def results(cases: Iterable[Case]) -> Iterator[Result]:
    """Check one case after the other. A case that breaks has failed."""
    for case in cases:
        started = time.monotonic_ns()
        result: Outcome = "failed"
        try:
            detail = case.check()
            result = "passed"
        except NotMetError as error:
            detail = str(error)
        except NotApplicableError as error:
            detail, result = str(error), "not-applicable"
        except Exception as error:
            if (cause := interruption(error)) is not None:
                raise cause from None
            detail = f"{type(error).__name__}: {error}"
            if isinstance(error, HarnessError):
                detail = f"{error}; {error.hint}".removesuffix("; ")
        yield Result(case.name, result, detail, time.monotonic_ns() - started)


def expect(condition: bool, detail: str) -> str:
    """``detail`` if the condition is met."""
    if not condition:
        raise NotMetError(detail)
    return detail


def most_misses(trials: int, chance: float) -> int:
    """The number of misses that trials exceed in at most 1 % of the cases; ``chance``: of each."""
    left = 1.0
    for misses in range(trials):
        left -= comb(trials, misses) * chance**misses * (1 - chance) ** (trials - misses)
        if left <= _FALSE_ALARMS:
            return misses
    return trials
