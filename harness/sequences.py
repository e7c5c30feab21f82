"""Values by key, of one side or of two, and the first of many texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in the order given."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def matched(
    a: Iterable[tuple[Key, Value]], b: Iterable[tuple[Key, Value]]
) -> dict[Key, tuple[list[Value], list[Value]]]:
    """The values of both sides by each key that both have, in the order of the first side."""
    of_a, of_b = grouped(a), grouped(b)
    return {key: (values, of_b[key]) for key, values in of_a.items() if key in of_b}


def first_of(texts: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """At most this many of the texts, and how many more there are."""
    left = len(texts) - most
    return [*texts[:most], *([more.format(left)] if left > 0 else [])]
