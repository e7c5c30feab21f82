"""Tier of each part of a database: the placement grammar.

``<t>-both`` | ``<t>-data-<t>-wal`` (the names of the VLDB 2023 paper, §5) |
``part=tier,part=tier``. Tier names have no dash, so the three forms cannot be
confused. Unnamed ``index`` and ``temp`` follow ``data``; an unnamed ``wal``
follows ``data`` too; an unnamed ``memory`` is the default policy.

Single relations go to one other tier, after the parts, if the engine can place them:
``data=ssd,table:stock=pmem,index:stock_pkey=pmem``. Together they are the part ``relations``.

``memory`` is a tier (with its policy in the host file), ``policy:tier[=weight],…``, or the nodes
of a socket: ``memory=cxl``, ``memory=weighted:dram=3,cxl=1``, ``memory=socket:0``. A list of
tiers ends where a part begins: no tier of a list has a part's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Literal, get_args

from harness.errors import UsageError, unknown
from harness.host.processors import OF_DATA
from harness.structs import Misfit, Struct, whole
from harness.tiers.linux.model import TIER_NAME, Policy

Part = Literal["data", "wal", "temp", "index", "memory", "relations"]
PARTS: tuple[Part, ...] = ("data", "wal", "temp", "index", "memory")
DIRECTORY_PARTS: tuple[Part, ...] = ("data", "wal", "temp", "index")
RelationKind = Literal["table", "index"]
RELATION_KINDS: tuple[RelationKind, ...] = get_args(RelationKind)

#: The name of a tier in documents.
TierName = Annotated[str, whole("[a-z][a-z0-9_]*", "a tier's name: small letters, digits and _")]
_BOTH = re.compile(r"^([a-z][a-z0-9_]*)-both$")
_SPLIT = re.compile(r"^([a-z][a-z0-9_]*)-data-([a-z][a-z0-9_]*)-wal$")
_HELP = (
    "write ssd-both, ssd-data-pmem-wal, or data=ssd,wal=pmem[,temp=…,index=…,memory=…]"
    "[,table:NAME=…,index:NAME=…]"
)
_RELATION = re.compile(r"(table|index):([^\W\d][\w$]*(?:\.[^\W\d][\w$]*)?)")
POLICIES: tuple[Policy, ...] = get_args(Policy)
#: Nodes by the processors near them, written as processors are (harness.host.processors).
_NODES = re.compile(r"(?:socket|node):\d{1,4}")
#: The memory nodes of all placements of a profile in documents.
MemoryNodes = Annotated[str, whole(rf"{_NODES.pattern}|{OF_DATA}")]
#: Of Linux's weighted interleaving.
LARGEST_WEIGHT = 255
_MEMORY_HELP = (
    "write data=ssd,memory=cxl, memory=interleave:dram,cxl, memory=weighted:dram=3,cxl=1, or "
    "memory=socket:0"
)
#: The memory of a placement in documents.
MemoryText = Annotated[
    str,
    whole(
        rf"[a-z][a-z0-9_]*|{_NODES.pattern}|({'|'.join(POLICIES)}):[a-z][a-z0-9_=,]*",
        "a tier, policy:tier,tier (with weights, tier=3), or socket:0",
    ),
]


@dataclass(frozen=True)
class MemoryPlace:
    """Where a process's memory comes from.

    ``tiers``: names, in their order; ``policy``: None for that of the tier in the host file.
    ``weights``: one for each tier, empty where none are stated. ``nodes``: ``socket:0`` in place
    of tiers.
    """

    tiers: tuple[str, ...] = ()
    policy: Policy | None = None
    weights: tuple[int, ...] = ()
    nodes: str = ""


@dataclass(frozen=True, order=True)
class Relation:
    """A table or an index, by its name in the database; of another schema than the usual with it.

    A table is without its indexes where these have files of their own.
    """

    kind: RelationKind
    name: str

    def __str__(self) -> str:
        """As in a placement."""
        return f"{self.kind}:{self.name}"


class Placement(Struct, frozen=True, dict=True):
    """Tier name of every part; ``memory`` as written, None for the default policy."""

    name: str
    data: TierName
    wal: TierName
    temp: TierName
    index: TierName
    memory: MemoryText | None

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
        """The tier that holds ``part``, None where the default policy holds, or of no relations."""
        tier: str | None = getattr(self, part)
        return tier

    @property
    def relations(self) -> str | None:
        """The tier of the relations that are placed by name; None where there are none."""
        return next(iter(_relations(self.name).values()), None)

    @property
    def placed_relations(self) -> tuple[Relation, ...]:
        """Relations that are placed by name, in their order."""
        return tuple(_relations(self.name))

    @property
    def directory_parts(self) -> tuple[Part, ...]:
        """Parts that have a directory."""
        return (*DIRECTORY_PARTS, *(("relations",) if self.relations else ()))

    @property
    def memory_place(self) -> MemoryPlace | None:
        """Where memory comes from; None for the default policy."""
        return None if self.memory is None else parse_memory(self.memory)

    def tiers(self) -> list[str]:
        """Tiers that are used, each once, in the order of the parts."""
        return [*self._tiers]

    @cached_property
    def _tiers(self) -> dict[str, None]:
        of_files = (getattr(self, part) for part in self.directory_parts)
        place = self.memory_place
        return dict.fromkeys((*of_files, *(place.tiers if place else ())))


def parse_placement(text: str) -> Placement:
    """A placement from its text form; UsageError (exit 2) where it is not one."""
    parts = _parts(text)
    data = parts["data"]
    wal, temp, index = (parts.get(part, data) for part in DIRECTORY_PARTS[1:])
    return Placement(text, data, wal, temp, index, parts.get("memory"))


@lru_cache(maxsize=1024)
def _parts(text: str) -> dict[Part, str]:
    """Return the tier of each part that a placement names; its data's is among them."""
    _relations(text)
    if match := _BOTH.match(text):
        return {"data": match[1], "wal": match[1]}
    if match := _SPLIT.match(text):
        return {"data": match[1], "wal": match[2]}
    if "=" not in text:
        raise UsageError(f"placement {text!r}", "not in the placement grammar", _HELP)
    parts: dict[Part, str] = {}
    for item in _items(text):
        name, _, tier = (piece.strip() for piece in item.partition("="))
        if _RELATION.fullmatch(name):
            continue
        if name not in PARTS:
            context = f"{name!r} is not a part"
            raise unknown(f"placement {text!r}", context, name, PARTS, "the parts are {}")
        if name == "memory":
            with _in_placement(text):
                parse_memory(tier)
        elif not TIER_NAME.match(tier):
            raise UsageError(f"placement {text!r}", f"{tier!r} is not a tier name", _HELP)
        if name in parts:
            raise UsageError(f"placement {text!r}", f"part {name!r} is named twice", _HELP)
        parts[name] = tier
    if "data" not in parts:
        raise UsageError(f"placement {text!r}", "the part 'data' is not named", _HELP)
    return parts


