"""Replace a program's flush instructions, without its source (BENTŌ, section 4).

Flushes of the same length are changed in place. Otherwise the program is disassembled into text
that assembles again, the rules are applied to that text, and gcc links the result; what does not
assemble is left to E9Patch, where the user has it. The flushes are ``objdump``'s: what was
disassembled is compared with them beforehand, and the instructions of the result are counted
afterwards. A program whose counts are not what the rules give is not written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import RunFailed, UsageError
from harness.rewrite import assembled, e9patch
from harness.rewrite.rules import FENCES, FLUSHES, RULES, Rule
from harness.rewrite.tools import (
    MAX_BYTES,
    Instruction,
    as_whom,
    flushes_and_fences,
    read_elf,
    refused,
)
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.own_files import replacing
from harness.supervise.user_files import acting_as, read_bytes

#: Flushes of the same length, clflushopt 66 0F AE /7 and clwb 66 0F AE /6: the field reg of their
#: ModRM byte.
_REG = {"clflushopt": 7, "clwb": 6}
_OPCODE = b"\x0f\xae"
_PREFIXES = 4
_LOAD = re.compile(r"^\s+LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) ", re.MULTILINE)

Way = Literal["in place", "assembled", "e9patch"]


@dataclass(frozen=True)
class Site:
    """One flush that was replaced. ``address``: in the old program, hexadecimal."""

    function: str
    address: str
    old: str
    new: str
    fence: Literal["added", "follows", "none"]


@dataclass(frozen=True)
class Rewritten:
    """Record of the changes, with the counts of flushes and fences in both programs."""

    way: Way
    sites: tuple[Site, ...]
    before: Mapping[str, int]
    after: Mapping[str, int]


def rewrite(program: Path, output: Path, rules: Sequence[Rule] = RULES) -> Rewritten:
    """Write ``output``; UsageError where the program cannot be rewritten (nothing is written)."""
    _check_kind(program)
    by_old = {rule.old: rule for rule in rules}
    instructions = flushes_and_fences(program)
    before = Counter(instruction.name for instruction in instructions)
    flushes = [
        (instruction, by_old[instruction.name])
        for instruction in instructions
        if instruction.name in by_old
    ]
    if not flushes:
        raise refused(
            program,
            f"no {' or '.join(sorted(by_old))} in it",
            "`objdump -d` shows its instructions",
        )
    user = unprivileged()
    with workdirs.temporary(credentials=user) as folder:
        new = folder / "program"
        way, added = _change(program, new, flushes, rules)
        after = _expected(before, flushes, added)
        if way != "e9patch":
            _check_counts(program, new, after)
        content = read_bytes(new, user, MAX_BYTES)
    with replacing(output, program.stat().st_mode & 0o777) as file:
        file.write(content)
    return Rewritten(way, tuple(_sites(flushes, added)), dict(before), dict(after))


def check_tools() -> None:
    """UsageError where nothing is installed that rewrites clflush."""
    if not e9patch.is_there():
        assembled.ddisasm()


def _check_kind(program: Path) -> None:
    try:
        _read(program)
    except OSError as error:
        context = f"{(error.strerror or str(error)).lower()}{as_whom()}"
        raise refused(program, context, "let that user read it and pass its folders") from error
    header = read_elf(program, "-h")
    if "X86-64" not in header:
        raise refused(program, "not a program of x86-64", "flushes are instructions of x86-64")
    if "REL (" in header:
        raise refused(program, "an object file, which is not linked yet", "rewrite the program")


def _change(
    program: Path, new: Path, flushes: Sequence[tuple[Instruction, Rule]], rules: Sequence[Rule]
) -> tuple[Way, list[bool]]:
    """Write ``new``: how, and of each flush whether a fence was added."""
    if all(_fits(rule) for _, rule in flushes):
        _change_in_place(program, new, flushes)
        return "in place", [False] * len(flushes)
    try:
        return "assembled", assembled.change(program, new, flushes, rules)
    except UsageError as error:
        if e9patch.is_there():
            return "e9patch", e9patch.change(program, new, flushes)
        hint = f"{error.hint}, or set {e9patch.VARIABLE} to E9Patch, which does not assemble"
        raise UsageError(error.problem, error.context, hint) from error


def _fits(rule: Rule) -> bool:
    """Return whether the new instruction takes the place of the old one."""
    return rule.old in _REG and rule.new in _REG and not rule.fence


def _read(program: Path) -> bytes:
    """Read the program with the tools' rights: root would follow another user's link."""
    with acting_as(unprivileged()):
        return program.read_bytes()


def _change_in_place(program: Path, new: Path, flushes: Sequence[tuple[Instruction, Rule]]) -> None:
    segments = read_elf(program, "-l")
    loaded = [[int(number, 16) for number in numbers] for numbers in _LOAD.findall(segments)]
    content = bytearray(_read(program))
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
    with acting_as(unprivileged()):
        new.write_bytes(content)


def _check_counts(program: Path, new: Path, expected: Counter[str]) -> None:
    after = Counter(instruction.name for instruction in flushes_and_fences(new))
    if after != expected:
        raise RunFailed(
            f"rewrite {program}",
            f"the result has {_text(after)}; expected {_text(expected)}",
            "it was not written",
        )


def _sites(flushes: Sequence[tuple[Instruction, Rule]], added: Sequence[bool]) -> Iterable[Site]:
    for (flush, rule), fence in zip(flushes, added, strict=True):
        needs: Literal["added", "follows", "none"] = "none"
        if rule.fence:
            needs = "added" if fence else "follows"
        yield Site(flush.function, flush.address, rule.old, rule.new, needs)


def _expected(
    before: Mapping[str, int], flushes: Sequence[tuple[Instruction, Rule]], added: Sequence[bool]
) -> Counter[str]:
    counts = Counter(before)
    for (_, rule), fence in zip(flushes, added, strict=True):
        counts[rule.old] -= 1
        counts[rule.new] += 1
        if fence:
            counts[rule.fence] += 1
    return +counts


def _text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in (*FLUSHES, *FENCES) if counts.get(name))
