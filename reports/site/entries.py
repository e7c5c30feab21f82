"""Pages of a site, the rows by which its start page lists them, and their addresses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from harness.structs import Struct, whole
from reports.sections import Block

Kind: TypeAlias = Literal["experiment", "comparison", "host", "history"]
#: The folder of each kind of page.
FOLDERS: dict[Kind, str] = {
    "experiment": "experiments",
    "comparison": "comparisons",
    "host": "hosts",
    "history": "history",
}
START = "index"
#: The address of a page in the site, without ``.html``.
Address: TypeAlias = Annotated[
    str, whole(rf"{START}|({'|'.join(FOLDERS.values())})/[a-z0-9][a-z0-9-]*")
]

_LONGEST_NAME = 60


class Entry(Struct, frozen=True, omit_defaults=True):
    """A row of the start page.

    ``verdict``: of a badge after the title, with the stand-ins that its numbers are of;
    ``cells``: the others.
    """

    kind: Kind
    address: Address
    title: str
    cells: tuple[str, ...]
    newest_unix_ns: int
    verdict: str = ""
    emulated: tuple[str, ...] = ()


@dataclass(frozen=True)
class SitePage:
    """A page, and the rows that lead to it."""

    address: str
    title: str
    blocks: Sequence[Block]
    entries: Sequence[Entry] = ()


def address(kind: Kind, words: Iterable[str], identity: object) -> str:
    """Return the address of what ``identity`` stands for; ``words`` make it readable.

    The same for equal arguments: it does not depend on what else is in the site.
    """
    content = json.dumps(identity, sort_keys=True, ensure_ascii=True).encode()
    name = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower())[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(content).hexdigest()[:12]
    return f"{FOLDERS[kind]}/{f'{name}-' if name else ''}{digest}"
