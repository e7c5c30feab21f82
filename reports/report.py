"""Write a report over finished runs: HTML in one file, Markdown, CSV, figures.

Everything is made in memory first: a report that cannot be made leaves nothing behind.
The HTML file fetches nothing (its content security policy forbids it) and opens from
``file://``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.errors import UsageError
from harness.store.runs import StoredRun
from reports.agreement import DRIVER
from reports.charts.drawing import Drawing
from reports.parameter_table import WHAT_HEAD
from reports.published import PublishedSeries, read_published
from reports.published_table import PUBLISHED_HEAD
from reports.sentences import share_text
from reports.series import compared_dimension, panels
from reports.table_csv import queries_as_csv, runs_as_csv
from reports.view import PanelView, View, build

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class ReportFiles:
    """Where the report is."""

    html: Path
    markdown: Path
    csv: Path
    queries_csv: Path | None
    figures: tuple[Path, ...]


def write_report(
    runs: Sequence[StoredRun],
    out: Path,
    title: str = "Does the faster tier pay?",
    over: str | None = None,
    baseline: str | None = None,
    published: Path | None = None,
    force: bool = False,
    published_figures: Sequence[str] = (),
) -> ReportFiles:
    """Write ``report.html``, ``report.md``, ``report.csv`` (every metric of every run),
    ``queries.csv`` (where each query's time goes, if there are queries) and ``figures/``
    into ``out``.

    ``over``: the dimension compared (found if None: placement first); ``baseline``: the
    arm the others are compared with (found if None: real before emulated, block devices
    first); ``published``: a paper's numbers to lay beside, ``published_figures``: which of
    them (all if none is named); ``force``: compare also what differs in more. UsageError
    where there is no run or ``out`` cannot be written.
    """
    if not runs:
        raise UsageError("a report", "no finished run is selected", "`harness runs list` shows all")
    series = read_published(published, published_figures) if published else []
    view = _view(runs, title, over, baseline, series, force)
    across = [sweep.drawing for sweep in view.sweeps if sweep.drawing]
    drawings = [*across, *(d for panel in view.panels for d in panel.all_drawings)]
    texts = {
        "report.html": render_html(view),
        "report.md": render_markdown(view),
        "report.csv": runs_as_csv(runs),
    }
    asked = [(one.panel.title, sentence) for one in view.panels for sentence in one.sentences]
    if asked:
        texts["queries.csv"] = queries_as_csv(asked)
    written = write_files(out, texts, drawings, stale=() if asked else ("queries.csv",))
    return ReportFiles(
        out / "report.html",
        out / "report.md",
        out / "report.csv",
        out / "queries.csv" if asked else None,
        written,
    )


def write_files(
    out: Path, texts: Mapping[str, str], drawings: Sequence[Drawing], stale: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Texts by name, and drawings as ``figures/<name>.svg`` and ``.png``; where these are.

    ``stale``: what a report that was there before may have left. UsageError where ``out``
    cannot be written.
    """
    folder = out / "figures"
    figures = {f"{drawing.name}.svg": drawing.svg.encode() for drawing in drawings}
    figures |= {f"{drawing.name}.png": drawing.png for drawing in drawings}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in figures.items():
            (folder / name).write_bytes(content)
        for name in stale:
            (out / name).unlink(missing_ok=True)
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"a report in {out}", str(error), "name a writable directory") from error
    return tuple(folder / name for name in figures)


def _view(
    runs: Sequence[StoredRun],
    title: str,
    over: str | None,
    baseline: str | None,
    published: Sequence[PublishedSeries],
    force: bool,
) -> View:
    compared = over or compared_dimension(runs)
    # What drivers differ in besides is told with how far they agree.
    found = panels(runs, compared, baseline, force or compared == DRIVER)
    return build(title, runs, found, published, over_drivers=compared == DRIVER)


def render_html(view: View) -> str:
    """The whole report as one HTML document; every string of a run is escaped."""
    return html("report.html.j2", view, **_TABLES)


def render_markdown(view: View) -> str:
    """The same as Markdown; figures are linked from ``figures/``."""
    return markdown("report.md.j2", view, **_TABLES)


def html(template: str, view: object, **more: Any) -> str:
    """A template with style, script and inline drawings, everything of ``view`` escaped."""
    environment = _environment(autoescape=True)
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        view=view,
        style=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=digest,
        svg=lambda drawing: Markup(drawing.inline_svg),
        **more,
    )


def markdown(template: str, view: object, **more: Any) -> str:
    """A template whose texts stay texts in Markdown (filter ``md``)."""
    environment = _environment(autoescape=False)
    environment.filters["md"] = escape_markdown
    return environment.get_template(template).render(view=view, **more)


def _sentence_rows(panel: PanelView) -> list[tuple[str, ...]]:
    """The rows of the table of sentences: query, sentence, how far its plan accounts for it."""
    return [(*one.row, share_text(one.anatomy), one.why_off) for one in panel.sentences]


#: What both templates ask for beside the view.
_TABLES: Mapping[str, Any] = {
    "sentence_rows": _sentence_rows,
    "published_head": PUBLISHED_HEAD,
    "what_head": WHAT_HEAD,
}


def escape_markdown(text: object) -> str:
    """Text that stays text in Markdown, in a table cell as well."""
    one_line = " ".join(str(text).split())
    for character in "\\`*_[]|#":
        one_line = one_line.replace(character, f"\\{character}")
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _environment(autoescape: bool) -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
