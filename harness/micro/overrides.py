"""What the command line changes of a suite: ``-p duration=1s -p only='random_*'``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from harness.errors import UsageError, nearest
from harness.host.processors import parse_cpus
from harness.micro.keys import KEYS, TIMES, Variables, read_size
from harness.micro.model import Pages
from harness.yamlfile import scalar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """``only``: shell patterns of configurations or measurements, any of which must match.

    ``duration_ns``: of every measurement that is bounded by time, and at most that of the
    others. ``range_bytes``, ``threads``, ``operations``: at most so much. ``cpus``: which
    processors, as in ``--cpus``.
    """

    only: tuple[str, ...] = ()
    duration_ns: int | None = None
    warm_up_ns: int | None = None
    range_bytes: int | None = None
    threads: int | None = None
    operations: int | None = None
    pages: Pages | None = None
    isa: str | None = None
    cpus: str | None = None


def parse_only(text: str) -> tuple[str, ...]:
    """Shell patterns with commas between them, in pieces: :func:`chosen` puts together those
    that have commas themselves."""
    if not isinstance(text, str):
        raise UsageError(f"only: {text!r}", "not a text", "write only: 'wal*,read', say")
    return tuple(text.split(","))


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
    """Behind the longest run of pieces from ``at`` that matches as one; ``at`` where none does.

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


def _cpus(value: Any, variables: Variables, source: str) -> str:
    return parse_cpus(str(value))


#: Parameters of ``--param``: the field of Limits, and the reader.
_READERS: Mapping[str, tuple[str, Callable[[Any, Variables, str], Any]]] = {
    "only": ("only", lambda value, variables, source: parse_only(str(value))),
    "duration": ("duration_ns", TIMES["duration"]),
    "warm_up": ("warm_up_ns", TIMES["warm_up"]),
    "range": ("range_bytes", partial(read_size, lines=False)),
    "threads": ("threads", KEYS["threads"].read),
    "operations": ("operations", KEYS["count"].read),
    "pages": ("pages", KEYS["pages"].read),
    "isa": ("isa", KEYS["isa"].read),
    "cpus": ("cpus", _cpus),
}
PARAMETERS = tuple(_READERS)


def parse_limits(given: Mapping[str, str]) -> Limits:
    """From ``--param key=value``; UsageError for an unknown key or a value that does not fit."""
    fields = {}
    for key, text in given.items():
        if key not in _READERS:
            raise UsageError(
                f"--param {key}",
                f"no such parameter of micro{nearest(key, PARAMETERS)}",
                f"known: {', '.join(PARAMETERS)}; other keys are set in the suite's file",
            )
        field, read = _READERS[key]
        source = f"--param {key}={text}"
        value = scalar(str(text)) if key in ("threads", "operations") else text
        try:
            fields[field] = read(value, {}, source)
        except UsageError as error:
            raise UsageError(source, error.context, error.hint) from error
    return Limits(**fields)
