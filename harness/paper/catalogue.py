"""Which profiles and suites repeat a paper's figures (``profiles/fidelity/``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import unknown
from harness.paths import data_folder
from harness.yamlfile import load_yaml


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


@dataclass(frozen=True)
class Paper:
    """A paper's figures, the most informative first.

    ``published``: its numbers, where they lie next to a file of the user's.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    published: Path | None = None

    def only(self, keys: Sequence[str]) -> Paper:
        """Return the paper with these figures alone; UsageError lists those that there are."""
        known = list(dict.fromkeys(entry.key for entry in self.entries))
        for key in keys:
            if key not in known:
                raise unknown(
                    f"figure {key!r}", f"not one of {self.name}", key, known, "figures: {}"
                )
        return replace(self, entries=tuple(one for one in self.entries if one.key in keys))


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
