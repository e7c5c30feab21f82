"""Our tiers in the harness's host file: a block of lines between two marks, and nothing else.

The host file belongs to its owner. It is edited as text, so that comments, order and every entry
outside the marks stay byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BEGIN = "# BEGIN tierbench playbooks: they replace these lines"
_END = "# END tierbench playbooks"
_KEY = re.compile(r"^( +)([a-z][a-z0-9_]*)\s*:(.*)$")
#: A tier as it is written: its kind, its place, what else.
Tiers = Mapping[str, Mapping[str, Any]]


def split(text: str) -> tuple[list[str], list[str]]:
    """(lines of the owner, lines of ours between the marks)."""
    owner: list[str] = []
    ours: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.strip() == _BEGIN:
            inside = True
        elif line.strip() == _END:
            inside = False
        else:
            (ours if inside else owner).append(line)
    return owner, ours


def entries(lines: list[str]) -> dict[str, str]:
    """Tier name to what is written of it, in block style: of the owner's lines, or of ours."""
    fields: dict[str, str] = {}
    depth = name = None
    for line in _section(lines):
        match = _KEY.match(line)
        if match and depth in (None, match.group(1)):
            depth, name = match.group(1), match.group(2)
            fields[name] = match.group(3).split(" #")[0].strip()
        elif name and line.strip() and not line.strip().startswith("#"):
            fields[name] += " " + line.strip()
    return fields


def _section(lines: list[str]) -> list[str]:
    """The lines below ``tiers:``; all of them where there is no such line (ours)."""
    top = [n for n, line in enumerate(lines) if re.match(r"^[^\s#]", line)]
    begin = next((n for n in top if lines[n].startswith("tiers")), None)
    if begin is None:
        return [] if top else lines
    end = next((n for n in top if n > begin), len(lines))
    return lines[begin + 1 : end]


def place_of(tier: Mapping[str, Any]) -> str:
    """Identity of a tier: its path, device or node."""
    return str(tier.get("path") or tier.get("device") or f"node {tier.get('node')}")


def places(fields: Mapping[str, str]) -> dict[str, str]:
    """Tier name to place, of written entries."""
    result = {}
    for name, rest in fields.items():
        match = re.search(r"\b(path|device|node)\s*:\s*[\"']?([^\"',}\s]+)", rest)
        if match:
            node = match.group(1) == "node"
            result[name] = f"node {match.group(2)}" if node else match.group(2)
    return result


def name_tiers(
    wanted: Sequence[tuple[str, Mapping[str, Any]]], text: str
) -> dict[str, dict[str, Any]]:
    """Names for our tiers: (``pmem``, tier) → ``pmem``, ``pmem1`` …

    A place keeps the name it has among ours; one that the owner has named is left to him; a name
    that the owner uses for another place is not taken.
    """
    owner, ours = split(text)
    owned, had = places(entries(owner)), places(entries(ours))
    names_of = {place: name for name, place in had.items() if name not in entries(owner)}
    taken = set(entries(owner)) | {
        names_of[place_of(tier)] for _, tier in wanted if place_of(tier) in names_of
    }
    named: dict[str, dict[str, Any]] = {}
    for base, tier in wanted:
        place = place_of(tier)
        if place in owned.values():
            continue
        name = names_of.get(place)
        if name is None or not re.fullmatch(rf"{base}\d*", name):
            name = next(n for n in _names(base) if n not in taken)
            taken.add(name)
        named[name] = dict(tier)
    return named


def _names(base: str) -> list[str]:
    return [base, *(f"{base}{number}" for number in range(1, 1000))]


def write(text: str | None, tiers: Tiers) -> str | None:
    """The host file with these tiers of ours; None where nothing would be left of it.

    ValueError where ``tiers:`` is written in one line (``tiers: {…}``), which cannot be edited
    without touching what is the owner's.
    """
    owner, _ = split(text or "")
    block = [_BEGIN, *(f"{name}: {_flow(tier)}" for name, tier in tiers.items()), _END]
    at = next((n for n, line in enumerate(owner) if re.match(r"^tiers\s*:", line)), None)
    if at is None:
        if not tiers:
            return text if any(_says(line) for line in owner) else None
        head = owner if any(line.startswith("schema") for line in owner) else [*owner, "schema: 1"]
        return "\n".join([*head, "tiers:", *("  " + line for line in block)]) + "\n"
    rest = owner[at].split(":", 1)[1].split("#")[0].strip()
    if rest not in ("", "{}"):
        raise ValueError("tiers: {…} is written on one line; write one tier per line below tiers:")
    indent = next((m.group(1) for line in owner[at + 1 :] if (m := _KEY.match(line))), "  ")
    has_entries = bool(entries(owner))
    if not tiers and not has_entries:
        return None
    lines = ["tiers:" if rest == "{}" else owner[at], *(indent + line for line in block)]
    return "\n".join([*owner[:at], *(lines if tiers else [owner[at]]), *owner[at + 1 :]]) + "\n"


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("#", "schema"))


def _flow(tier: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in tier.items()) + "}"
