#!/usr/bin/env python3
"""Find variables whose names say nothing of what they hold; exit status 1 where there are any.

scripts/check_names.py [PATH…]

Without PATH, all folders are searched whose variables are named by what they hold.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders without such names so far.
FOLDERS = ("benchmarks", "engines", "harness", "playbooks", "reports", "scripts", "tests")
#: Use the noun of the thing instead: run, metric, match, rows, paths.
REFUSED = frozenset({"one", "found", "known", "own", "held", "kept"})


def refused(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each binding of a refused name: variable, parameter, field of a class."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(id=str(name), ctx=ast.Store(), lineno=line)
                | ast.arg(arg=str(name), lineno=line)
                | ast.ExceptHandler(name=str(name), lineno=line)
                | ast.MatchAs(name=str(name), lineno=line)
                | ast.MatchStar(name=str(name), lineno=line)
                | ast.MatchMapping(rest=str(name), lineno=line)
            ) if name in REFUSED:
                yield line, name


def files() -> Iterator[Path]:
    """Python files of the finished folders."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def main() -> int:
    """Print each place."""
    status = 0
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else files():
        for line, name in refused(path.read_text(encoding="utf-8")):
            print(f"{path}:{line}: name {name!r} by what it holds")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
