"""Flushes of the same length, changed in place: clflushopt is 66 0F AE /7, clwb 66 0F AE /6."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.rewrite.reading import Instruction
from harness.rewrite.rules import Rule
from harness.rewrite.tools import refused, run

#: The field reg of their ModRM byte.
_REG = {"clflushopt": 7, "clwb": 6}
_OPCODE = b"\x0f\xae"
_PREFIXES = 4
_LOAD = re.compile(r"^\s+LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) ", re.MULTILINE)


def fits(rule: Rule) -> bool:
    """Whether the new instruction takes the place of the old one."""
    return rule.old in _REG and rule.new in _REG and not rule.fence


def change(program: Path, flushes: Sequence[tuple[Instruction, Rule]]) -> None:
    """In the file ``program`` itself."""
    segments = run(["readelf", "-W", "-l", str(program)], program)
    loaded = [[int(one, 16) for one in found] for found in _LOAD.findall(segments)]
    content = bytearray(program.read_bytes())
    for flush, rule in flushes:
        address = int(flush.address, 16)
        offset = next(
            (at - start + address for at, start, size in loaded if 0 <= address - start < size), 0
        )
        opcode = content.find(_OPCODE, offset, offset + _PREFIXES + len(_OPCODE))
        mod_rm = opcode + len(_OPCODE)
        if opcode < 0 or content[mod_rm] >> 3 & 7 != _REG[rule.old]:
            raise refused(program, f"no {rule.old} at {flush.address}", "rewrite the source")
        content[mod_rm] = content[mod_rm] & ~0x38 | _REG[rule.new] << 3
    program.write_bytes(content)
