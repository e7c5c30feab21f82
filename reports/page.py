"""Render a page: one template, as one HTML file, as Markdown, or on a terminal; write its files.

A template calls the macros of ``macros.html.j2``, ``macros.md.j2`` or ``macros.text.j2`` as ``m``;
everything else in it is escaped for the format. The HTML file fetches nothing (its content security
policy forbids it) and opens from ``file://``. Everything is made in memory first: a report that
cannot be made leaves no file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import terminal
from harness.errors import UsageError
from harness.supervise.user_files import make_own, replacing
from harness.units import format_bytes
from reports import formatting
from reports.charts.drawing import Drawing

if TYPE_CHECKING:
    from rich.console import Console

_TEMPLATES = Path(__file__).parent / "templates"
Form = Literal["html", "md"]
FORMS: tuple[Form, ...] = get_args(Form)
NO_TEXTS: Mapping[str, str] = {}


@cache
def _environment(form: Literal["html", "md", "text"]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=form != "text",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do"],
        finalize=_finalize_markdown if form == "md" else None,
    )
    environment.filters |= {
        "quantity": formatting.quantity_text,
        "range": formatting.range_text,
        "times": formatting.times,
        "share_of": formatting.share_text,
        "gain": formatting.gain_text,
        "at_most": formatting.times_at_most,
        "interval": formatting.interval_text,
        "p": formatting.p_text,
        "verdict": formatting.verdict_text,
        "percent": formatting.percent,
        "significant": formatting.significant,
        "counted": formatting.counted,
        "stand_ins": formatting.stand_in_mark,
        "stand_in_text": formatting.stand_in_text,
        "number_mark": formatting.number_mark,
        "stand_in_note": formatting.stand_in_note,
        "bytes": format_bytes,
        "verbatim": _verbatim,
    }
    return environment


def render(template: str, view: object, form: Form) -> str:
    """The page of a view; every string of a run is escaped."""
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    page = _environment(form).get_template(template)
    text = page.render(
        view=view,
        macros=f"macros.{form}.j2",
        nothing=formatting.NOTHING,
        style=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        svg=lambda drawing: Markup(drawing.inline_svg),
    )
    return text if form == "html" else re.sub(r"\n{3,}", "\n\n", text).lstrip()


#: By the kind of a paragraph.
_STYLES = {"title": "bold", "warning": "bold red", "caution": "yellow", "note": "dim"}


def print_page(template: str, view: object, console: Console) -> None:
    """The page of a view on a terminal."""
    from rich.text import Text

    def put(renderable: object) -> str:
        with console.capture() as captured:
            console.print(renderable)
        return captured.get()

    def put_text(text: object, kind: str = "") -> str:
        return put(Text(" ".join(str(text).split()), style=_STYLES.get(kind, "")))

    def put_command(text: str) -> str:
        with console.capture() as captured:
            console.print(Text(f"  {text}"), soft_wrap=True)  # to be copied whole
        return captured.get()

    def put_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], kind: str) -> str:
        right = range(1, len(head) - 1) if kind == "numbers" else ()
        return put(terminal.table(head, rows, title, right))

    page = _environment("text").get_template(template)
    text = page.render(
        view=view,
        macros="macros.text.j2",
        nothing=formatting.NOTHING,
        put_text=put_text,
        put_command=put_command,
        put_table=put_table,
    )
    console.file.write(re.sub(r"\n{2,}", "\n", text).lstrip("\n"))


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
    out: Path,
    stem: str,
    view: object,
    texts: Mapping[str, str] = NO_TEXTS,
    drawings: Sequence[Drawing] = (),
    stale: Sequence[str] = (),
) -> tuple[Path, ...]:
    """``<stem>.j2`` as ``<stem>.html`` and ``<stem>.md``, and other texts by name.

    Drawings are written as ``figures/<name>.svg`` and ``.png``, which are returned. ``stale``: what
    an earlier report may have left. UsageError where ``out`` cannot be written.
    """
    pages = {f"{stem}.{form}": render(f"{stem}.j2", view, form) for form in FORMS}
    folder = out / "figures"
    figures = {f"{drawing.name}.svg": drawing.svg.encode() for drawing in drawings}
    figures |= {f"{drawing.name}.png": drawing.png for drawing in drawings}
    try:
        make_own(folder)
        files = {folder / name: content for name, content in figures.items()}
        files |= {out / name: text.encode() for name, text in {**pages, **texts}.items()}
        for name in stale:
            (out / name).unlink(missing_ok=True)
        for file, content in files.items():
            with replacing(file, sync=False) as stream:
                stream.write(content)
    except OSError as error:
        raise UsageError(f"a report in {out}", str(error), "name a writable directory") from error
    return tuple(folder / name for name in figures)
