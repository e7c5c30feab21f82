#!/usr/bin/env python3
"""Find names that say nothing, and names of two things; exit status 1 where there are any.

scripts/check_names.py [PATH…]

Variables, attributes and functions are named by what they hold or do, and a public class of the
product has its name to itself. Without PATH, all folders are searched.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "engines", "harness", "playbooks", "reports", "scripts", "tests")
#: Use the noun of the thing instead: run, metric, match, rows, paths.
REFUSED = frozenset({"one", "found", "known", "own", "held", "kept"})
#: What may follow a binding of one. Most files have no such place, and are not parsed.
_BINDING = re.compile(rf"\b_*(?:{'|'.join(REFUSED)})\s*(?:[^\w\s.;'\"`]|in\b|if\b)")
#: Folders whose public classes have names of their own.
PRODUCT = ("engines", "harness", "reports")
#: Classes of which each engine has its own, to the base class that says what they have in common.
OF_EVERY_ENGINE = {
    "Cluster": "DataFolders",
    "Installation": "EngineVersion",
    "Loader": "Loader",
    "SessionObserver": "WaitObserver",
}
_CLASS = re.compile(r"^[ \t]*class[ \t]+([^\W_]\w*)", re.MULTILINE)


def refused(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each binding of a refused name: variable, parameter, attribute, function."""
    for node in ast.walk(ast.parse(source if _BINDING.search(source) else "")):
        match node:
            case (
                ast.Name(id=str(name), ctx=ast.Store(), lineno=line)
                | ast.Attribute(attr=str(name), ctx=ast.Store(), lineno=line)
                | ast.FunctionDef(name=str(name), lineno=line)
                | ast.AsyncFunctionDef(name=str(name), lineno=line)
                | ast.arg(arg=str(name), lineno=line)
                | ast.ExceptHandler(name=str(name), lineno=line)
                | ast.MatchAs(name=str(name), lineno=line)
                | ast.MatchStar(name=str(name), lineno=line)
                | ast.MatchMapping(rest=str(name), lineno=line)
            ) if name.lstrip("_") in REFUSED:
                yield line, name


def public_classes(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each public class, without an engine's own class of a common base."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        if OF_EVERY_ENGINE.get(node.name) not in bases:
            yield node.lineno, node.name


def twice(paths: Iterable[Path]) -> Iterator[tuple[Path, int, str, str]]:
    """(path, line, name, first place) of each class whose name another class has."""
    first: dict[str, str] = {}
    sources = [(path, path.read_text(encoding="utf-8")) for path in paths]
    counts = Counter(name for _, source in sources for name in _CLASS.findall(source))
    repeated = {name for name, count in counts.items() if count > 1}
    for path, source in sources:
        if repeated.isdisjoint(_CLASS.findall(source)):
            continue
        for line, name in public_classes(source):
            if name in first:
                yield path, line, name, first[name]
            first.setdefault(name, f"{path}:{line}")


def files(folders: Iterable[str] = FOLDERS) -> Iterator[Path]:
    """Python files of these folders."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def main() -> int:
    """Print each place."""
    status = 0
    paths = [Path(name) for name in sys.argv[1:]]
    for path in paths or files():
        for line, name in refused(path.read_text(encoding="utf-8")):
            print(f"{path}:{line}: name {name!r} by what it holds")
            status = 1
    for path, line, name, first in twice(paths or files(PRODUCT)):
        print(f"{path}:{line}: class {name} is another thing than that of {first}")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
