"""Tier of each part of a database: the placement grammar.

``<t>-both`` | ``<t>-data-<t>-wal`` (the names of the VLDB 2023 paper, §5) |
``part=tier,part=tier``. Tier names have no dash, so the three forms cannot be
confused. Unnamed ``index`` and ``temp`` follow ``data``; an unnamed ``wal``
follows ``data`` too; an unnamed ``memory`` is the default policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

from harness.errors import UsageError, unknown

Part = Literal["data", "wal", "temp", "index", "memory"]
PARTS: tuple[Part, ...] = get_args(Part)
DIRECTORY_PARTS: tuple[Part, ...] = ("data", "wal", "temp", "index")

TIER_NAME = re.compile(r"^[a-z][a-z0-9_]*$")
_BOTH = re.compile(r"^([a-z][a-z0-9_]*)-both$")
_SPLIT = re.compile(r"^([a-z][a-z0-9_]*)-data-([a-z][a-z0-9_]*)-wal$")
_HELP = "write ssd-both, ssd-data-pmem-wal, or data=ssd,wal=pmem[,temp=…,index=…,memory=…]"


@dataclass(frozen=True)
class Placement:
    """Tier name of every part; ``memory`` is None for the default policy."""

    name: str
    data: str
    wal: str
    temp: str
    index: str
    memory: str | None = None
    #: The parts the user named: only these may be refused by an engine that
    #: cannot place them; the others merely follow ``data``.
    named: frozenset[Part] = frozenset()

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

    def to_json(self) -> dict[str, str | None]:
        """``{name, data, wal, temp, index, memory}`` as in a run's spec."""
        return {"name": self.name} | {part: self.tier_of(part) for part in PARTS}


@lru_cache(maxsize=1024)
def parse_placement(text: str) -> Placement:
    """A placement from its text form; UsageError (exit 2) where it is not one."""
    if match := _BOTH.match(text):
        return _from_parts(text, {"data": match[1], "wal": match[1]})
    if match := _SPLIT.match(text):
        return _from_parts(text, {"data": match[1], "wal": match[2]})
    if "=" in text:
        return _from_parts(text, _parse_parts(text))
    raise UsageError(f"placement {text!r}", "not in the placement grammar", _HELP)


def _parse_parts(text: str) -> dict[Part, str]:
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
    return parts


def _from_parts(text: str, parts: Mapping[Part, str]) -> Placement:
    if "data" not in parts:
        raise UsageError(f"placement {text!r}", "the part 'data' is not named", _HELP)
    data = parts["data"]
    return Placement(
        text,
        data,
        parts.get("wal", data),
        parts.get("temp", data),
        parts.get("index", data),
        parts.get("memory"),
        frozenset(parts),
    )
