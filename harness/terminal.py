"""Text and tables on a terminal or in a pipe: lines fit its width, and words stay whole.

A table that is too wide says first what is the same in all of its rows; then cells are wrapped
between words, the first column gets lines of its own, and at last each cell does.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, TextIO

from harness.printable import PrintableStream, printable

#: Of a pipe where $COLUMNS is not set; narrower than this nothing is laid out.
_USUAL, _LEAST = 80, 40
_GAP = 2
#: With fewer rows, what is the same in all of them stays in its column.
_FEW_ROWS = 2
#: Rows in columns are at most this high on average.
_MOST_LINES = 3.5
#: A cell without a value.
_EMPTY = ("", "–", "—")
#: ANSI's codes by style.
_CODES = {"bold": "1", "dim": "2", "yellow": "33", "red": "1;31"}
#: What is not divided: a number and its unit, and an interval.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMGT]iB|B|[nµm]?s|min|1/\w+)(?:/s)?(?![\w/]))")
_INTERVAL = re.compile(r"\[-?\d[^\]\[]{0,30}\]")
#: Words in quotes in a command.
_QUOTED = re.compile(r"'[^'`]*'(?=[^`]*`)")
#: The end of a line in which a command goes on in the next one.
_GOES_ON = " \\"
_NO_BREAK = "\N{NO-BREAK SPACE}"


def width() -> int:
    """Columns of the terminal, or as $COLUMNS says."""
    return max(_LEAST, shutil.get_terminal_size((_USUAL, 24)).columns)


def say(text: str, style: str = "", hanging: int = 2, file: TextIO | None = None) -> None:
    """Print lines of words, wrapped: what follows is indented, by ``hanging`` more."""
    for line in printable(text).split("\n"):
        words = line.lstrip(" ")
        indent = line[: len(line) - len(words)]
        for row in wrap(words, width(), indent, indent + " " * hanging):
            _print(row, style, file)


def say_command(command: str, file: TextIO | None = None) -> None:
    """Print a command to be copied: on several lines where it is too long."""
    for line in command_lines(printable(command), width()):
        print(line, file=file)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    right: Collection[int] = (),
) -> None:
    """Print a table of formatted cells. ``right``: columns of numbers."""
    for line, style in table_lines(columns, rows, title, right, width()):
        _print(line, style)


def wrap(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    """The lines of a text, at least one; a word that is too long has a longer line.

    A command in backticks can be copied: it goes on after a backslash.
    """
    if len(first) + len(text) <= columns:
        return [f"{first}{text}"]
    return list(_wrapped(text, columns, first, rest))


@lru_cache(maxsize=4096)  # the cells of a long table repeat
def _wrapped(text: str, columns: int, first: str, rest: str) -> tuple[str, ...]:
    ticks = text.count("`")
    commands = ticks > 0 and ticks % 2 == 0
    lines = textwrap.wrap(
        _joined(text),
        columns - len(_GOES_ON) * commands,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [line.replace(_NO_BREAK, " ") for line in lines] or [first.rstrip()]
    ends = accumulate(line.count("`") for line in lines)
    return tuple(
        line + _GOES_ON * (n % 2 and commands) for line, n in zip(lines, ends, strict=True)
    )


def command_lines(command: str, columns: int) -> list[str]:
    """A command with backslashes where it goes on in the next line."""
    words = [shlex.quote(word) for word in shlex.split(command)]
    lines, line = [], " "
    for word in words:
        if len(line) + 1 + len(word) + 2 > columns and line.strip():
            lines.append(f"{line} \\")
            line = "   "
        line += f" {word}"
    return [*lines, line]


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str,
    right: Collection[int],
    available: int,
) -> list[tuple[str, str]]:
    """The lines of a table, each with its style."""
    cells = [["" if cell is None else _clean(str(cell)) for cell in row] for row in rows]
    whole = _Grid([_clean(name) for name in columns], cells, list(right))
    grid, same = (whole, "") if whole.fits(available) else whole.without_same()
    titles = wrap(printable(title), available) if title else []
    titles += wrap(f"all rows: {same}", available) if same else []
    layouts = [grid.lines] if grid.fits(available) else [grid.lines, grid.spanning]
    body = min(filter(None, (lay_out(available) for lay_out in layouts)), key=len, default=[])
    if not body or len(body) > _MOST_LINES * len(rows) + 2:
        body = grid.records(available)
    return [*((line, "bold") for line in titles), *body]


@dataclass(frozen=True)
class _Grid:
    """The cells of a table. ``right``: columns of numbers."""

    head: list[str]
    rows: list[list[str]]
    right: list[int] = field(default_factory=list)

    def fits(self, available: int) -> bool:
        """Return whether each row fits on a line."""
        return sum(self._natural) + _GAP * (len(self.head) - 1) <= available

    @cached_property
    def _natural(self) -> list[int]:
        columns = zip(self.head, *self.rows, strict=True)
        return [max(len(x) for cell in {*column} for x in cell.split("\n")) for column in columns]

    def without_same(self) -> tuple[_Grid, str]:
        """Without columns that say the same in all rows, and what these say."""
        if len(self.rows) < _FEW_ROWS:
            return self, ""
        same = {
            at: self.rows[0][at]
            for at in range(1, len(self.head))
            if len({row[at] for row in self.rows}) == 1
        }
        if len(same) == len(self.head) - 1:
            same.popitem()
        left = [at for at in range(len(self.head)) if at not in same]
        named = ((self.head[at], cell) for at, cell in same.items() if cell not in _EMPTY)
        return self._of(left), "; ".join(f"{name} {cell}".strip() for name, cell in named)

    def _of(self, columns: Sequence[int]) -> _Grid:
        """Return a grid of these columns alone."""
        return _Grid(
            [self.head[at] for at in columns],
            [[row[at] for at in columns] for row in self.rows],
            [place for place, at in enumerate(columns) if at in self.right],
        )

    def lines(self, available: int, indent: str = "") -> list[tuple[str, str]] | None:
        """Rows with their cells wrapped; None where words are too long for that."""
        widths = self._widths(available - len(indent))
        if widths is None:
            return None
        result = [(indent + line, "bold") for line in self._row(self.head, widths, upwards=True)]
        for row in self.rows:
            result += [(indent + line, "") for line in self._row(row, widths)]
        return result

    def spanning(self, available: int) -> list[tuple[str, str]] | None:
        """Rows whose first cell has lines of its own, above the others."""
        others = self._of(range(1, len(self.head)))
        indent = " " * _GAP
        widths = others._widths(available - len(indent)) if others.head else None
        if widths is None:
            return None
        lines = [(line, "bold") for line in wrap(self.head[0], available)] if self.head[0] else []
        lines += [(indent + x, "bold") for x in others._row(others.head, widths, upwards=True)]
        for row, cells in zip(self.rows, others.rows, strict=True):
            lines += [(line, "") for line in wrap(row[0], available)] if row[0] else []
            lines += [(indent + line, "") for line in others._row(cells, widths)]
        return lines

    def records(self, available: int) -> list[tuple[str, str]]:
        """The first cell on lines of its own, then the others after their columns' names."""
        lines = []
        for row in self.rows:
            lines += [(line, "bold") for line in wrap(row[0] or "–", available)]
            cells = zip(self.head[1:], row[1:], strict=True)
            said = [(name, cell) for name, cell in cells if cell not in _EMPTY]
            if said:
                text = "; ".join(f"{name}: {cell}".removeprefix(": ") for name, cell in said)
                text = text.replace("\n", ", ")
                lines += [(line, "") for line in wrap(text, available, *[" " * _GAP] * 2)]
        return lines

    def _widths(self, available: int) -> list[int] | None:
        """Widths of the columns: the widest are narrowed first, to the longest word at most."""
        widths = [*self._natural]
        rest = available - _GAP * (len(widths) - 1)
        if sum(widths) <= rest:
            return widths
        floors = [
            max(max(map(len, re.split("[ \n]", _joined(cell)))) for cell in {*column})
            for column in zip(self.head, *self.rows, strict=True)
        ]
        if sum(floors) > rest:
            return None
        while sum(widths) > rest:
            places = [at for at in range(len(widths)) if widths[at] > floors[at]]
            widest = max(places, key=lambda at: widths[at])
            widths[widest] -= 1
        return widths

    def _row(self, cells: Sequence[str], widths: Sequence[int], upwards: bool = False) -> list[str]:
        """The lines of a row. ``upwards``: its last lines are full."""
        if all(len(cell) <= columns for cell, columns in zip(cells, widths, strict=True)) and not (
            any("\n" in cell for cell in cells)
        ):
            return [self._line(cells, widths)]
        wrapped = [
            [line for part in cell.split("\n") for line in wrap(part, columns)]
            for cell, columns in zip(cells, widths, strict=True)
        ]
        height = max(map(len, wrapped))
        empty = [[""] * (height - len(cell)) for cell in wrapped]
        filled = [e + o if upwards else o + e for o, e in zip(wrapped, empty, strict=True)]
        return [self._line(line, widths) for line in zip(*filled, strict=True)]

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        justified = (
            cell.rjust(columns) if at in self.right else cell.ljust(columns)
            for at, (cell, columns) in enumerate(zip(cells, widths, strict=True))
        )
        return (" " * _GAP).join(justified).rstrip()


@lru_cache(maxsize=4096)
def _clean(cell: str) -> str:
    """Without spaces that say nothing, and without control characters."""
    return "\n".join(" ".join(line.split()) for line in printable(cell).splitlines())


def _joined(text: str) -> str:
    """With what is not divided joined by spaces that do not break."""
    if "`" in text:
        text = _QUOTED.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    text = _INTERVAL.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    return _UNIT.sub(_NO_BREAK, text)


def _print(line: str, style: str, file: TextIO | None = None) -> None:
    """Print a line without control characters; its style on a terminal only."""
    stream, code = file or sys.stdout, _CODES.get(style)
    if not code or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        print(line, file=stream)
        return
    write = stream.write_codes if isinstance(stream, PrintableStream) else stream.write
    write(f"\033[{code}m{line}\033[0m\n")
