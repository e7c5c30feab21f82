"""Profiles and suites that repeat a paper's figures (``profiles/fidelity/``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harness.errors import unknown
from harness.paper.pair_query import PairQuery
from harness.paths import data_folder
from harness.sequences import grouped
from harness.structs import Struct
from harness.yamlfile import load_yaml

#: What papers number.
_KINDS = ("Fig", "Table")


_Names = Annotated[tuple[str, ...], Meta(min_length=1)]


class FigureEntry(Struct, frozen=True):
    """A figure with the profile, or the suite and its tiers, that repeats it: names, or files."""

    figure: Annotated[str, Meta(description="as the paper calls it, with what it shows")]
    profile: Annotated[str, Meta(description="the experiment that repeats it")] = ""
    suite: Annotated[str, Meta(description="the suite of microbenchmarks that repeats it")] = ""
    tiers: Annotated[_Names, Meta(description="tiers that the suite is run on")] = ()
    published: Annotated[
        _Names,
        Meta(description="its figures in published.csv, where neither profile nor suite has them"),
    ] = ()
    differs: Annotated[str, Meta(description="what differs from the paper")] = ""
    missing: Annotated[str, Meta(description="why nothing here repeats it")] = ""

    @property
    def key(self) -> str:
        """``fig4`` of ``Fig 4: selectivity``, as commands name it."""
        return re.sub(r"\W", "", self.figure.partition(":")[0]).lower()

    @property
    def captions(self) -> list[str]:
        """``Fig 5``, ``Fig 6`` of ``Fig 5 and 6a: sequential writes``; none of a section."""
        kind, _, numbers = self.figure.partition(":")[0].partition(" ")
        return (
            [f"{kind} {number}" for number in re.findall(r"\d+", numbers)] if kind in _KINDS else []
        )


Side = Literal["above", "below"]


class StatedConclusion(Struct, frozen=True):
    """A conclusion as a paper's file states it (reports/conclusions/ has its tests)."""

    documented = "docs/papers.md"
    number: Annotated[str, Meta(description="the paper's section")]
    statement: str
    ratio: Annotated[str, Meta(description="what its trials are ratios of")]
    expected: Annotated[Side, Meta(description="on which side of the bound they lie")]
    test: Annotated[
        Mapping[str, Any],
        Meta(min_length=1, max_length=1, description="by kind: which runs are compared"),
    ]
    command: Annotated[str, Meta(description="what measures it")]
    bound: Annotated[float, Meta(gt=0)] = 1.1
    of: Annotated[
        Literal["all", "most", "some"],
        Meta(description="of how many trials it is said to hold"),
    ] = "most"


class QueryStatement(Struct, frozen=True):
    """A paper's statement on which side of 1.1 the speed-up of some engines' queries lies."""

    number: Annotated[str, Meta(description="the paper's section")]
    statement: str
    of: Annotated[str, Meta(description="a name of compared runs")]
    engines: _Names
    queries: Annotated[tuple[int, ...], Meta(min_length=1)]
    expected: Side
    against: Annotated[
        int | None, Meta(description="query whose speed-up theirs is compared with")
    ] = None

    @property
    def text(self) -> str:
        return f"{self.statement} (§{self.number})"


class PaperQueries(Struct, frozen=True):
    """The paper's statements about single queries."""

    figure: Annotated[str, Meta(description="whose page shows them")]
    compared: Annotated[
        Mapping[str, PairQuery], Meta(description="by name, the runs whose times are compared")
    ]
    statements: Annotated[tuple[QueryStatement, ...], Meta(min_length=1)]


class DeviceExpectation(Struct, frozen=True):
    """Engines' figures that a paper compares with what its microbenchmarks let expect.

    Both are ratios of rows of published.csv, whose labels are figure, engine, arm, at (its x) and
    those of the metric; without ``over`` and ``under`` a row is itself a ratio.
    """

    number: Annotated[str, Meta(description="the paper's section")]
    statement: Annotated[str, Meta(min_length=1, description="the paper's words")]
    device: Annotated[PairQuery, Meta(description="the ratio of the microbenchmark")]
    engine: Annotated[PairQuery, Meta(description="the ratios of the engine, one or several")]
    command: Annotated[str, Meta(description="what measures both")]


