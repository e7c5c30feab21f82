#!/usr/bin/env python3
"""Count lines of code in committed Python and C files: no blanks, comments, docstrings or data.

scripts/count_code.py [REVISION]
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter

_IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_C_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)


def python_lines(source: str) -> int:
    """Lines that hold a token other than a comment or a docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _IGNORED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def c_lines(source: str) -> int:
    """Lines that are not blank once comments are removed."""

    def without_comment(match: re.Match[str]) -> str:
        text = match.group(0)
        return text if text.startswith('"') else "\n" * text.count("\n")

    return sum(bool(line.strip()) for line in _C_COMMENT.sub(without_comment, source).splitlines())


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print the counts of a revision."""
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    counts: Counter[str] = Counter()
    for entry in git("ls-tree", "-r", revision).splitlines():
        facts, path = entry.split("\t")
        if facts.startswith("120000") or not path.endswith((".py", ".c", ".h")):
            continue
        top, _, rest = path.partition("/")
        test = top == "tests" or rest.startswith("tests/")
        kind = "tests" if test else "tools" if top in ("scripts", "benchmarks") else "product"
        language = "Python" if path.endswith(".py") else "C"
        source = git("show", f"{revision}:{path}")
        counts[f"{kind} {language}"] += (python_lines if language == "Python" else c_lines)(source)
    for name, lines in sorted(counts.items()):
        print(f"{name:16} {lines:7,}")


if __name__ == "__main__":
    main()
