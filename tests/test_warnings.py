"""Every warning's code has a row in docs/warnings.md, and every row a warning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from harness.warnings import RunWarning, unique

ROOT = Path(__file__).parents[1]


def codes(source: str) -> Iterator[str]:
    """First argument, or ``code``, of each ``RunWarning(…)``, a literal; and keys of _WARNINGS."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_WARNINGS":
            yield from ast.literal_eval(ast.Tuple(getattr(node.value, "keys", [])))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RunWarning":
            named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            (code, *_) = [*named, *node.args]
            if isinstance(code, ast.Constant):
                yield str(code.value)
            else:
                assert "_WARNINGS[code]" in ast.unparse(node)


def test_the_table_lists_the_codes_in_the_code():
    used = {
        code
        for package in ("harness", "engines", "reports")
        for file in (ROOT / package).rglob("*.py")
        if "RunWarning" in (source := file.read_text("utf-8"))
        for code in codes(source)
    }
    documented = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/warnings.md").read_text(), re.M)
    assert sorted(documented) == sorted(used)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in used)


def test_warnings_of_one_code_and_problem_are_one():
    first, last = (RunWarning("other-load", "other programs run", f"load {n}") for n in (1, 2))
    other = RunWarning("damon-active", "DAMON kdamond 0", "on")
    assert unique([first, other, last]) == [last, other]
