"""Engines and workloads are found by their folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UsageError
from harness.install.pins import pinned
from harness.store.spec import DEFAULT_MONITORS


def test_the_folders_are_the_list() -> None:
    assert {"duckdb", "postgres"} <= set(registry.engines())
    assert "tpch" in registry.workloads()
    assert registry.engine("duckdb").title == "DuckDB"


@pytest.mark.parametrize(
    ("find", "name", "near"),
    [
        (registry.engine, "postgre", "postgres"),
        (registry.engine, "duck_db", "duckdb"),
        (registry.workload, "tpch2", "tpch"),
        (pinned, "mysqll", "mysql"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    find: Callable[[str], object], name: str, near: str
) -> None:
    with pytest.raises(UsageError) as refused:
        find(name)
    assert repr(near) in refused.value.context
    assert near in refused.value.hint.split(": ")[1].split(", ")


@pytest.mark.parametrize("workload", ["tpcc", "tpch"])
def test_an_unknown_engine_of_a_workload_names_those_that_it_runs_on(workload: str) -> None:
    with pytest.raises(UsageError) as refused:
        registry.engine("oracle", workload)
    assert "postgres" in refused.value.hint
    assert ("duckdb" in refused.value.hint) == (workload == "tpch")


def test_the_store_knows_the_default_monitors() -> None:
    assert {name for name, one in registry.monitors().items() if one.default} == DEFAULT_MONITORS


def test_a_broken_engine_is_named_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wreck").mkdir()
    (tmp_path / "wreck" / "engine.py").write_text("import no_such_module\n")
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "engine.py").write_text("raise SystemExit\n")
    monkeypatch.setenv("HARNESS_ENGINE_PATH", str(tmp_path))
    found = registry.engines()
    warning = capsys.readouterr().err
    assert warning.startswith("warning: entry-unreadable: ")
    assert "wreck is left out" in warning and "no_such_module" in warning
    assert "postgres" in found and "wreck" not in found


def test_a_path_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ENGINE_PATH", "/nonexistent")
    with pytest.raises(UsageError) as refused:
        registry.engines()
    assert refused.value.problem == "HARNESS_ENGINE_PATH=/nonexistent"
