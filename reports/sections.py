"""Blocks of a page: sections of paragraphs, lists, tables and charts.

``reports/page.py`` renders the same blocks as HTML, as Markdown and on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reports.formatting import stand_in_mark, stand_in_note, verdict_text

#: Narrower than this a chart is not drawn on a page: who reads it on a phone scrolls.
_SMALLEST_REM = 44


@dataclass(frozen=True)
class Span:
    """Words that are shown in a style. ``of``: the verdict of a badge, the page of a link."""

    text: str
    style: Literal["strong", "code", "badge", "link"] = "strong"
    of: str = ""


#: Text with styled words in it.
Text: TypeAlias = str | Span | tuple[str | Span, ...]
Cell: TypeAlias = Text | int


@dataclass(frozen=True)
class Paragraph:
    """``kind``: banner, about, note, title, caution, warning or plain."""

    text: Text
    kind: str = ""


@dataclass(frozen=True)
class Lines:
    """A list of warnings, or of commands to copy."""

    kind: Literal["items", "commands"]
    rows: Sequence[Text]


@dataclass(frozen=True)
class Facts:
    """Names, each with its value."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """``kind``: how columns are aligned."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    kind: Literal["words", "numbers", "answers"] = "words"


@dataclass(frozen=True)
class Section:
    """Blocks under a title; ``kind``: ``fold`` is closed at first, ``sub`` is a heading alone.

    Those of a ``pair`` are side by side, without a title.
    """

    title: str
    blocks: Sequence[Block] = ()
    id: str = ""
    kind: Literal["section", "fold", "sub", "pair"] = "fold"


@dataclass(frozen=True)
class Drawing:
    """A finished figure: ``name`` is its file name without ending and unique in a report.

    ``alt``: what it shows, for who cannot see it; ``caption``: what must be known to
    read it. ``svg`` stands alone; ``inline_svg`` goes into HTML, its ids made unique.
    """

    name: str
    title: str
    alt: str
    caption: str
    svg: str
    png: bytes

    @property
    def inline_svg(self) -> str:
        """The ``<svg>`` element alone, with this drawing's name before every id in it."""
        body = self.svg[self.svg.index("<svg ") :]
        body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
        body = re.sub(r'\bid="', f'id="{self.name}-', body)
        body = re.sub(r"url\(#", f"url(#{self.name}-", body)
        body = re.sub(r'href="#', f'href="#{self.name}-', body)
        look = f'style="min-width: min({self._width_px:.0f}px, {_SMALLEST_REM}rem)"'
        return body.replace("<svg ", f'<svg {look} aria-hidden="true" focusable="false" ', 1)

    @property
    def _width_px(self) -> float:
        """Its natural width: letters of all charts are then of one size."""
        match = re.search(r'<svg [^>]*width="([\d.]+)pt"', self.svg)
        return float(match[1]) * 4 / 3 if match else 0.0


Block: TypeAlias = Paragraph | Lines | Facts | Table | Section | Drawing


def note(text: Text) -> Paragraph:
    """Return a remark in small letters."""
    return Paragraph(text, "note")


def badge(verdict: str, emulated: Sequence[str] = ()) -> Span:
    """Return a verdict, marked where it is of stand-ins."""
    style = verdict.replace(" ", "-") + " stand-in" * bool(emulated)
    return Span(verdict_text(verdict), "badge", style)


def spans(text: Text) -> tuple[str | Span, ...]:
    """Return the pieces of a text."""
    return text if isinstance(text, tuple) else (text,)


def plain(text: Cell) -> str:
    """Return a text without its styles."""
    if isinstance(text, int):
        return str(text)
    return "".join(span.text if isinstance(span, Span) else span for span in spans(text))


def banner(emulated: Sequence[str]) -> list[Paragraph]:
    """Say which stand-ins the numbers are of; empty without any."""
    if not emulated:
        return []
    text = f" {', '.join(emulated)}. {stand_in_note(emulated)}"
    return [Paragraph((Span(stand_in_mark(emulated)), text), "banner")]


def marked_title(title: str, emulated: Sequence[str]) -> str:
    """Append the mark of stand-ins to a page's title."""
    return f"{title} ({stand_in_mark(emulated)})" if emulated else title


def drawings(blocks: Iterable[Block]) -> Iterator[Drawing]:
    """Yield the charts among the blocks, in their order."""
    for block in blocks:
        if isinstance(block, Drawing):
            yield block
        elif isinstance(block, Section):
            yield from drawings(block.blocks)
