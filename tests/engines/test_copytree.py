"""Full copies of directory trees."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from harness.copytree import copy_tree, move_tree, tree_bytes
from harness.errors import RunFailed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a" / "empty").mkdir(parents=True)
    (root / "large").write_bytes(os.urandom(9_000_000))
    (root / "a" / "none").touch()
    (root / "a" / "small").write_text("x")
    (root / "a" / "link").symlink_to("../large")
    (root / "a" / "small").chmod(0o640)
    (root / "a").chmod(0o750)
    os.utime(root / "a" / "small", ns=(1, 2_000_000_000))
    return root


def test_bytes_modes_times_owners_and_inner_links_are_kept(tree: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tree / "a" / "small", 65534, 65534)
    target = tmp_path / "copy"
    assert copy_tree(tree, target) == 9_000_001 == tree_bytes(target)
    for original in tree.rglob("*"):
        copied = target / original.relative_to(tree)
        was, now = original.lstat(), copied.lstat()
        assert (was.st_mode, was.st_uid, was.st_gid) == (now.st_mode, now.st_uid, now.st_gid)
        if original.is_file():
            assert original.read_bytes() == copied.read_bytes()
    assert (target / "a" / "link").readlink() == Path("../large")
    assert (target / "a" / "small").stat().st_mtime_ns == 2_000_000_000


def test_nothing_is_shared_with_the_original(tree: Path, tmp_path: Path) -> None:
    copy_tree(tree, tmp_path / "copy")
    (tmp_path / "copy" / "large").write_bytes(b"other")
    assert (tree / "large").stat().st_size == 9_000_000


@pytest.mark.parametrize("to", ["/etc/passwd", "../../outside"])
def test_a_link_that_leads_outside_is_refused(tree: Path, tmp_path: Path, to: str) -> None:
    (tree / "a" / "out").symlink_to(to)
    with pytest.raises(RunFailed, match="a link out of it"):
        copy_tree(tree, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_socket_is_refused(tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(RunFailed, match="not a file, folder or link"):
        copy_tree(tree, tmp_path / "copy")


def test_a_target_that_holds_something_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "precious").write_text("x")
    with pytest.raises(RunFailed, match="File exists"):
        copy_tree(tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "precious").read_text() == "x"


def test_missing_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="No such file"):
        copy_tree(tmp_path / "none", tmp_path / "copy")


def test_a_move_to_another_file_system_is_a_full_copy(tree: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        target = Path(elsewhere) / "moved"
        assert Path(elsewhere).stat().st_dev != tree.stat().st_dev
        move_tree(tree, target)
        assert tree_bytes(target) == 9_000_001
        assert (target / "a" / "link").readlink() == Path("../large")


def test_a_move_within_a_file_system_is_a_rename(tree: Path, tmp_path: Path) -> None:
    before = (tree / "large").stat().st_ino
    move_tree(tree, tmp_path / "moved")
    assert (tmp_path / "moved" / "large").stat().st_ino == before
    assert not tree.exists()
