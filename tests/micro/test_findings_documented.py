"""Every finding that a run may tell has its line in docs/micro.md, by the name that it has."""

from __future__ import annotations

import re
from pathlib import Path

import harness

FOLDER = Path(harness.__file__).parent
DOCUMENTED = (FOLDER.parent / "docs" / "micro.md").read_text("utf-8")


def found_in(*files: Path) -> set[str]:
    """Names of findings as they stand in the code, without what is put into them."""
    source = "".join(file.read_text("utf-8") for file in files)
    return {re.sub(r" ?\{.*", "", name) for name in re.findall(r'\bwhat=f?"([^"]+)"', source)}


def test_each_of_the_microbenchmarks_has_a_row():
    names = found_in(*(FOLDER / "micro").glob("*.py"))
    rows = re.findall(r"^\| ([^|*]+?) (?:\*|\|)", DOCUMENTED, re.MULTILINE)
    assert {"range", "cached range", "persistence"} <= names
    assert names <= set(rows)


def test_each_of_the_host_is_named():
    names = found_in(FOLDER / "host" / "confounders.py")
    assert {"turbo", "tier"} <= names
    assert [name for name in sorted(names) if f"*{name}*" not in DOCUMENTED] == []
