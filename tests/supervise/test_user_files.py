"""Root among files of a user who may exchange any of them at any moment."""

import errno
import os
import socket
import stat
import threading
from pathlib import Path

import pytest
from posix_acl import write_acl

from harness.engine import Credentials
from harness.supervise import linux
from harness.supervise.own_files import refuse_writable
from harness.supervise.user_files import (
    acting_as,
    hold_socket,
    make_directory,
    open_regular,
    read_text,
    regular_bytes,
    remove_tree,
    take_over,
    write_text,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
USER = Credentials(65534, 65534, "nobody")


@pytest.fixture
def theirs(open_path):
    """A directory of the user."""
    folder = open_path / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, USER.uid, USER.gid)
    return folder


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text("root's own")
    file.chmod(0o600)
    return file


def owner(path):
    facts = path.lstat()
    return facts.st_uid, stat.S_IMODE(facts.st_mode)


@needs_root
def test_what_is_made_as_a_user_is_the_users(theirs):
    make_directory(theirs / "made", USER)
    write_text(theirs / "made" / "file", "text", USER)
    assert owner(theirs / "made") == (USER.uid, 0o700)
    assert owner(theirs / "made" / "file") == (USER.uid, 0o600)
    assert read_text(theirs / "made" / "file", USER) == "text"


@needs_root
def test_the_users_rights_hold_in_one_thread_and_end_with_the_block(theirs, secret):
    begin, end = threading.Event(), threading.Event()
    read = []

    def read_meanwhile():
        begin.wait()
        read.append(secret.read_text())
        end.set()

    other = threading.Thread(target=read_meanwhile)
    other.start()
    before = linux.filesystem_identity()
    with acting_as(USER):
        with pytest.raises(PermissionError):
            secret.read_text()
        begin.set()
        end.wait()
    other.join()
    assert read == ["root's own"]
    assert linux.filesystem_identity() == before


@needs_root
def test_a_link_leads_nowhere(theirs, secret):
    (theirs / "log").symlink_to(secret)
    (theirs / "folder").symlink_to(secret.parent)
    for path in (theirs / "log", theirs / "folder" / "secret"):
        with pytest.raises(OSError):
            read_text(path, USER)
        with pytest.raises(OSError):
            write_text(path, "", USER)
    assert secret.read_text() == "root's own"
    assert owner(secret) == (0, 0o600)


@needs_root
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_a_fifo_is_not_waited_for(theirs, flags):
    os.mkfifo(theirs / "fifo")
    with pytest.raises(OSError):
        open_regular(theirs / "fifo", flags)


@needs_root
def test_a_file_that_is_in_use_is_not_emptied_before_it_is_known_to_be_one(theirs):
    os.mkfifo(theirs / "fifo")
    descriptor = os.open(theirs / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="regular file") as refused:
        write_text(theirs / "fifo", "password", None)
    assert refused.value.errno == errno.EINVAL
    assert os.read(descriptor, 100) == b""
    os.close(descriptor)


@needs_root
def test_sizes_are_those_of_files_and_not_of_what_links_lead_to(theirs, secret):
    (theirs / "ten").write_bytes(bytes(10))
    (theirs / "link").symlink_to(secret)
    (theirs / "folder").symlink_to(secret.parent)
    os.mkfifo(theirs / "fifo")
    assert regular_bytes(theirs, None) == 10


@needs_root
def test_a_tree_is_removed_however_deep_and_nothing_that_it_links_to(theirs, secret):
    (theirs / "link").symlink_to(secret.parent)
    os.mkfifo(theirs / "fifo")
    (theirs / "folder").mkdir()
    (theirs / "folder" / "file").write_text("")
    with pytest.raises(OSError):
        remove_tree(theirs / "link")
    here = os.open(theirs, os.O_RDONLY)
    for _ in range(500):  # too deep to be named
        os.mkdir("d" * 10, dir_fd=here)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(theirs)
    assert not theirs.exists()
    assert secret.read_text() == "root's own"


@needs_root
def test_a_tree_taken_over_cannot_be_changed_by_who_made_it(tmp_path):
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    file = tree / "folder" / "program"
    file.write_text("x")
    (tree / "link").symlink_to("folder/program")
    for path in (tree, tree / "folder", file, tree / "link"):
        os.lchown(path, USER.uid, USER.gid)
    file.chmod(0o4777)
    (tree / "folder").chmod(0o777)
    write_acl(tree / "folder", "user", 65533, "rwx", default=True)
    take_over(tree, USER)
    assert os.listxattr(tree / "folder") == []
    assert owner(tree / "folder") == (0, 0o755)
    assert owner(file) == (0, 0o755)
    assert (tree / "link").lstat().st_uid == 0
    with acting_as(USER), pytest.raises(PermissionError):
        (tree / "folder" / "new").touch()


@needs_root
@pytest.mark.parametrize("special", ["fifo", "a third user's", "a hard link to root's"])
def test_what_cannot_be_taken_over_is_refused(tmp_path, special):
    tree = tmp_path / "tree"
    tree.mkdir()
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.chmod(0o640)
    if special == "fifo":
        os.mkfifo(tree / "fifo")
    elif special == "a hard link to root's":
        (tree / "link").hardlink_to(secret)
    else:
        (tree / "file").touch()
        os.chown(tree / "file", 1, 1)
    for path in (tree, tree / "fifo"):
        if path.exists():
            os.chown(path, USER.uid, USER.gid)
    with pytest.raises(OSError):
        take_over(tree, USER)
    assert owner(secret) == (0, 0o640)


@needs_root
@pytest.mark.parametrize("who", ["owner", "mode", "link", "above"])
def test_a_directory_that_another_user_can_write_is_refused(theirs, tmp_path, who):
    refuse_writable(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    if who == "owner":
        os.chown(folder, USER.uid, USER.gid)
    elif who == "mode":
        folder.chmod(0o777)
    elif who == "link":
        (tmp_path / "link").symlink_to(folder)
        folder = tmp_path / "link"
    else:
        folder = theirs / "folder"
        folder.mkdir()
    with pytest.raises(OSError):
        refuse_writable(Path(folder))


def listening(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


@needs_root
def test_a_held_socket_stays_itself_when_a_link_takes_its_place(theirs, tmp_path):
    with listening(theirs / "socket") as server, listening(tmp_path / "roots"):
        os.chown(theirs / "socket", USER.uid, USER.gid)
        listener = hold_socket(theirs / "socket", USER)
        (theirs / "socket").unlink()
        (theirs / "socket").symlink_to(tmp_path / "roots")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/{os.getpid()}/fd/{listener}")
            server.settimeout(0)
            server.accept()[0].close()
        os.close(listener)
        with pytest.raises(OSError, match="not a socket"):
            hold_socket(theirs / "socket", USER)
