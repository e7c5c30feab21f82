"""A program disassembled into text that assembles again (``ddisasm``), changed, and linked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.rules import FENCES, Rule
from harness.rewrite.tools import MAX_BYTES, Instruction, link_options, refused, run
from harness.supervise.credentials import unprivileged
from harness.supervise.user_files import read_text, write_text

#: A line of assembly that is an instruction: not a label, directive or comment.
_INSTRUCTION = re.compile(r"^\s+(?P<name>[a-z][a-z0-9]*)(?P<rest>(?:\s.*)?)$")
#: A directive that would put another file into the program: ddisasm writes none, a name might.
_OTHER_FILE = re.compile(r"""^[^"#\n]*\.(?:incbin|include)\b""", re.MULTILINE)
_DDISASM = "pip install ddisasm"


def change(
    program: Path, new: Path, flushes: Sequence[tuple[Instruction, Rule]], rules: Sequence[Rule]
) -> list[bool]:
    """Write ``new``; of each flush, whether a fence was added."""
    text = new.with_suffix(".s")
    options = link_options(program, new.parent)
    run([ddisasm(), str(program.absolute()), "--asm", str(text)], program, new.parent)
    disassembled = read_text(text, unprivileged(), MAX_BYTES)
    if directive := _OTHER_FILE.search(disassembled):
        context = f"its disassembly includes another file: {directive[0].strip()[:80]}"
        raise refused(program, context, "do not trust this program")
    lines, used, added = apply(disassembled.splitlines(), rules)
    if used != [rule for _, rule in flushes]:
        raise refused(
            program,
            f"ddisasm finds {len(used)} flushes to replace, objdump {len(flushes)}, or in "
            "another order: one of them takes data for code",
            "rewrite the source",
        )
    write_text(text, "\n".join(lines) + "\n", unprivileged())
    # No plugin: link-time optimisation would take its options from the libraries.
    fixed = ("gcc", "-nostartfiles", "-fno-use-linker-plugin")
    run([*fixed, *options, str(text), "-o", str(new)], program, new.parent)
    return added


def apply(lines: Iterable[str], rules: Sequence[Rule]) -> tuple[list[str], list[Rule], list[bool]]:
    """Return the new lines; of each replaced flush its rule and whether a fence was added."""
    by_old = {rule.old: rule for rule in rules}
    every, used, added = list(lines), [], []
    result = []
    for number, line in enumerate(every):
        match = _INSTRUCTION.match(line)
        rule = by_old.get(match["name"]) if match else None
        if match is None or rule is None:
            result.append(line)
            continue
        fence = bool(rule.fence) and _next_instruction(every, number) not in FENCES
        result.append(f"\t{rule.new}{match['rest']}")
        result += [f"\t{rule.fence}"] if fence else []
        used.append(rule)
        added.append(fence)
    return result, used, added


def _next_instruction(lines: Sequence[str], number: int) -> str:
    """Return the instruction after this line's, which is no jump; labels are passed."""
    for line in lines[number + 1 :]:
        if match := _INSTRUCTION.match(line):
            return match["name"]
    return ""


def ddisasm() -> str:
    """Find the program of the package ddisasm (its Python module only starts it)."""
    try:
        import ddisasm as package
    except ImportError as error:
        raise UsageError("rewrite a program", "ddisasm is not installed", _DDISASM) from error
    return str(Path(package.__file__).parent / "ddisasm")