class PaperFile(Struct, frozen=True, tag_field="schema", tag=1):
    """Profiles and suites that repeat a paper's figures, and its conclusions."""

    documented = "docs/papers.md"
    title: Annotated[str, Meta(min_length=1)]
    figures: Annotated[
        tuple[FigureEntry, ...],
        Meta(
            min_length=1,
            description="the most informative first: within a budget, they are run in this order",
        ),
    ]
    conclusions: Annotated[tuple[StatedConclusion, ...], Meta(min_length=1)] = ()
    queries: PaperQueries | None = None
    expectations: Annotated[tuple[DeviceExpectation, ...], Meta(min_length=1)] = ()


CaptionState = Literal["measured", "stand-in", "impossible here"]


@dataclass(frozen=True)
class Caption:
    """A figure or table of a paper's text (``Fig 4``), and what the project has of it.

    ``why``: what differs, or why nothing repeats it.
    """

    name: str
    state: CaptionState
    why: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper's figures, the most informative first.

    ``published``: its numbers, where they lie next to a file of the user's.
    """

    name: str
    title: str
    entries: tuple[FigureEntry, ...]
    published: Path | None = None

    def captions(self) -> list[Caption]:
        """Return each figure and table that the entries name, once; the best of its entries."""
        entries = grouped((name, entry) for entry in self.entries for name in entry.captions)
        return [_caption(name, entries[name]) for name in sorted(entries, key=_in_text)]

    def only(self, keys: Sequence[str]) -> Paper:
        """Return the paper with these figures alone; UsageError lists those that there are."""
        entry_keys = list(dict.fromkeys(entry.key for entry in self.entries))
        for key in keys:
            if key not in entry_keys:
                raise unknown(
                    f"figure {key!r}", f"not one of {self.name}", key, entry_keys, "figures: {}"
                )
        return replace(self, entries=tuple(entry for entry in self.entries if entry.key in keys))


def _caption(name: str, entries: Sequence[FigureEntry]) -> Caption:
    repeated = [entry for entry in entries if not entry.missing]
    if any(not entry.differs for entry in repeated):
        return Caption(name, "measured")
    why = "; ".join(dict.fromkeys(entry.differs or entry.missing for entry in repeated or entries))
    return Caption(name, "stand-in" if repeated else "impossible here", why)


def _in_text(name: str) -> tuple[str, int]:
    kind, _, number = name.partition(" ")
    return kind, int(number)


def known_papers() -> dict[str, Path]:
    """The papers by name."""
    folder = data_folder("profiles") / "fidelity"
    return {path.stem: path for path in sorted(folder.glob("*.yml"))}


def find_paper(name: str) -> Paper:
    """A paper by its name, or its file; UsageError lists those that there are."""
    papers = known_papers()
    given = Path(name)
    if name not in papers and given.suffix in (".yml", ".yaml"):
        document = load_yaml(given).to(PaperFile)
        values = given.with_name("published.csv")
        published = values if values.exists() else None
        entries = tuple(_near(given.parent, entry) for entry in document.figures)
        return Paper(given.stem, document.title, entries, published)
    if name not in papers:
        hint = "papers: {}; or name a .yml file"
        raise unknown(f"paper {name!r}", "no such paper", name, papers, hint)
    document = load_yaml(papers[name]).to(PaperFile)
    return Paper(name, document.title, document.figures)


def _near(folder: Path, entry: FigureEntry) -> FigureEntry:
    """The entry with files of its own relative to the paper's file; names are of the package."""

    def place(name: str) -> str:
        return str(folder / name) if name.endswith((".yml", ".yaml")) else name

    return msgspec.structs.replace(entry, profile=place(entry.profile), suite=place(entry.suite))
