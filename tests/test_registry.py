"""Engines and workloads are found by their folders."""

from __future__ import annotations

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


@pytest.mark.parametrize(("name", "near"), [("postgre", "postgres"), ("duck_db", "duckdb")])
def test_an_unknown_engine_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{near}'") as caught:
        registry.engine(name)
    assert "duckdb, " in caught.value.hint


def test_an_engine_that_cannot_be_installed_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'mysql'"):
        pinned("mysqll")


def test_an_unknown_workload_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no such workload") as caught:
        registry.workload("tpcz9")
    assert "tpch" in caught.value.hint


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
    with pytest.raises(UsageError, match="/nonexistent is not a folder"):
        registry.engines()
