"""Nothing outside ``engines/`` lists engines: each states in its own folder what it offers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from harness import registry

ROOT = Path(__file__).parents[1]
#: Names of something else than an engine: TPC-H's reference answers are computed with DuckDB's
#: library, HammerDB and sysbench have words of their own for databases, and the self-test's runs
#: are, as a user's, of some engine.
_OTHERS = {
    "harness/execution/run.py": {"duckdb"},
    "harness/workloads/tpch/reference.py": {"duckdb"},
    "harness/workloads/tpch/source_database.py": {"duckdb"},
    "harness/drivers/hammerdb/script.py": {"mysql"},
    "harness/drivers/sysbench.py": {"mysql"},
    "harness/selftest/faults.py": {"duckdb", "postgres"},
    "harness/selftest/lab.py": {"rocksdb"},
    "harness/cli/common.py": {"postgres"},
    "harness/cli/results.py": {"postgres"},
    "harness/cli/workload.py": {"duckdb"},
    "reports/select.py": {"postgres"},
}


def texts(source: str) -> Iterator[str]:
    """String constants that are no docstrings."""
    tree = ast.parse(source)
    parents = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, parents) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in documents:
            yield text


def test_no_text_of_the_harness_names_an_engine():
    name = re.compile(rf"\b({'|'.join(registry.engine_names())})\b")
    found = {
        (str(file.relative_to(ROOT)), match)
        for package in ("harness", "reports")
        for file in (ROOT / package).rglob("*.py")
        if name.search(source := file.read_text("utf-8"))
        for text in texts(source)
        for match in name.findall(text)
    }
    others = {(file, name) for file, names in _OTHERS.items() for name in names}
    assert found == others
