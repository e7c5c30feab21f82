"""Engines and workloads are found by their folders."""

from __future__ import annotations

from harness import registry
from harness.store.spec import DEFAULT_MONITORS


def test_the_folders_are_the_list() -> None:
    assert {"duckdb", "postgres"} <= set(registry.engines())
    assert "tpch" in registry.workloads()
    assert registry.engine("duckdb").title == "DuckDB"


def test_the_store_knows_the_default_monitors() -> None:
    assert {name for name, one in registry.monitors().items() if one.default} == DEFAULT_MONITORS


def test_a_broken_engine_is_named_and_the_others_stay(tmp_path, monkeypatch, capsys):
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
