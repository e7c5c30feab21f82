"""Engines and workloads are found by their folders; what the code names is documented."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from harness import registry
from harness.store.spec import DEFAULT_MONITORS
from harness.warnings import RunWarning, unique


def test_the_store_knows_the_default_monitors() -> None:
    assert {
        name for name, monitor in registry.monitors().items() if monitor.default
    } == DEFAULT_MONITORS


def test_a_broken_engine_is_named_and_the_others_stay(tmp_path, monkeypatch, capsys):
    (tmp_path / "wreck").mkdir()
    (tmp_path / "wreck" / "engine.py").write_text("import no_such_module\n")
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "engine.py").write_text("raise SystemExit\n")
    monkeypatch.setenv("HARNESS_ENGINE_PATH", str(tmp_path))
    engines = registry.engines()
    warning = capsys.readouterr().err
    assert warning.startswith("warning: entry-unreadable: ")
    assert "wreck is left" in warning and "no_such_module" in warning
    assert "postgres" in engines and "wreck" not in engines


# Nothing outside ``engines/`` lists engines ---------------------------------------


ROOT = Path(__file__).parents[1]
#: Names of something else than an engine: TPC-H's reference answers are computed with DuckDB's
#: library, HammerDB and sysbench have words of their own for databases, and the self-test's runs
#: are, as a user's, of some engine.
_OTHERS = {
    # Each server writes a log of its own.
    "harness/capture/capture.py": {"mariadb", "mysql", "postgres"},
    "harness/capture/classes.py": {"mysql", "postgres"},
    "harness/capture/mysql_log.py": {"mariadb", "mysql"},
    "harness/capture/mysql_server.py": {"mariadb", "mysql"},
    "harness/capture/postgres_sample.py": {"postgres"},
    "harness/capture/postgres_server.py": {"postgres"},
    "harness/capture/recording.py": {"mysql"},
    "harness/capture/replay_file.py": {"mysql", "postgres"},
    "harness/capture/server.py": {"mysql"},
    "harness/drivers/replay/wires.py": {"mysql", "postgres"},
    "harness/workloads/sql/replay.py": {"mariadb", "mysql", "postgres"},
    "harness/execution/run.py": {"duckdb"},
    "harness/workloads/sql/public/__init__.py": {"duckdb"},
    "harness/workloads/sql/public/generate.py": {"duckdb", "mysql", "postgres"},
    "harness/workloads/tpch/reference.py": {"duckdb"},
    "harness/workloads/tpch/source_database.py": {"duckdb"},
    "harness/drivers/hammerdb/script.py": {"mysql"},
    "harness/drivers/sysbench.py": {"mysql"},
    "harness/selftest/faults.py": {"duckdb", "postgres"},
    # Artifacts of engines: what of each identifies a host.
    "harness/publication/pseudonyms.py": {
        "duckdb",
        "mariadb",
        "mysql",
        "postgres",
        "rocksdb",
        "spark",
    },
    "harness/selftest/lab.py": {"rocksdb"},
    "harness/cli/common.py": {"postgres"},
    "harness/cli/curve.py": {"postgres"},
    "harness/cli/results.py": {"postgres"},
    "harness/cli/workload.py": {"duckdb", "mariadb", "mysql", "postgres"},
    "reports/published.py": {"mysql", "postgres"},
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
    names = {
        (str(file.relative_to(ROOT)), match)
        for package in ("harness", "reports")
        for file in (ROOT / package).rglob("*.py")
        if name.search(source := file.read_text("utf-8"))
        for text in texts(source)
        for match in name.findall(text)
    }
    others = {(file, name) for file, names in _OTHERS.items() for name in names}
    assert names == others


# Codes of warnings ----------------------------------------------------------------


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
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", code) for code in used)


def test_warnings_of_one_code_and_problem_are_one():
    first, last = (RunWarning("other-load", "other programs run", f"load {n}") for n in (1, 2))
    other = RunWarning("damon-active", "DAMON kdamond 0", "on")
    assert unique([first, other, last]) == [last, other]
