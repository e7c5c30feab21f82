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
from typing import Literal, get_args

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