@lru_cache(maxsize=1024)
def _relations(text: str) -> dict[Relation, str]:
    """Return the tier of each relation that a placement names."""
    relations: dict[Relation, str] = {}
    for item in _items(text) if ":" in text else ():
        name, _, tier = (piece.strip() for piece in item.partition("="))
        if (match := _RELATION.fullmatch(name)) is None:
            continue
        if not TIER_NAME.match(tier):
            raise UsageError(f"placement {text!r}", f"{tier!r} is not a tier name", _HELP)
        relation = Relation("table" if match[1] == "table" else "index", match[2])
        if relation in relations:
            raise UsageError(f"placement {text!r}", f"{relation} is named twice", _HELP)
        relations[relation] = tier
    if len(tiers := dict.fromkeys(relations.values())) > 1:
        raise UsageError(
            f"placement {text!r}",
            f"its relations are on several tiers: {', '.join(tiers)}",
            "name one tier for all of them",
        )
    return relations


def starts_part(name: str) -> bool:
    """Return whether ``name=TIER`` is an item of a placement."""
    return name in PARTS or _RELATION.fullmatch(name) is not None


def ends_in_list(text: str) -> bool:
    """Return whether the last item of a placement is a list of memory's tiers."""
    return _lists(_items(text)[-1])


def _lists(item: str) -> bool:
    return re.match(r"\s*memory\s*=[^=]*:", item) is not None


