"""E9Patch (https://github.com/GJDuck/e9patch), which the paper uses: for what does not assemble.

The old instruction becomes a jump to code that is added to the file. objdump does not read that
code: that it is there for each flush is known from E9Patch's report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.rules import Rule
from harness.rewrite.tools import Instruction, flushes_and_fences, is_library, refused, run
from harness.supervise.credentials import unprivileged
from harness.supervise.user_files import write_text

VARIABLE = "E9PATCH_HOME"
_PATCHED = re.compile(r"^num_patched\s+= (\d+) / (\d+)", re.MULTILINE)
#: As E9Patch's compiler of patches links them.
_LINK = ("-pie", "-nostdlib", "-Wl,-z,norelro,--export-dynamic,--entry=0,-z,max-page-size=4096")


def is_there() -> bool:
    """Return whether the user names an installation."""
    return VARIABLE in os.environ


def change(program: Path, new: Path, flushes: Sequence[tuple[Instruction, Rule]]) -> list[bool]:
    """Write ``new``; of each flush, whether a fence was added."""
    home, folder = Path(os.environ[VARIABLE]).absolute(), new.parent
    if not os.access(home / "e9tool", os.X_OK):
        raise UsageError(f"{VARIABLE}={home}", "there is no e9tool in it", "build E9Patch there")
    added = [bool(rule.fence) and not flush.before_fence for flush, rule in flushes]
    names = [
        f"{rule.new}_{rule.fence}" if fence else rule.new
        for (_, rule), fence in zip(flushes, added, strict=True)
    ]
    source, patch = folder / "patch.s", folder / "patch"
    user = unprivileged()
    write_text(source, "".join(map(_function, sorted(set(names)))), user)
    run(["gcc", *_LINK, str(source), "-o", str(patch)], program, folder)
    table = "".join(
        f'0x{flush.address},"{name}"\n' for (flush, _), name in zip(flushes, names, strict=True)
    )
    write_text(folder / "sites.csv", table, user)
    command = [str(home / "e9tool"), "--backend", str(home / "e9patch"), "--static-loader"]
    command += ["--shared" if is_library(program) else "--executable", "-o", str(new)]
    for name in sorted(set(names)):
        command += ["-M", f'sites[1] == "{name}"', "-P", f"replace {name}<naked>(&mem[0])@patch"]
    said = run([*command, str(program.absolute())], program, folder)
    counted = _PATCHED.search(said)
    if not counted or set(counted.groups()) != {str(len(flushes))}:
        patched = counted[0] if counted else "no num_patched in its report"
        raise refused(program, f"e9tool: {patched}; expected {len(flushes)}", "rewrite the source")
    left = {instruction.address for instruction in flushes_and_fences(new)} & {
        instruction.address for instruction, _ in flushes
    }
    if left:
        raise refused(program, f"after e9tool a flush is left at {min(left)}", "rewrite the source")
    return added


def _function(name: str) -> str:
    """Assembly of the flush at its argument's address, and of the fence; no register changes."""
    flush, _, fence = name.partition("_")
    return f".globl {name}\n.type {name}, @function\n{name}:\n {flush} (%rdi)\n {fence}\n ret\n"
