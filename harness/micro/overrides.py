"""The measurements and configurations that ``-p only='random_*'`` chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from harness.errors import UsageError, nearest

_T = TypeVar("_T")


def chosen(
    every: Sequence[_T], only: Sequence[str], names: Callable[[_T], Sequence[str]]
) -> list[_T]:
    """Those of which a pattern matches one of the ``names``: the measurement's, then others.

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
    """After the longest run of pieces from ``at`` that matches as one; ``at`` where none does.

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
