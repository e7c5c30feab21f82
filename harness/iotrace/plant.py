"""Planted delays.

::

    wal.sync=+200us              one delay
    wal.sync=+200us~50us         jittered uniformly
    wal.sync=+100us/200us/800us  levels, one of them at a time (harness.explain.blocks)
    wal.sync=+auto               levels that suit the duration of the engine's own calls
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.errors import UsageError, unknown
from harness.iotrace.page import OPERATIONS, PARTS, ROLES, Cell, Delay, Page
from harness.units import parse_duration_ns

_FORM = re.compile(r"(\w+)\.(\w+)=\+([^~/]+)(?:~([^/]+)|((?:/[^/~]+)+))?")
#: As in iotrace/record.c.
LONGEST_NS = 10_000_000_000
#: At the end of a delay a thread does not sleep, but spins.
SPIN_NS = 50_000
#: Below this it may not sleep at all, and is scheduled differently from one that does.
SHORTEST_SLEEP_NS = 100_000
#: Two give a line, and the third shows whether it is one.
LEAST_LEVELS = 3
_AUTO = "auto"
#: Of a call's own duration, the shortest delay that its noise does not hide; the others are
#: multiples of that delay.
_SHARE, _MULTIPLES = 1 / 4, (1, 2, 4, 8)
_ROUNDED_NS = 100_000


@dataclass(frozen=True)
class Plant:
    """A delay after each call of an operation on a part, in all threads.

    ``levels_ns``: ascending, the first one is ``delay``; empty for a delay that does not vary.
    ``adapts``: whether they are the shortest that :meth:`fitted` chooses.
    """

    part: str
    operation: str
    delay: Delay
    levels_ns: tuple[int, ...] = ()
    adapts: bool = False

    def cells(self) -> list[Cell]:
        """The cells whose calls are delayed."""
        return [Cell(self.part, self.operation, role) for role in ROLES]

    def apply(self, page: Page, level_ns: int | None = None) -> None:
        """Delay the calls from now on; by that level, where one is given."""
        delay = self.delay if level_ns is None else Delay(level_ns)
        page.plant(self.cells(), delay)

    def fitted(self, call_ns: float, longest_ns: int) -> Plant:
        """With levels for calls of this duration, none of them above ``longest_ns``."""
        wanted_ns = round(call_ns * _SHARE / _ROUNDED_NS) * _ROUNDED_NS
        first_ns = max(SHORTEST_SLEEP_NS, min(wanted_ns, longest_ns // _MULTIPLES[-1]))
        return replace(self, levels_ns=tuple(first_ns * one for one in _MULTIPLES), adapts=False)

    def __str__(self) -> str:
        """As written, with one unit."""
        if self.adapts:
            return f"{self.part}.{self.operation}=+{_AUTO}"
        jitter = f"~{_microseconds(self.delay.jitter_ns)}" if self.delay.jitter_ns else ""
        delays = "/".join(map(_microseconds, self.levels_ns)) or _microseconds(self.delay.ns)
        return f"{self.part}.{self.operation}=+{delays}{jitter}"


def parse_plant(text: str) -> Plant:
    """The inverse of ``str``; UsageError for another form."""
    problem, hint = f"planted delay {text!r}", "write one such as wal.sync=+200us or +200us~50us"
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(problem, "not PART.OPERATION=+DURATION", hint)
    part, operation, duration, jitter, more = match.groups()
    for kind, name, known in (("part", part, PARTS), ("operation", operation, OPERATIONS)):
        if name not in known:
            raise unknown(problem, f"{name!r} is no traced {kind}", name, known, f"{kind}s: {{}}")
    if duration == _AUTO and not jitter and not more:
        shortest = Plant(part, operation, Delay(SHORTEST_SLEEP_NS)).fitted(0.0, LONGEST_NS)
        return replace(shortest, adapts=True)
    delay = Delay(parse_duration_ns(duration), parse_duration_ns(jitter) if jitter else 0)
    levels_ns = (delay.ns, *map(parse_duration_ns, more[1:].split("/"))) if more else ()
    if not 0 < delay.ns <= LONGEST_NS or delay.jitter_ns > delay.ns:
        raise UsageError(problem, "it must be > 0, at most 10 s, and >= its jitter", hint)
    if levels_ns:
        _check_levels(problem, levels_ns)
    return Plant(part, operation, delay, levels_ns)


def varied(texts: Iterable[str]) -> Plant | None:
    """The delay with levels among planted ones; UsageError for several."""
    found = [plant for plant in map(parse_plant, texts) if plant.levels_ns]
    if len(found) > 1:
        context = f"{found[0]} and {found[1]} both have levels"
        raise UsageError("planted delays", context, "vary one operation per run")
    return found[0] if found else None


def _check_levels(problem: str, levels_ns: tuple[int, ...]) -> None:
    """UsageError for levels that a fit cannot use."""
    context = ""
    if len(levels_ns) < LEAST_LEVELS or list(levels_ns) != sorted(set(levels_ns)):
        context = f"levels must ascend, and be {LEAST_LEVELS} or more"
    elif levels_ns[0] < SHORTEST_SLEEP_NS or levels_ns[-1] > LONGEST_NS:
        context = (
            f"levels must be >= {_microseconds(SHORTEST_SLEEP_NS)}, so that a thread sleeps at "
            "each of them, and <= 10 s"
        )
    if context:
        raise UsageError(problem, context, "write levels such as wal.sync=+100us/200us/400us/800us")


def _microseconds(ns: int) -> str:
    return f"{ns / 1000:.3f}".rstrip("0").removesuffix(".") + "us"
