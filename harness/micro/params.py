"""What the command line changes of a suite: ``--duration 1s -p only='random_*'``.

Other programs' parameters have the same kinds of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import UsageError, nearest
from harness.host.processors import parse_cpus
from harness.micro.keys import KEYS, Size
from harness.micro.model import Pages
from harness.store.spec import MICRO
from harness.workloads.parameters import (
    Choice,
    Count,
    Duration,
    Parameters,
    Time,
    parameter,
)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Patterns:
    """Shell patterns of configurations or measurements, with commas between them.

    In pieces: :func:`chosen` puts together those that have commas themselves.
    """

    values = "PATTERN,…"

    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        """Split a text at its commas."""
        if not isinstance(value, str):
            raise UsageError(f"{name}: {value!r}", "not a text", f"write {name}: 'wal*,read', say")
        return tuple(value.split(","))


@dataclass(frozen=True)
class _Cpus:
    values = "0-7,16-23, socket:0, node:0"

    def parse(self, name: str, value: Any) -> str:
        return parse_cpus(str(value))


@dataclass(frozen=True)
class _Library:
    values = "FILE.so"

    def parse(self, name: str, value: Any) -> str:
        path = Path(str(value)).resolve()
        if path.is_file():
            return str(path)
        raise UsageError(f"{name} {value}", "there is no such file", "name a shared library")


#: Of a parameter that leaves the suite as it is.
_SUITES = "the suite's"


@dataclass(frozen=True)
class MicroParams(Parameters):
    """A suite of microbenchmarks on a tier."""

    workload = MICRO
    aliases = {"runtime": "duration"}  # noqa: RUF012

    threads: int | None = parameter(
        Count(1_000_000), help="Most threads.", option=True, default_text=_SUITES
    )
    duration: Duration | None = parameter(
        Time(1), help="Duration of each measurement.", option=True, default_text=_SUITES
    )
    warm_up: Duration | None = parameter(
        Time(), help="Time before each measurement.", option=True, default_text=_SUITES
    )
    operations: int | None = parameter(
        Count(10**15), help="Most operations of a measurement.", option=True, default_text=_SUITES
    )
    cpus: str | None = parameter(
        _Cpus(), help="Processors to use.", option=True, default_text="all"
    )
    only: tuple[str, ...] | None = parameter(
        Patterns(), help="Measurements or configurations.", default_text="all"
    )
    range_bytes: int | None = parameter(
        Size(), name="range", help="Largest range of a job.", default_text=_SUITES
    )
    pages: Pages | None = parameter(
        Choice(("huge", "base")), help="Pages of DRAM.", default_text=_SUITES
    )
    isa: str | None = parameter(KEYS["isa"].kind, help="Instruction set.", default_text=_SUITES)
    index_library: str | None = parameter(
        _Library(), help="Library that replaces each index.", option=True, default_text=_SUITES
    )


def chosen(
    every: Sequence[_T], only: Sequence[str], names: Callable[[_T], Sequence[str]]
) -> list[_T]:
    """Return the items of which a pattern matches one of the ``names``.

    All without a pattern. ``only``: patterns, or pieces of them where configurations have commas
    in their names; UsageError for a piece that begins no pattern which matches.
    """
    if not only:
        return list(every)
    known = [name for one in every for name in names(one)]
    patterns: list[str] = []
    at = 0
    while at < len(only):
        end = _end_of_pattern(only, at, known)
        if end == at:
            measurements = dict.fromkeys(names(one)[0] for one in every)
            raise UsageError(
                f"--param only={','.join(only)}",
                f"no configuration of the suite has the name {only[at]!r}"
                f"{nearest(only[at], list(measurements))}",
                f"its measurements: {', '.join(measurements)}; `harness micro show` lists all",
            )
        patterns.append(",".join(only[at:end]))
        at = end
    return [one for one in every if any(_matches(p, names(one)) for p in patterns)]


def _end_of_pattern(pieces: Sequence[str], at: int, known: Sequence[str]) -> int:
    """Return the end of the longest run of pieces that matches as one; ``at`` for none.

    A piece that matches by itself is a pattern of its own and continues none: ``*write*,*random*``
    are two, though there are configurations of both.
    """
    end = at + 1
    while end < len(pieces) and not _matches(pieces[end], known):
        end += 1
    while end > at and not _matches(",".join(pieces[at:end]), known):
        end -= 1
    return end


def _matches(pattern: str, names: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)
