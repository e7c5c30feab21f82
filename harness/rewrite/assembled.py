"""A program disassembled into text that assembles again (``ddisasm``), changed, and linked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.rules import FENCES, Rule
from harness.rewrite.tools import Instruction, link_options, refused, run

#: A line of assembly that is an instruction: not a label, directive or comment.
_INSTRUCTION = re.compile(r"^\s+(?P<name>[a-z][a-z0-9]*)(?P<rest>(?:\s.*)?)$")
_DDISASM = "pip install ddisasm"


def change(
    program: Path, new: Path, flushes: Sequence[tuple[Instruction, Rule]], rules: Sequence[Rule]
) -> list[bool]:
    """Write ``new``; of each flush, whether a fence was added."""
    text = new.with_suffix(".s")
    options = link_options(program, new.parent)
    run([_ddisasm(), str(program), "--asm", str(text)], program)
    lines, used, added = apply(text.read_text().splitlines(), rules)
    if used != [rule for _, rule in flushes]:
        raise refused(
            program,
            f"ddisasm finds {len(used)} flushes to replace, objdump {len(flushes)}, or in "
            "another order: one of them takes data for code",
            "rewrite the source",
        )
    text.write_text("\n".join(lines) + "\n")
    run(["gcc", "-nostartfiles", *options, str(text), "-o", str(new)], program)
    return added


def apply(lines: Iterable[str], rules: Sequence[Rule]) -> tuple[list[str], list[Rule], list[bool]]:
    """The new lines; of each replaced flush, in order, its rule and whether a fence was added."""
    by_old = {rule.old: rule for rule in rules}
    every, used, added = list(lines), [], []
    result = []
    for number, line in enumerate(every):
        found = _INSTRUCTION.match(line)
        rule = by_old.get(found["name"]) if found else None
        if found is None or rule is None:
            result.append(line)
            continue
        fence = bool(rule.fence) and _next_instruction(every, number) not in FENCES
        result.append(f"\t{rule.new}{found['rest']}")
        result += [f"\t{rule.fence}"] if fence else []
        used.append(rule)
        added.append(fence)
    return result, used, added


def _next_instruction(lines: Sequence[str], number: int) -> str:
    """The one that is executed after this line's, which is no jump; labels are passed."""
    for line in lines[number + 1 :]:
        if found := _INSTRUCTION.match(line):
            return found["name"]
    return ""


def _ddisasm() -> str:
    """The program of the package ddisasm (its Python module only starts it)."""
    try:
        import ddisasm
    except ImportError as error:
        raise UsageError("rewrite a program", "ddisasm is not installed", _DDISASM) from error
    return str(Path(ddisasm.__file__).parent / "ddisasm")
