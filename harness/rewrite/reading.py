"""The flushes and fences of a program, as ``objdump`` reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.rewrite.rules import FENCES, FLUSHES
from harness.rewrite.tools import run

_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_OBJDUMP = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?:[a-z0-9]+ )*?(?P<name>[a-z0-9]+)(?:\s|$)")


@dataclass(frozen=True)
class Instruction:
    """A flush or fence. ``address``: hexadecimal; ``before_fence``: one is next to it."""

    function: str
    address: str
    name: str
    before_fence: bool


def flushes_and_fences(program: Path) -> list[Instruction]:
    """In the order of the file."""
    listing = run(["objdump", "-d", "--no-show-raw-insn", str(program)], program)
    function, every = "", []
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            function = head["name"]
        elif one := _OBJDUMP.match(line):
            every.append((function, one["address"], one["name"]))
    following = [name for _, _, name in every[1:]] + [""]
    return [
        Instruction(function, address, name, after in FENCES)
        for (function, address, name), after in zip(every, following, strict=True)
        if name in FLUSHES or name in FENCES
    ]
