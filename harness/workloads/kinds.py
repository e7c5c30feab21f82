"""Kinds of a parameter's values: what is accepted, in which words it is refused.

A field's type states them: :func:`kind_of` makes the kind of ``bool``, of ``Literal``, of ``int``
and ``float`` with msgspec's bounds, of :class:`Duration`; or takes the one that it is annotated
with.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from msgspec import Meta

from harness.errors import UsageError, nearest
from harness.units import parse_duration_ns

#: The queries of TPC-H, and of those over TPC-C's tables that are made after them.
QUERIES: tuple[int, ...] = tuple(range(1, 23))
_LONGEST_NS = 7 * 24 * 3600 * 10**9
_UNITS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3))


@dataclass(frozen=True)
class Duration:
    """A duration with one text form: ``90s`` and ``1.5m`` are both ``90s``."""

    ns: int

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.ns / 1e9

    def __str__(self) -> str:
        if self.ns == 0:
            return "0s"
        unit, size = next(((u, s) for u, s in _UNITS if self.ns % s == 0), ("ns", 1))
        return f"{self.ns // size}{unit}"


class Kind(Protocol):
    """The type and bounds of a parameter."""

    @property
    def values(self) -> str:
        """The accepted values, for help and docs."""

    def parse(self, name: str, value: Any) -> Any:
        """Convert a JSON value; UsageError if it is not accepted."""


@dataclass(frozen=True)
class Count:
    """A whole number from ``least`` to ``most``."""

    most: int
    least: int = 1

    @property
    def values(self) -> str:
        return f"{self.least:,} to {self.most:,}"

    def parse(self, name: str, value: Any) -> int:
        whole = isinstance(value, float) and value.is_integer()
        if isinstance(value, bool) or not (isinstance(value, int) or whole):
            context = "not a whole number"
        elif not self.least <= value <= self.most:
            context = "out of range"
        else:
            return int(value)
        raise UsageError(f"{name} {value!r}", context, f"choose a whole number from {self.values}")


@dataclass(frozen=True)
class Number:
    """A number from ``least`` to ``most``; with ``open_ended`` exclusive of both."""

    least: float = 0
    most: float = math.inf
    open_ended: bool = False
    unit: str = ""

    @property
    def values(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.most == math.inf:
            return f"{'>' if self.open_ended else '>='} {self.least:g}{unit}"
        between = f"{self.least:g} to {self.most:,.10g}"
        return f"{between}{', exclusive' if self.open_ended else ''}{unit}"

    def parse(self, name: str, value: Any) -> int | float:
        if not is_number(value):
            context = "not a number"
        elif (value < self.least or value > self.most) or (
            self.open_ended and value in (self.least, self.most)
        ):
            context = "out of range"
        else:
            return int(value) if value == int(value) else float(value)
        raise UsageError(f"{name} {value!r}", context, f"choose a number: {self.values}")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    values = "true, false"

    def parse(self, name: str, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise UsageError(f"{name} {value!r}", "neither true nor false", "choose true or false")


@dataclass(frozen=True)
class Choice:
    """One of several words."""

    words: tuple[str, ...]

    @property
    def values(self) -> str:
        return ", ".join(self.words)

    def parse(self, name: str, value: Any) -> str:
        if value in self.words:
            return str(value)
        raise UsageError(
            f"{name} {value!r}",
            f"not a valid {name}{nearest(str(value), self.words)}",
            f"choose {self.values}",
        )


@dataclass(frozen=True)
class Time:
    """A duration with its unit, 7 days at most."""

    least_ns: int = 0

    @property
    def values(self) -> str:
        return f"{Duration(self.least_ns)} to {Duration(_LONGEST_NS)}"

    def parse(self, name: str, value: Any) -> Duration:
        try:
            nanoseconds = parse_duration_ns(str(value)) if value != 0 else 0
        except UsageError as error:
            raise UsageError(f"{name} {value!r}", error.context, error.hint) from error
        if not self.least_ns <= nanoseconds <= _LONGEST_NS:
            raise UsageError(
                f"{name} {value!r}", "out of range", f"choose from {self.values} (7 days)"
            )
        return Duration(nanoseconds)


@dataclass(frozen=True)
class Texts:
    """Texts of a list, or of a text with commas, that each match ``pattern``.

    ``wrong``, ``hint``: what is wrong with one that does not, and what to write.
    """

    values: str
    pattern: str
    wrong: str
    hint: str

    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        for word in words if isinstance(words, list | tuple) else [words]:
            if not isinstance(word, str) or not re.fullmatch(self.pattern, word.strip()):
                raise UsageError(f"{name} {word!r}", self.wrong, self.hint)
        return tuple(word.strip() for word in words)


@dataclass(frozen=True)
class QueryNumbers:
    """Some of ``QUERIES``, in the order in which they are named."""

    values = "1 to 22, each once"

    def parse(self, name: str, value: Any) -> tuple[int, ...]:
        problem = f"{name} {value!r}"
        hint = "name queries from 1 to 22, each once, such as 1,6"
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, int) and not isinstance(items, bool):
            items = [items]
        if not isinstance(items, list | tuple) or not items:
            raise UsageError(problem, "not a list of queries", hint)
        numbers: list[int] = []
        for item in items:
            text = str(item).strip()
            if not text.isdecimal() or isinstance(item, bool) or int(text) not in QUERIES:
                raise UsageError(problem, f"{text!r} is not the number of a query", hint)
            if int(text) in numbers:
                raise UsageError(problem, f"query {int(text)} is named twice", hint)
            numbers.append(int(text))
        return tuple(numbers)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def kind_of(annotation: Any) -> Kind:
    """Return the kind of a field's values by its type; ``None`` of an optional one is no value."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (annotation,) = (argument for argument in arguments if argument is not NoneType)
        return kind_of(annotation)
    if origin is Literal:
        return Choice(arguments)
    if origin is Annotated:
        for metadata in arguments[1:]:
            if not isinstance(metadata, Meta):
                kind: Kind = metadata
                return kind
        return _bounded(arguments[0], arguments[1])
    unbounded: dict[Any, Kind] = {bool: Flag(), Duration: Time()}
    return unbounded[annotation]


def _bounded(number: type, bounds: Meta) -> Kind:
    unit = str((bounds.extra or {}).get("unit", ""))
    if number is int:
        assert bounds.ge is not None and bounds.le is not None
        return Count(int(bounds.le), int(bounds.ge))
    if bounds.gt is not None:
        return Number(bounds.gt, math.inf if bounds.lt is None else bounds.lt, True, unit)
    assert bounds.ge is not None
    return Number(bounds.ge, math.inf if bounds.le is None else bounds.le, unit=unit)
