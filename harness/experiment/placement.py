"""Tier of each part of a database: the placement grammar.

``<t>-both`` | ``<t>-data-<t>-wal`` (the names of the VLDB 2023 paper, §5) |
``part=tier,part=tier``. Tier names have no dash, so the three forms cannot be
confused. Unnamed ``index`` and ``temp`` follow ``data``; an unnamed ``wal``
follows ``data`` too; an unnamed ``memory`` is the default policy.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import Annotated, Literal, get_args

from harness.errors import UsageError, unknown
from harness.structs import Misfit, Struct, whole
from harness.tiers.linux.model import TIER_NAME

Part = Literal["data", "wal", "temp", "index", "memory"]
PARTS: tuple[Part, ...] = get_args(Part)
DIRECTORY_PARTS: tuple[Part, ...] = ("data", "wal", "temp", "index")

#: The name of a tier in documents.
TierName = Annotated[str, whole("[a-z][a-z0-9_]*", "a tier's name: small letters, digits and _")]
_BOTH = re.compile(r"^([a-z][a-z0-9_]*)-both$")
_SPLIT = re.compile(r"^([a-z][a-z0-9_]*)-data-([a-z][a-z0-9_]*)-wal$")
_HELP = "write ssd-both, ssd-data-pmem-wal, or data=ssd,wal=pmem[,temp=…,index=…,memory=…]"


class Placement(Struct, frozen=True, dict=True):
    """Tier name of every part; ``memory`` is None for the default policy."""

    name: str
    data: TierName
    wal: TierName
    temp: TierName
    index: TierName
    memory: TierName | None

    def __post_init__(self) -> None:
        """Refuse tiers that its name does not say."""
        parts = _parts(self.name)
        for part in PARTS:
            usual = None if part == "memory" else self.data
            if self.tier_of(part) != parts.get(part, usual):
                raise Misfit(f"not the tier that the placement {self.name!r} names", "", part)

    @property
    def named(self) -> frozenset[Part]:
        """The parts that the user named.

        Only these may be refused by an engine that cannot place them; the others merely follow
        ``data``.
        """
        return frozenset(_parts(self.name))

    def tier_of(self, part: Part) -> str | None:
        """The tier that holds ``part``, None where the default policy holds."""
        tier: str | None = getattr(self, part)
        return tier

    def tiers(self) -> list[str]:
        """Tiers that are used, each once, in the order of the parts."""
        return [*self._tiers]

    @cached_property
    def _tiers(self) -> dict[str, None]:
        return dict.fromkeys(t for p in PARTS if (t := self.tier_of(p)) is not None)


def parse_placement(text: str) -> Placement:
    """A placement from its text form; UsageError (exit 2) where it is not one."""
    parts = _parts(text)
    data = parts["data"]
    wal, temp, index = (parts.get(part, data) for part in DIRECTORY_PARTS[1:])
    return Placement(text, data, wal, temp, index, parts.get("memory"))


@lru_cache(maxsize=1024)
def _parts(text: str) -> dict[Part, str]:
    """Return the tier of each part that a placement names; its data's is among them."""
    if match := _BOTH.match(text):
        return {"data": match[1], "wal": match[1]}
    if match := _SPLIT.match(text):
        return {"data": match[1], "wal": match[2]}
    if "=" not in text:
        raise UsageError(f"placement {text!r}", "not in the placement grammar", _HELP)
    parts: dict[Part, str] = {}
    for item in text.split(","):
        name, _, tier = (piece.strip() for piece in item.partition("="))
        if name not in PARTS:
            context = f"{name!r} is not a part"
            raise unknown(f"placement {text!r}", context, name, PARTS, "the parts are {}")
        if not TIER_NAME.match(tier):
            raise UsageError(f"placement {text!r}", f"{tier!r} is not a tier name", _HELP)
        if name in parts:
            raise UsageError(f"placement {text!r}", f"part {name!r} is named twice", _HELP)
        parts[name] = tier
    if "data" not in parts:
        raise UsageError(f"placement {text!r}", "the part 'data' is not named", _HELP)
    return parts
