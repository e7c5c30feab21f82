"""Warnings: conditions that make a number less trustworthy, or that a command works around.

A run's warnings are stored under ``uncontrolled`` in run.json; a command's go to stderr.
docs/warnings.md lists every code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import Annotated

from msgspec import field

from harness.structs import Struct, whole
from harness.terminal import say


class RunWarning(Struct, frozen=True):
    """A warning with a stable, kebab-case ``code``.

    ``problem``: what is wrong, without measured values: warnings of the same code and problem
    are one. ``context``: the values found. ``hint``: the fix (may be empty).
    """

    code: Annotated[str, whole("[a-z][a-z0-9-]*", "stable (docs/warnings.md)")]
    problem: str = field(name="what")
    context: str = field(name="found")
    hint: str = field(name="do", default="")

    def __str__(self) -> str:
        """On one line, for a terminal."""
        text = ": ".join(part for part in (self.code, self.problem, self.context) if part)
        return f"{text} ({self.hint})" if self.hint else text


def unique(warnings: Iterable[RunWarning]) -> list[RunWarning]:
    """One of each code and problem, in the order of the first, with the last one's context."""
    return list({(warning.code, warning.problem): warning for warning in warnings}.values())


@cache
def warn(warning: RunWarning) -> None:
    """Print a warning on stderr, once per process."""
    say(f"warning: {warning}", file=sys.stderr)
