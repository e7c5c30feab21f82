"""The client built by the real Maven: found again without it, built anew where it changed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from narrowed import present

from harness import paths
from harness.drivers.ycsb.build import _folder, built, check_buildable, find_java
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress


@pytest.fixture
def changed(client, tmp_path):
    """The same binding with other sources."""
    project = tmp_path / "rocksdb" / "ycsb"
    shutil.copytree(client.binding.project, project)
    return replace(client.binding, project=project)


def only(monkeypatch: pytest.MonkeyPatch, folder: Path, *commands: str) -> None:
    """A PATH with these commands alone."""
    folder.mkdir()
    for name in commands:
        (folder / name).symlink_to(present(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))


def test_a_build_is_used_again_without_maven(client, monkeypatch, tmp_path):
    only(monkeypatch, tmp_path / "bin", "java")
    check_buildable(client.binding)
    assert built(client.binding, SilentProgress()) == client
    assert find_java().banner
    names = {path.name for path in client.folder.iterdir()}
    assert {"core-0.17.0.jar", "client-1.jar", "rocksdb-1.jar", "HdrHistogram-2.1.4.jar"} <= names
    # RocksDB's classes and library are the engine's own.
    assert not any("rocksdbjni" in name for name in names)


def test_changed_sources_are_built_anew(changed, client, monkeypatch, tmp_path):
    check_buildable(changed)
    assert built(changed, SilentProgress()) == replace(client, binding=changed)
    source = next(changed.project.rglob("Opened.java"))
    source.write_text(source.read_text() + "// more\n")
    only(monkeypatch, tmp_path / "bin", "java")
    with pytest.raises(UsageError, match="no javac") as failure:
        check_buildable(changed)
    assert "maven" in failure.value.hint


def test_a_build_that_fails_says_why_and_leaves_nothing(changed):
    source = next(changed.project.rglob("Opened.java"))
    source.write_text(source.read_text().replace("final class Opened", "final klass Opened"))
    with pytest.raises(RunFailed, match="ERROR"):
        built(changed, SilentProgress())
    assert not list(paths.engines_prefix().glob(f"*{_folder(changed).name}*"))
