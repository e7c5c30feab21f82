"""Which profiles and suites repeat a paper's figures (``profiles/fidelity/``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.errors import unknown
from harness.paths import data_folder
from harness.sequences import grouped
from harness.yamlfile import load_yaml

#: What papers number.
_KINDS = ("Fig", "Table")


@dataclass(frozen=True)
class Entry:
    """A figure with the profile, or the suite and its tiers, that repeats it: names, or files.

    ``published``: its figures in published.csv, where neither names them; ``missing``: why nothing
    repeats it.
    """

    figure: str
    profile: str = ""
    suite: str = ""
    tiers: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    differs: str = ""
    missing: str = ""

    @property
    def key(self) -> str:
        """``fig4`` of ``Fig 4: selectivity``, as commands name it."""
        return re.sub(r"\W", "", self.figure.partition(":")[0]).lower()

    @property
    def captions(self) -> list[str]:
        """``Fig 5``, ``Fig 6`` of ``Fig 5 and 6a: sequential writes``; none of a section."""
        kind, _, numbers = self.figure.partition(":")[0].partition(" ")
        return [f"{kind} {one}" for one in re.findall(r"\d+", numbers)] if kind in _KINDS else []


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
    entries: tuple[Entry, ...]
    published: Path | None = None

    def captions(self) -> list[Caption]:
        """Return each figure and table that the entries name, once; the best of its entries."""
        entries = grouped((name, entry) for entry in self.entries for name in entry.captions)
        return [_caption(name, entries[name]) for name in sorted(entries, key=_in_text)]

    def only(self, keys: Sequence[str]) -> Paper:
        """Return the paper with these figures alone; UsageError lists those that there are."""
        known = list(dict.fromkeys(entry.key for entry in self.entries))
        for key in keys:
            if key not in known:
                raise unknown(
                    f"figure {key!r}", f"not one of {self.name}", key, known, "figures: {}"
                )
        return replace(self, entries=tuple(one for one in self.entries if one.key in keys))


def _caption(name: str, entries: Sequence[Entry]) -> Caption:
    repeated = [one for one in entries if not one.missing]
    if any(not one.differs for one in repeated):
        return Caption(name, "measured")
    why = "; ".join(dict.fromkeys(one.differs or one.missing for one in repeated or entries))
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
    known = known_papers()
    given = Path(name)
    if name not in known and given.suffix in (".yml", ".yaml"):
        document = load_yaml(given, "paper").value
        values = given.with_name("published.csv")
        published = values if values.exists() else None
        entries = tuple(_near(given.parent, _entry(one)) for one in document["figures"])
        return Paper(given.stem, document["title"], entries, published)
    if name not in known:
        hint = "papers: {}; or name a .yml file"
        raise unknown(f"paper {name!r}", "no such paper", name, known, hint)
    document = load_yaml(known[name], "paper").value
    return Paper(name, document["title"], tuple(map(_entry, document["figures"])))


def _near(folder: Path, entry: Entry) -> Entry:
    """The entry with files of its own relative to the paper's file; names are of the package."""

    def place(name: str) -> str:
        return str(folder / name) if name.endswith((".yml", ".yaml")) else name

    return replace(entry, profile=place(entry.profile), suite=place(entry.suite))


def _entry(found: dict[str, object]) -> Entry:
    return Entry(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}  # type: ignore[arg-type]
    )
