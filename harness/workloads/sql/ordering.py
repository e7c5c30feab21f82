"""The order of a query's rows: what the ORDER BY of its outermost statement says.

Parentheses are what is inner: subqueries, common table expressions, windows and aggregates have an
ORDER BY of their own, which does not order the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.sql_script import masked

_ORDER = re.compile(r"\border\s+by\b", re.I)
_END = re.compile(r"\b(?:limit|offset|fetch|for)\b", re.I)
_SKIPS = re.compile(r"\boffset\b|\blimit\s+\d+\s*,", re.I)
_LIMIT = re.compile(r"\b(?:limit|fetch\s+(?:first|next))\b(?:\s+(?P<rows>\d+)\b)?", re.I)
_COMPOUND = re.compile(r"\b(?:union|intersect|except|minus)\b", re.I)
_LIST = re.compile(r"\bselect\b(?:\s+(?:distinct|all)\b)?(?P<items>.*?)(?=\bfrom\b|$)", re.I | re.S)
_KEY = re.compile(
    r"(?P<key>.+?)(?:\s+collate\s+\S+)?(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?",
    re.I | re.S,
)
_NAME = r"""(?:\w+|"[^"]+"|`[^`]+`)"""
_ALIAS = re.compile(rf"(?P<expression>.+?)\s+(?:as\s+)?{_NAME}", re.I | re.S)
_QUALIFIED = re.compile(rf"(?:{_NAME}\.)+(?P<last>{_NAME})", re.I)


@dataclass(frozen=True)
class Ordering:
    """``keys``: texts of the ORDER BY, the outermost; empty where rows have no order.

    ``items``: texts of the select list; empty where they do not stand for the columns one by one.
    ``limited``: whether there is a LIMIT or FETCH, of ``limit`` rows where that is a plain number.
    ``skips``: whether there is an OFFSET.
    """

    keys: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    limited: bool = False
    limit: int | None = None
    skips: bool = False

    @classmethod
    def of(cls, statement: str, backslash: bool) -> Ordering:
        """Read one statement; ``backslash``: see harness.sql_script."""
        text, top = _outermost(statement, masked(statement, backslash))
        order = list(_ORDER.finditer(top))
        ends = order[-1].end() if order else 0
        tail = _END.search(top, ends)
        limit = _LIMIT.search(top, ends)
        keys: tuple[str, ...] = ()
        if order:
            stop = tail.start() if tail else len(top)
            keys = tuple(_key(text[a:b]) for a, b in _members(top, ends, stop))
        listed = _LIST.search(top, 0, order[-1].start() if order else len(top))
        items: tuple[str, ...] = ()
        if listed and not _COMPOUND.search(top):
            items = tuple(text[a:b].strip() for a, b in _members(top, *listed.span("items")))
        skips = _SKIPS.search(top, ends) is not None
        rows = int(limit["rows"]) if limit and limit["rows"] and not skips else None
        return cls(keys, items, limit is not None or skips, rows, skips)

    def columns(self, names: Sequence[str]) -> tuple[list[int], bool]:
        """Return the columns of the leading keys, and whether these are all keys.

        ``names``: of the result's columns. A key that is no column of the result ends the list.
        """
        if [_plain(key) for key in self.keys] == ["all"]:
            return [*range(len(names))], True
        columns: list[int] = []
        for key in self.keys:
            column = self._column(key, [_plain(name) for name in names])
            if column is None:
                return columns, False
            columns.append(column)
        return columns, True

    def _column(self, key: str, names: Sequence[str]) -> int | None:
        if key.isdigit():
            return int(key) - 1 if 0 < int(key) <= len(names) else None
        stars = [item for item in self.items if item == "*" or item.endswith(".*")]
        qualified = _QUALIFIED.fullmatch(key)
        name = _plain(key)
        if qualified and len(stars) == len(self.items):
            name = _plain(qualified["last"])
        if names.count(name) == 1:
            return names.index(name)
        if stars or len(self.items) != len(names):
            return None
        alike = [index for index, item in enumerate(self.items) if name in _expressions(item)]
        return alike[0] if alike else None


def _outermost(text: str, top: str) -> tuple[str, str]:
    """Return the statement without parentheses around all of it, and with those inside blanked."""
    while True:
        depth, inner = 0, []
        for character in top:
            depth -= character == ")"
            inner.append("\0" if depth > 0 else character)
            depth += character == "("
        blanked = "".join(inner)
        whole = re.fullmatch(r"\s*\((\0*)\)\s*", blanked)
        if whole is None:
            return text, blanked
        text, top = text[slice(*whole.span(1))], top[slice(*whole.span(1))]


def _members(top: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of what commas divide."""
    for member in top[start:stop].split(","):
        yield start, start + len(member)
        start += len(member) + 1


def _key(text: str) -> str:
    match = _KEY.fullmatch(text.strip())
    return match["key"] if match else text.strip()


def _expressions(item: str) -> set[str]:
    """Return an item of a select list, with its alias and without."""
    alias = _ALIAS.fullmatch(item)
    return {_plain(item), *([_plain(alias["expression"])] if alias else [])}


def _plain(text: str) -> str:
    """Return a name or expression as it compares: without quotes around, case and white space."""
    text = text.strip()
    if re.fullmatch(_NAME, text):
        text = text.strip('"`')
    return re.sub(r"\s+", "", text).casefold()
