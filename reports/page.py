"""Render the blocks of a page (reports/sections.py) as HTML, as Markdown or on a terminal.

All text is escaped for the format. The HTML file fetches nothing (its content security
policy forbids it) and opens from ``file://``. Everything is made in memory first: a report that
cannot be made leaves no file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from harness import terminal
from harness.errors import UsageError
from harness.supervise.user_files import make_own, replacing
from reports.sections import (
    Block,
    Drawing,
    Facts,
    Lines,
    Paragraph,
    Section,
    Table,
    drawings,
    plain,
    spans,
)

if TYPE_CHECKING:
    from rich.console import Console

_TEMPLATES = Path(__file__).parent / "templates"
Form = Literal["html", "md"]
FORMS: tuple[Form, ...] = get_args(Form)
NO_TEXTS: Mapping[str, str] = {}


@cache
def _template(form: Form) -> Template:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize_markdown if form == "md" else None,
    )
    environment.filters |= {
        "form": lambda block: type(block).__name__,
        "spans": spans,
        "verbatim": _verbatim,
    }
    return environment.get_template(f"page.{form}.j2")


def render(title: str, blocks: Sequence[Block], form: Form) -> str:
    """A page; every string of a run is escaped."""
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    text = _template(form).render(
        title=title,
        page=blocks,
        style=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text if form == "html" else re.sub(r"\n{3,}", "\n\n", text).lstrip()


#: By the kind of a paragraph.
_STYLES = {
    "title": "bold",
    "banner": "bold red",
    "warning": "bold red",
    "caution": "yellow",
    "note": "dim",
}


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Blocks on a terminal, without charts."""
    for block in blocks:
        match block:
            case Paragraph():
                _put(console, plain(block.text), block.kind)
            case Section():
                _put(console, block.title, "title")
                print_blocks(block.blocks, console)
            case Lines():
                for row in block.rows:
                    if block.kind == "commands":  # to be copied whole
                        console.print(f"  {plain(row)}", soft_wrap=True)
                    else:
                        _put(console, plain(row), "warning")
            case Facts():
                for name, value in block.rows:
                    _put(console, f"{name}: {value}")
            case Table():
                _print_table(block, console)


def _print_table(table: Table, console: Console) -> None:
    if not table.records:
        right = range(1, len(table.head) - 1) if table.kind == "numbers" else ()
        rows = [list(map(plain, row)) for row in table.rows]
        console.print(terminal.table(table.head, rows, table.title, right))
        return
    for first, *cells in table.rows:
        _put(console, plain(first), "title")
        for name, cell in zip(table.head[1:], cells, strict=True):
            _put(console, f"{name}: {plain(cell)}")


def _put(console: Console, text: str, kind: str = "") -> None:
    console.print(" ".join(text.split()), style=_STYLES.get(kind), markup=False, highlight=False)


def _verbatim(text: object) -> Markup:
    """Code in Markdown, where nothing is escaped; on one line and without what would end it."""
    return Markup(re.sub(r"\s+", " ", str(text)).replace("`", "'"))


def _finalize_markdown(value: object) -> object:
    return value if isinstance(value, Markup) else Markup(escape_markdown(str(value)))


def escape_markdown(text: str) -> str:
    """Text that stays text in Markdown, in a table cell as well."""
    one_line = re.sub(r"\s+", " ", text)
    for character in "\\`*_[]|#":
        one_line = one_line.replace(character, f"\\{character}")
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def own_folder(out: Path) -> None:
    """Make a folder of output; UsageError where that cannot be."""
    try:
        make_own(out)
    except OSError as error:
        raise UsageError(f"output in {out}", str(error), "name a writable directory") from error


def write_drawing(drawing: Drawing, out: Path) -> Path:
    """Write ``<name>.svg``, whose path is returned, and ``<name>.png``."""
    own_folder(out)
    for ending, content in (("png", drawing.png), ("svg", drawing.svg.encode())):
        file = out / f"{drawing.name}.{ending}"
        with replacing(file, sync=False) as stream:
            stream.write(content)
    return file.absolute()


def write_page(
    out: Path, stem: str, title: str, blocks: Iterable[Block], texts: Mapping[str, str] = NO_TEXTS
) -> tuple[Path, ...]:
    """Blocks as ``<stem>.html`` and ``<stem>.md``, and other texts by name.

    Charts are written as ``figures/<name>.svg`` and ``.png``, which are returned. A text that is
    empty is not written, and removed where an earlier report left it. UsageError where ``out``
    cannot be written.
    """
    shown = list(blocks)
    pages = {f"{stem}.{form}": render(title, shown, form) for form in FORMS}
    folder = out / "figures"
    charts = list(drawings(shown))
    figures = {f"{drawing.name}.svg": drawing.svg.encode() for drawing in charts}
    figures |= {f"{drawing.name}.png": drawing.png for drawing in charts}
    try:
        make_own(folder)
        files = {folder / name: content for name, content in figures.items()}
        files |= {out / name: text.encode() for name, text in {**pages, **texts}.items() if text}
        for name in (name for name, text in texts.items() if not text):
            (out / name).unlink(missing_ok=True)
        for file, content in files.items():
            with replacing(file, sync=False) as stream:
                stream.write(content)
    except OSError as error:
        raise UsageError(f"a report in {out}", str(error), "name a writable directory") from error
    return tuple(folder / name for name in figures)
