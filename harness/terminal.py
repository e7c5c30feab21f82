"""Tables and text on a terminal, or in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Tables with more rows are printed as plain columns, ten times as fast.
_MAX_RICH_ROWS = 500


def console() -> Console:
    """stdout, wide enough that a pipe does not cut run ids."""
    from rich.console import Console

    return Console(
        width=None if sys.stdout.isatty() else 200, markup=False, highlight=False, soft_wrap=False
    )


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    right: Collection[int] = (),
) -> Table:
    """Cells are text. ``right``: columns of numbers."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        made.add_column(Text(name))
    for index in right:
        made.columns[index].justify = "right"
    for row in rows:
        made.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table of formatted cells; the first column is never wrapped."""
    if len(rows) > _MAX_RICH_ROWS:
        _print_columns([columns, *rows])
        return
    made = table(columns, rows, title)
    made.columns[0].no_wrap = True
    console().print(made)


def _print_columns(rows: Sequence[Sequence[Any]]) -> None:
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
