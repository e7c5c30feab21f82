"""Modules sent to a host need nothing there but a Python of RHEL 9 (3.9) and its library."""

import ast
import sys
from collections.abc import Iterator

import pytest

from harness.paths import data_folder

PLAYBOOKS = data_folder("playbooks")

PACKAGE = PLAYBOOKS / "module_utils" / "tierbench"
LINUX = PLAYBOOKS.parent / "harness" / "tiers" / "linux"
#: linux.py alone names packages: it is how a module finds the harness's code.
FILES = [path for path in (*PACKAGE.glob("*.py"), *LINUX.glob("*.py")) if path.name != "linux.py"]


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(level, module) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_is_python_3_9_of_the_standard_library(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    for level, module in imported(tree):
        if level == 0:
            assert module.split(".")[0] in sys.stdlib_module_names, module
        else:
            target = path.parents[level - 1] / module.replace(".", "/")
            assert target.is_dir() or target.with_suffix(".py").is_file(), module
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "zip":
            assert not call.keywords, "zip(strict=) is of 3.10"
