#!/usr/bin/env python3
"""Find words that readers do not know; exit status 1 where there are any.

scripts/check_words.py [--count] [PATH…]

Text is user-visible in Python and C string literals, in the docstrings of commands (their help),
in templates, in YAML (with its comments), and in Markdown outside code. A few words are no names
or comments of code either. Without PATH, all of the product is searched.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = [*map(str, sorted(ROOT.glob("*.md")))]
PRODUCT += ["harness", "engines", "reports", "loadgen", "microbench", "iotrace", "launch", "native"]
PRODUCT += ["playbooks", "profiles", "inventory", "docs"]
#: Word to its plain alternatives.
WORDS = {
    r"told|tells?|telling": "reports, returns, prints",
    r"(?:is|are|was|were|been|be) asked(?: for)?|asked|asks?(?= (?:the|for|of|what|it))": (
        "requested, queried, required"
    ),
    r"gone on with|go(?:es)? on|went on": "resumes",
    r"behind": "after; name the relation",
    r"beside": "next to, in addition to",
    r"so many|so long|what it takes": "the number of, the duration, the requirement",
    r"nobody(?:'s)?|somebody(?:'s)?": "not controlled, another user's",
    r"anew|once more": "again, from scratch",
    r"stands? under": "is listed under",
    r"less than nothing": "must be >= 0",
    r"is no time": "must be a positive duration",
    r"to judge|judges|judged": "to validate",
    r"wish|wishes|wished": "desired state, request",
    r"hears?|heard": "reads a message",
    r"without further ado": "by default",
    r"holds? still|held still": "controlled",
    r"golden data": "dataset",
}
#: Of these, what is no word of identifiers and comments either.
IN_CODE = re.compile(r"(?<!left )\b(?:told|asked|anew|beside|behind|nobody's|somebody)\b")
CODE = (".py", ".c", ".h", ".java", ".sql")
#: Places where a word has its ordinary meaning: file to texts that contain it.
ALLOWED: dict[str, tuple[str, ...]] = {
    "harness/cli/doctor.py": ("left-behind", "left something behind"),
    "harness/execution/environment.py": ("left-behind", "left something behind"),
    "harness/supervise/credentials.py": ("nobody",),  # the user
    "harness/supervise/user_files.py": ("nobody",),  # the user
}
_WORD = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in WORDS), re.IGNORECASE)
#: Between the parts of a literal.
_JOINT = re.compile(r"""["']\s*[bfr]{,2}["']""", re.IGNORECASE)
_ESCAPED_SPACE = re.compile(r"\\[nrt]")
_C_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:\\.|[^"\\\n])*)"', re.S)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
Text = tuple[int, str]


def python_texts(path: Path, source: str) -> Iterator[Text]:
    """String literals that are no docstrings, and docstrings that are a command's help.

    Only of files that have a word anywhere: few are parsed.
    """
    if not _WORD.search(_ESCAPED_SPACE.sub(" ", _JOINT.sub("", source))):
        return
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            is_help = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
            if body and isinstance(body[0], ast.Expr) and not (is_help and "cli" in path.parts):
                docstrings.add(id(body[0].value))
        elif isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text


def texts(path: Path) -> Iterator[Text]:
    """User-visible texts of a file with the lines on which they begin."""
    source = path.read_text(encoding="utf-8")
    places: list[tuple[int, str]] = []  # offset, text
    match path.suffix:
        case ".py":
            yield from python_texts(path, source)
        case ".c" | ".h":
            places = [(m.start(), m[1]) for m in _C_LITERAL.finditer(source) if m[1]]
        case ".md":
            blank = _CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
            places = [(0, blank)]
        case ".j2" | ".html":
            places = [(0, re.sub(r"\{#.*?#\}", lambda m: "\n" * m[0].count("\n"), source))]
        case ".yml":
            places = [(0, source)]
    for at, text in places:
        yield source.count("\n", 0, at) + 1, text


def offences(path: Path) -> Iterator[tuple[int, str]]:
    """(line, word) of each word that is not allowed in this file."""
    allowed = ALLOWED.get(str(path.relative_to(ROOT)), ())
    if path.suffix in CODE:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not any(each in line for each in allowed):
                yield from ((number, match.group()) for match in IN_CODE.finditer(line))
    for start, text in texts(path):
        for match in _WORD.finditer(text):
            around = text[max(0, match.start() - 60) : match.end() + 60]
            if not any(each in around for each in allowed):
                yield start + text.count("\n", 0, match.start()), match.group()


def files(arguments: list[str]) -> Iterator[Path]:
    """Committed kinds of text below the arguments."""
    for argument in arguments:
        top = (ROOT / argument).resolve()
        yield from [top] if top.is_file() else sorted(each for each in top.rglob("*.*"))


def main() -> int:
    """Print each place, or with ``--count`` the number of them by folder."""
    arguments = [each for each in sys.argv[1:] if each != "--count"]
    folders: Counter[str] = Counter()
    for path in files(arguments or [each for each in PRODUCT if not each.endswith("CHANGELOG.md")]):
        if path.is_file() and "__pycache__" not in path.parts:
            for line, word in offences(path):
                name = path.relative_to(ROOT)
                folders[str(Path(*name.parts[: 2 if len(name.parts) > 2 else 1]))] += 1
                if "--count" not in sys.argv:
                    print(f"{name}:{line}: {word!r}")
    if "--count" in sys.argv:
        for folder, count in sorted(folders.items()):
            print(f"{count:5} {folder}")
    return int(bool(folders))


if __name__ == "__main__":
    sys.exit(main())
