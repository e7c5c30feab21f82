"""docs/adding-an-engine.md: its example runs, and its names are those of the code."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine import Engine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding-an-engine.md").read_text(encoding="utf-8")
SQL = ROOT / "tests/toy_engines/sqlite/sql"


@pytest.fixture
def engines(open_path: Path) -> Path:
    """A folder with the page's engine, which the servers' user can enter."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shutil.copytree(SQL, open_path / "engines/sqlite/sql")
    (open_path / "engines/sqlite/engine.py").write_text(example, encoding="utf-8")
    return open_path / "engines"


def test_the_example_runs(engines: Path) -> None:
    command = "run tpch --engine sqlite --placement ssd-both --scale 0.01 --queries 1,6 --json"
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *command.split()],
        cwd=engines.parent,
        env=os.environ
        | {"HARNESS_DATA": str(engines.parent / "data"), "HARNESS_ENGINE_PATH": str(engines)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["spec"]["engine"] == "sqlite"
    assert {check["status"] for check in run["checks"]} == {"passed"}


def test_the_example_has_the_base_class_s_names_of_parameters(engines: Path) -> None:
    spec = importlib.util.spec_from_file_location("page_engine", engines / "sqlite/engine.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name, method in inspect.getmembers(Engine, inspect.isfunction):
        if not name.startswith("_"):
            wanted = list(inspect.signature(method).parameters)
            assert list(inspect.signature(getattr(module.Sqlite, name)).parameters) == wanted, name


def _named() -> Iterator[tuple[str, str]]:
    """``A`` and ``B`` with the file in parentheses after them, on a line or in a sentence."""
    file_name = r"\(`((?:harness|engines)/[\w/]+\.py)`"
    for names, file in re.findall(r"((?:`\w+`[^`()|]*)+)" + file_name, PAGE):
        yield from ((name, file) for name in re.findall(r"`([A-Z]\w+|[a-z]+_\w+)`", names))


def test_names_are_defined_where_the_page_says() -> None:
    named = list(_named())
    assert {"Engine", "EngineFactory", "ManagedServer"} <= {n for n, _ in named}
    for name, file in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        assert name in defined, f"{name} is not in {file}"


def test_files_that_the_page_names_exist() -> None:
    for file in re.findall(r"`((?:harness|engines|tests)/[\w/.]+)`", PAGE):
        assert (ROOT / file).exists(), file
