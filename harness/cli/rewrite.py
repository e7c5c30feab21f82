"""``harness rewrite``: other flush instructions in a program, without its source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.common import JsonOption, print_json
from harness.errors import UsageError
from harness.rewrite import rewrite as rewrite_program
from harness.rewrite.rules import RULES, read_rule
from harness.terminal import print_table, say

_FENCES = {"added": "{0} added", "follows": "one follows", "none": ""}


def rewrite(
    program: Annotated[Path, typer.Argument(help="A program or shared library of x86-64.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new file.")],
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="FLUSH", help="The flush to replace [clflush, clflushopt]."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FLUSH", help="clwb+sfence, clwb … [clwb+sfence, clwb]."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Replace flush instructions in a program or library."""
    if (from_ is None) != (to is None):
        raise UsageError("--from and --to", "one of them is given", "give both, or neither")
    if not program.is_file():
        raise UsageError(f"rewrite {program}", "no such file", "name a program")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}", "no such folder", "make it first")
    if output.exists() and output.samefile(program):
        raise UsageError(f"--output {output}", "it is the program itself", "name another file")
    rules = RULES if from_ is None or to is None else (read_rule(from_, to),)
    done = rewrite_program(program, output, rules)
    if json_:
        print_json({"program": str(program), "output": str(output), **asdict(done)})
        return
    fence_of = {rule.old: rule.fence for rule in rules}
    print_table(
        ("function", "address", "replaced", "by", "fence"),
        [
            (
                site.function,
                site.address,
                site.old,
                site.new,
                _FENCES[site.fence].format(fence_of[site.old]),
            )
            for site in done.sites
        ],
    )
    say(f"{output}: {len(done.sites)} flushes replaced ({done.way})")
