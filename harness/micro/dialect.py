"""The form of PerMA-Bench's workload files, which CXL-Bench has in common with it.

A dialect has the keys of a configuration, the kinds of their values, and its limits. Sizes are
1024-based.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from harness.errors import UsageError, unknown
from harness.micro.chains import LINE_BYTES
from harness.units import suffixed_number
from harness.workloads.kinds import Choice, Kind

_SIZE = re.compile(r"\d+[kKmMgG]?")
_YES, _NO = ("yes", "y", "true", "on"), ("no", "n", "false", "off")
MOST_THREADS = (1 << 16) - 1


class BenchmarkConfig(Protocol):
    """One configuration of a benchmark, of either program. ``run_time``: seconds, 0: a count."""

    @property
    def run_time(self) -> int: ...

    def suite_keys(self) -> dict[str, Any]:
        """Return the keys of a job of ours that does the same (harness.micro.key_table)."""

    def timed_keys(self) -> dict[str, Any] | None:
        """Return the keys that differ where each chain waits for the one before it; None: none."""


#: Whether a limit is kept, the keys that it is about, and what they must be.
Limit = tuple[bool, str, str]


@dataclass(frozen=True)
class Dialect:
    """The keys of a program's files. ``config``: a dataclass of them.

    ``kinds``: of the keys' values: by name, all others by the type of the default. ``other_names``:
    of keys in other versions.
    """

    program: str
    config: type
    kinds: Mapping[str, Kind]
    limits: Callable[[Any], Iterator[Limit]]
    other_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Return the keys with their defaults."""
        return {each.name: each.default for each in fields(self.config)}

    def name_of(self, key: str) -> str:
        """Return the name that a key has here."""
        return self.other_names.get(key, key)

    def read_value(self, key: str, value: Any, source: str) -> Any:
        """Read one key's value; UsageError names ``source`` where it is unknown or unfit."""
        defaults = self.defaults
        if self.name_of(key) not in defaults:
            accepted = [*defaults, *self.other_names]
            raise unknown(
                source, f"unknown key {key!r} of {self.program}", key, accepted, "keys: {}"
            )
        name = self.name_of(key)
        kind = self.kinds.get(name) or _BY_TYPE[type(defaults[name])]
        try:
            return kind.parse(key, value)
        except UsageError as error:
            raise UsageError(source, f"{key}: {value!r}: {error.context}", error.hint) from error

    def check(self, config: Any, source: str) -> None:
        """Refuse what the program refuses, or what no job of ours does; it names ``source``."""
        for respected, keys, hint in self.limits(config):
            if not respected:
                values = ", ".join(
                    f"{key} {text(getattr(config, key)) or 0}" for key in keys.split()
                )
                raise UsageError(source, values, hint)


def text(value: Any) -> str:
    """Return a value as a file has it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value or "")


def power_of_two(value: int) -> bool:
    """Return whether a number of bytes is a power of two of whole cache lines."""
    return value >= LINE_BYTES and value & (value - 1) == 0


class SizeKind:
    """Bytes, or a number with K, M or G."""

    values = "512, 64K, 10G"

    def parse(self, name: str, value: Any) -> int:
        """Read a number of bytes, or one with K, M or G (1024-based)."""
        size = suffixed_number(str(value))
        if size is None or isinstance(value, bool) or not _SIZE.fullmatch(str(value)):
            hint = "a number of bytes, or one with K, M or G (1024-based): 512, 64K, 10G"
            raise UsageError(name, "not a size", hint)
        return int(size)


class WholeKind:
    """A whole number."""

    values = "100000000"

    def parse(self, name: str, value: Any) -> int:
        """Read a whole number without a suffix."""
        if isinstance(value, bool) or not str(value).isdecimal():
            raise UsageError(name, "not a whole number", "a number without a suffix: 100000000")
        return int(value)


class NumbersKind:
    """Whole numbers: a list, or a single one."""

    values = "[0, 1]"

    def parse(self, name: str, value: Any) -> tuple[int, ...]:
        """Read a list, which may be one number."""
        numbers = value if isinstance(value, list) else [value]
        return tuple(WholeKind().parse(name, number) for number in numbers)


class TextKind:
    """Any text."""

    values = "text"

    def parse(self, _name: str, value: Any) -> str:
        """Return the text."""
        return str(value)


class _Fraction:
    values = "0.9"

    def parse(self, name: str, value: Any) -> float:
        """Read a number, also one that YAML takes for a text (``1e-1``)."""
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise UsageError(name, "not a number", "write 0.9")
        return number


class _Flag:
    values = "true, false"

    def parse(self, name: str, value: Any) -> bool:
        """Read true and false, also yes, no, on and off."""
        return Choice((*_YES, *_NO)).parse(name, str(value).lower()) in _YES


_BY_TYPE: Mapping[type, Kind] = {
    int: WholeKind(),
    float: _Fraction(),
    bool: _Flag(),
    tuple: NumbersKind(),
    str: TextKind(),
}
