"""Write the table of parameters into each workload's docs page; with --check, compare only."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.cli.options import known_parameters
from harness.micro.keys import KEYS, KINDS, MicroParams
from harness.workloads.parameters import Parameters

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(?<=<!-- parameters -->\n).*?(?=<!-- end of parameters -->)", re.DOTALL)


def table(parameters: type[Parameters]) -> str:
    """The parameters with an option first, as Markdown."""
    rows = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    for parameter in sorted(
        parameters.declared().values(), key=lambda parameter: not parameter.option
    ):
        name = f"`{parameter.option}`" if parameter.option else f"`-p {parameter.name}=`"
        rows.append(
            f"| {name} | {parameter.default_text} | {parameter.kind.values} | {parameter.help} |"
        )
    return "\n".join(rows) + "\n"


def micro_table() -> str:
    """The keys of a suite's job, as Markdown."""
    rows = ["| key | jobs (*required*) | values | meaning |", "|---|---|---|---|"]
    for name, key in KEYS.items():
        jobs = (f"*{kind}*" if kind in key.required else kind for kind in key.kinds)
        text = (
            "*all*" if key.required == KINDS else "all" if key.kinds == KINDS else ", ".join(jobs)
        )
        rows.append(f"| `{name}` | {text} | {key.values} | {key.help} |")
    return "\n".join(rows) + "\n"


def _next_of(tables: Iterator[str], _: re.Match[str]) -> str:
    return next(tables)


def main() -> int:
    """1 if --check finds a page that differs."""
    different = []
    for workload, declared in known_parameters().items():
        page = DOCS / f"{workload}.md"
        text = page.read_text(encoding="utf-8")
        tables = iter([table(declared), *([micro_table()] if declared is MicroParams else [])])
        new = BLOCK.sub(partial(_next_of, tables), text)
        if new == text:
            continue
        different.append(page.name)
        if "--check" not in sys.argv:
            page.write_text(new, encoding="utf-8")
    print(*different, sep="\n")
    return int(bool(different) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
