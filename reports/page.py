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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from harness import terminal
from harness.errors import UsageError
from harness.printable import printable
from harness.supervise.own_files import make_own, replacing
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
        "plain": plain,
        "spans": spans,
        "verbatim": _verbatim,
    }
    return environment.get_template(f"page.{form}.j2")


@dataclass(frozen=True)
class Frame:
    """What a page of a site has around its blocks.

    ``links``: text and address of each link above the title; ``search``: whether the rows of its
    tables can be searched.
    """

    links: Sequence[tuple[str, str]]
    search: bool = False


def render(title: str, blocks: Sequence[Block], form: Form, frame: Frame | None = None) -> str:
    """A page; every string of a run is escaped."""
    scripts = ["report.js", *(["search.js"] if frame and frame.search else [])]
    script = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in scripts)
    page = _template(form).render(
        title=title,
        page=blocks,
        frame=frame,
        style=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    text = printable(page)
    return text if form == "html" else re.sub(r"\n{3,}", "\n\n", text).lstrip()


#: By the kind of a paragraph.
_STYLES = {
    "title": "bold",
    "banner": "red",
    "warning": "red",
    "caution": "yellow",
    "note": "dim",
}


def print_blocks(blocks: Iterable[Block]) -> None:
    """Blocks on a terminal, without charts."""
    for block in blocks:
        match block:
            case Paragraph():
                _say(plain(block.text), _STYLES.get(block.kind, ""))
            case Section():
                if block.kind != "pair":
                    _say(block.title, "bold")
                print_blocks(block.blocks)
            case Lines():
                for row in block.rows:
                    if block.kind == "commands":
                        terminal.say_command(plain(row))
                    else:
                        _say(plain(row), "red")
            case Facts():
                for name, value in block.rows:
                    _say(f"  {name}: {value}")
            case Table():
                right = range(1, len(block.head) - 1) if block.kind == "numbers" else ()
                rows = [list(map(plain, row)) for row in block.rows]
                terminal.print_table(block.head, rows, block.title, right)


def _say(text: str, style: str = "") -> None:
    indent = text[: len(text) - len(text.lstrip(" "))]
    terminal.say(indent + " ".join(text.split()), style)


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


def write_text(path: Path, text: str, *, sync: bool = True) -> None:
    """Write a file without control characters."""
    with replacing(path, sync=sync) as stream:
        stream.write(printable(text).encode())


def write_drawing(drawing: Drawing, out: Path) -> Path:
    """Write ``<name>.svg``, whose path is returned, and ``<name>.png``."""
    own_folder(out)
    file = out / f"{drawing.name}.svg"
    write_text(file, drawing.svg, sync=False)
    with replacing(file.with_suffix(".png"), sync=False) as stream:
        stream.write(drawing.png)
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
    try:
        make_own(folder)
        written = [write_drawing(drawing, folder) for drawing in drawings(shown)]
        for name, text in {**pages, **texts}.items():
            if text:
                write_text(out / name, text, sync=False)
            else:
                (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"a report in {out}", str(error), "name a writable directory") from error
    return tuple(file for svg in written for file in (svg, svg.with_suffix(".png")))
