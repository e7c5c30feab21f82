"""Write the table of parameters into each workload's docs page; with --check, compare only."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness import registry
from harness.cli.options import option_text
from harness.workloads.parameters import Parameters

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(?<=<!-- parameters -->\n).*?(?=<!-- end of parameters -->)", re.DOTALL)


def table(parameters: type[Parameters]) -> str:
    """The parameters with an option first, as Markdown."""
    rows = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    for one in sorted(parameters.declared().values(), key=lambda one: not one.option):
        name = f"`{one.option}`" if one.option else f"`-p {one.name}=`"
        if one.option and one.option != option_text(one.name):
            name += f" (`{one.name}`)"
        rows.append(f"| {name} | {one.default_text} | {one.kind.values} | {one.help} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """1 if --check finds a page that differs."""
    different = []
    for workload, parameters in registry.all_parameters().items():
        page = DOCS / f"{workload}.md"
        text = page.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda _, of=parameters: table(of), text)
        if new == text:
            continue
        different.append(page.name)
        if "--check" not in sys.argv:
            page.write_text(new, encoding="utf-8")
    print(*different, sep="\n")
    return int(bool(different) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
