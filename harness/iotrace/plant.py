"""Planted delays.

::

    wal.sync=+200us       one delay
    wal.sync=+200us~50us  jittered uniformly
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import UsageError, unknown
from harness.iotrace.page import OPERATIONS, PARTS, ROLES, Cell, Delay, Page
from harness.units import parse_duration_ns

_FORM = re.compile(r"(\w+)\.(\w+)=\+([^~]+)(?:~(.+))?")
#: As in iotrace/record.c.
_LONGEST_NS = 10_000_000_000


@dataclass(frozen=True)
class Plant:
    """A delay after each call of an operation on a part, in all threads."""

    part: str
    operation: str
    delay: Delay

    def cells(self) -> list[Cell]:
        """The cells whose calls are delayed."""
        return [Cell(self.part, self.operation, role) for role in ROLES]

    def apply(self, page: Page) -> None:
        """Delay the calls from now on."""
        page.plant(self.cells(), self.delay)

    def __str__(self) -> str:
        """As written, with one unit."""
        jitter = f"~{_microseconds(self.delay.jitter_ns)}" if self.delay.jitter_ns else ""
        return f"{self.part}.{self.operation}=+{_microseconds(self.delay.ns)}{jitter}"


def parse_plant(text: str) -> Plant:
    """The inverse of ``str``; UsageError for another form."""
    problem, hint = f"planted delay {text!r}", "write one such as wal.sync=+200us or +200us~50us"
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(problem, "not PART.OPERATION=+DURATION", hint)
    part, operation, duration, jitter = match.groups()
    for kind, name, known in (("part", part, PARTS), ("operation", operation, OPERATIONS)):
        if name not in known:
            raise unknown(problem, f"{name!r} is no traced {kind}", name, known, f"{kind}s: {{}}")
    delay = Delay(parse_duration_ns(duration), parse_duration_ns(jitter) if jitter else 0)
    if not 0 < delay.ns <= _LONGEST_NS or delay.jitter_ns > delay.ns:
        raise UsageError(problem, "it must be > 0, at most 10 s, and >= its jitter", hint)
    return Plant(part, operation, delay)


def _microseconds(ns: int) -> str:
    return f"{ns / 1000:.3f}".rstrip("0").removesuffix(".") + "us"
