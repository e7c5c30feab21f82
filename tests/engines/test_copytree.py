"""Full copies of directory trees."""

import os
import tempfile
from pathlib import Path

import pytest

from harness.copytree import copy_tree, move_tree
from harness.engine import Credentials
from harness.errors import RunFailed
from harness.supervise.user_files import regular_bytes

USER = Credentials(65534, 65534, "nobody")


@pytest.fixture
def tree(tmp_path):
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


def test_bytes_modes_times_and_inner_links_are_kept(tree, tmp_path):
    target = tmp_path / "copy"
    assert copy_tree(tree, target) == 9_000_001 == regular_bytes(target, None)
    for original in tree.rglob("*"):
        copied = target / original.relative_to(tree)
        was, now = original.lstat(), copied.lstat()
        assert was.st_mode == now.st_mode
        if original.is_file():
            assert original.read_bytes() == copied.read_bytes()
    assert (target / "a" / "link").readlink() == Path("../large")
    assert (target / "a" / "small").stat().st_mtime_ns == 2_000_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_copy_belongs_to_who_writes_it_and_what_is_moved_to_us(tree, open_path):
    theirs, ours = open_path / "theirs", open_path / "ours"
    theirs.mkdir()
    os.chown(theirs, USER.uid, USER.gid)
    copy_tree(tree, theirs / "copy", writer=USER)
    assert {path.lstat().st_uid for path in theirs.rglob("*")} == {USER.uid}
    move_tree(theirs / "copy", ours, USER)
    assert {path.lstat().st_uid for path in [ours, *ours.rglob("*")]} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_users_tree_that_becomes_ours_gives_no_rights(tree, tmp_path, open_path):
    theirs = open_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, USER.uid, USER.gid)
    copy_tree(tree, theirs / "copy", writer=USER)
    (theirs / "copy" / "large").chmod(0o4777)
    (theirs / "copy" / "a").chmod(0o2777)
    copy_tree(theirs / "copy", tmp_path / "ours", reader=USER)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "ours").rglob("*")}
    assert (modes["large"], modes["a"]) == (0o755, 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_link_in_place_of_what_is_moved_is_not_kept(tree, open_path):
    (open_path / "link").symlink_to(tree)
    with pytest.raises(RunFailed):
        move_tree(open_path / "link", open_path / "kept", USER)
    assert tree.stat().st_uid == 0


def test_nothing_is_shared_with_the_original(tree, tmp_path):
    copy_tree(tree, tmp_path / "copy")
    (tmp_path / "copy" / "large").write_bytes(b"other")
    assert (tree / "large").stat().st_size == 9_000_000


@pytest.mark.parametrize("to", ["/etc/passwd", "../../outside"])
def test_a_link_that_leads_outside_is_refused(tree, tmp_path, to):
    (tree / "a" / "out").symlink_to(to)
    with pytest.raises(RunFailed) as refused:
        copy_tree(tree, tmp_path / "copy")
    assert refused.value.context.startswith(str(tree / "a" / "out"))
    assert refused.value.context.endswith(f" {to}")
    assert not (tmp_path / "copy").exists()


def test_a_socket_is_refused(tree, tmp_path):
    os.mkfifo(tree / "pipe")
    with pytest.raises(RunFailed, match=f"{tree / 'pipe'} is not"):
        copy_tree(tree, tmp_path / "copy")


def test_a_target_that_holds_something_is_refused(tree, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "precious").write_text("x")
    with pytest.raises(RunFailed, match="File exists"):
        copy_tree(tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "precious").read_text() == "x"


def test_a_missing_source_is_an_error(tmp_path):
    with pytest.raises(RunFailed, match="No such file"):
        copy_tree(tmp_path / "none", tmp_path / "copy")


def test_a_move_to_another_file_system_is_a_full_copy(tree):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        target = Path(elsewhere) / "moved"
        assert Path(elsewhere).stat().st_dev != tree.stat().st_dev
        move_tree(tree, target)
        assert regular_bytes(target, None) == 9_000_001
        assert (target / "a" / "link").readlink() == Path("../large")
