"""Warnings: conditions that make a number less trustworthy, or that a command works around.

A run's warnings are stored under ``uncontrolled`` in run.json; a command's go to stderr.
docs/warnings.md lists every code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from harness.terminal import say


@dataclass(frozen=True)
class RunWarning:
    """A warning with a stable, kebab-case ``code``.

    ``problem``: what is wrong, without measured values: warnings of the same code and problem
    are one. ``context``: the values found. ``hint``: the fix (may be empty).
    """

    code: str
    problem: str
    context: str
    hint: str = ""

    def __str__(self) -> str:
        """On one line, for a terminal."""
        text = ": ".join(part for part in (self.code, self.problem, self.context) if part)
        return f"{text} ({self.hint})" if self.hint else text

    def to_json(self) -> dict[str, str]:
        """The entry in a document (schema run, ``uncontrolled``)."""
        return {
            "code": self.code,
            "what": self.problem,
            "found": self.context,
            "do": self.hint,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, str]) -> RunWarning:
        """The inverse of ``to_json``."""
        return cls(entry.get("code", ""), entry["what"], entry["found"], entry["do"])


def unique(warnings: Iterable[RunWarning]) -> list[RunWarning]:
    """One of each code and problem, in the order of the first, with the last one's context."""
    return list({(warning.code, warning.problem): warning for warning in warnings}.values())


@cache
def warn(warning: RunWarning) -> None:
    """Print a warning on stderr, once per process."""
    say(f"warning: {warning}", file=sys.stderr)