def _items(text: str) -> list[str]:
    """Split a placement into its parts: a list of memory's tiers stays together."""
    items: list[str] = []
    for item in text.split(","):
        name, _, value = (piece.strip() for piece in item.partition("="))
        listed = bool(items) and _lists(items[-1])
        if not listed or (starts_part(name) and value and not value.isdigit()):
            items.append(item)
        elif name in PARTS:
            raise UsageError(
                f"placement {text!r}",
                f"{item.strip()!r} after a list of memory's tiers: {name!r} is a part, and no tier "
                "of a list may have its name",
                f"give the tier another name in the host file, or complete the part: {name}=TIER",
            )
        else:
            items[-1] = f"{items[-1].strip()},{name}{'=' if '=' in item else ''}{value}"
    return items


@contextmanager
def _in_placement(text: str) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(
            f"placement {text!r}", f"{error.problem}: {error.context}", error.hint
        ) from error


def _reduced(listed: str) -> str:
    """Return a hint with the same ratio in smaller weights; empty where there is none."""
    matches = [re.fullmatch(r"([a-z][a-z0-9_]*)=0*([1-9]\d*)", item) for item in listed.split(",")]
    weights = [(match[1], int(match[2])) for match in matches if match]
    if len(weights) < len(matches):
        return ""
    divisor = math.gcd(*(weight for _, weight in weights))
    if max(weight for _, weight in weights) // divisor > LARGEST_WEIGHT:
        return ""
    return "write " + ",".join(f"{name}={weight // divisor}" for name, weight in weights)


@lru_cache(maxsize=1024)
def parse_memory(text: str) -> MemoryPlace:
    """Where memory comes from, by its text; UsageError where it is no such text."""
    if TIER_NAME.match(text):
        return MemoryPlace((text,))
    if _NODES.fullmatch(text):
        return MemoryPlace(nodes=text)
    problem = f"memory={text}"
    policy, colon, listed = text.partition(":")
    if not colon:
        raise UsageError(problem, f"{text!r} is not a tier name", _MEMORY_HELP)
    if policy not in POLICIES:
        context = f"{policy!r} is not a memory policy"
        raise unknown(problem, context, policy, POLICIES, "the policies are {}")
    names, weights = [], []
    for item in listed.split(","):
        name, equals, weight = item.partition("=")
        if not TIER_NAME.match(name):
            raise UsageError(problem, f"{name!r} is not a tier name", _MEMORY_HELP)
        if equals and policy != "weighted":
            raise UsageError(problem, f"{policy} takes no weights", "write memory=weighted:…")
        if equals and not (weight.isdecimal() and 1 <= int(weight) <= LARGEST_WEIGHT):
            context = f"the weight of {name!r} must be a number from 1 to {LARGEST_WEIGHT}"
            hint = _reduced(listed) or _MEMORY_HELP
            raise UsageError(problem, f"{context} (got {weight!r})", hint)
        names.append(name)
        weights += [int(weight)] if equals else []
    if len(set(names)) < len(names):
        raise UsageError(problem, "a tier is named twice", "name each tier once")
    if weights and len(weights) < len(names):
        raise UsageError(
            problem,
            "only some of the tiers have a weight",
            "give each tier a weight, or none of them (then Linux computes the weights)",
        )
    return MemoryPlace(tuple(names), policy, tuple(weights))
