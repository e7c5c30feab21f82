"""Whom servers run as; root among files and in places that other users may exchange."""

import ast
import errno
import grp
import os
import pwd
import re
import socket
import stat
import struct
import subprocess
import threading
from pathlib import Path

import pytest
from narrowed import present
from patience import PATIENCE_S

from harness.engine import Credentials
from harness.errors import UsageError
from harness.supervise import linux, workdirs
from harness.supervise.credentials import run_unprivileged, shared_user_warnings, unprivileged
from harness.supervise.own_files import refuse_exchangeable_way, refuse_writable
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

ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
ANOTHER = 65533


def write_acl(path, tag, who, permissions, default=False):
    """Do as ``setfacl -m TAG:WHO:PERMISSIONS`` (with ``-d``), which may not be installed."""
    bits = sum(bit for letter, bit in zip("rwx", (4, 2, 1), strict=True) if letter in permissions)
    nothing = 2**32 - 1
    entries = [(1, 7, nothing), (4, 5, nothing), (0x10, 7, nothing), (0x20, 5, nothing)]
    entries += [({"user": 2, "group": 8}[tag], bits, who)]
    packed = [struct.pack("<HHI", *entry) for entry in sorted(entries)]
    name = f"system.posix_acl_{'default' if default else 'access'}"
    os.setxattr(path, name, struct.pack("<I", 2) + b"".join(packed))


@pytest.fixture
def bases(tmp_path, monkeypatch):
    """The two places in which work directories lie, below a directory of the test."""
    places = (tmp_path / "run", tmp_path / "var")
    monkeypatch.setattr(workdirs, "ROOTS", places)
    monkeypatch.setattr(workdirs, "_SHARED", places if os.geteuid() else ())
    monkeypatch.setattr(workdirs, "_LONGEST_BASE", 200)
    for place in places:
        place.mkdir()
        place.chmod(0o1777 if os.geteuid() else 0o755)
    return places


def test_the_base_does_not_depend_on_tmpdir(monkeypatch, tmp_path):
    before = workdirs.base()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert workdirs.base() == before
    longest = workdirs.fresh(before) / ".s.PGSQL.65535.lock"
    assert len(os.fsencode(longest)) <= 107


@needs_root
def test_what_another_user_writes_lies_on_disk(open_path, monkeypatch):
    """A hostile servers' user can fill no file system in memory that services of the host need."""
    monkeypatch.setenv("HARNESS_DATA", str(open_path / "data"))
    assert workdirs.disk_base() == open_path / "data" / "run"
    open_path.chmod(0o700)  # servers could not reach their work directories
    assert workdirs.disk_base() == Path("/var/lib/tierbench/run")
    with workdirs.temporary(credentials=unprivileged()) as folder:
        assert folder.parent == workdirs.disk_base()
    assert workdirs.base() in workdirs.ROOTS


@needs_root
def test_roots_base_is_made_for_every_user_to_pass_and_none_to_write(bases):
    bases[0].rmdir()
    assert workdirs.base() == bases[0]
    assert stat.S_IMODE(bases[0].stat().st_mode) == 0o755


@needs_root
@pytest.mark.parametrize("squatted", ["another's", "writable", "a link"])
def test_a_base_that_others_have_made_is_not_used(bases, tmp_path, squatted):
    if squatted == "another's":
        os.chown(bases[0], ANOTHER, ANOTHER)
    elif squatted == "writable":
        bases[0].chmod(0o1777)
    else:
        bases[0].rmdir()
        bases[0].symlink_to(bases[1])
    assert workdirs.base() == bases[1]
    os.chown(bases[1], ANOTHER, ANOTHER)
    with pytest.raises(UsageError) as refused:
        workdirs.base()
    assert str(bases[0]) in refused.value.context


@pytest.mark.parametrize("unfit", ["noexec", "too long", "a blank"])
def test_a_base_in_which_a_run_cannot_work_is_not_used(bases, tmp_path, monkeypatch, unfit):
    if unfit == "noexec":
        real = os.statvfs
        noexec = (*real(bases[0])[:8], os.ST_NOEXEC, 255)
        monkeypatch.setattr(
            os,
            "statvfs",
            lambda path: os.statvfs_result(noexec) if path == bases[0] else real(path),
        )
    elif unfit == "too long":
        bases = (tmp_path / ("x" * 200), bases[1])
    else:
        bases = (tmp_path / "a place", bases[1])
    bases[0].mkdir(exist_ok=True)
    assert workdirs._first_usable(bases) == bases[1]


@pytest.mark.parametrize("there", ["a directory", "a link", "a file"])
def test_what_is_there_is_never_taken_over(tmp_path, there):
    path = tmp_path / "work"
    if there == "a directory":
        path.mkdir(mode=0o700)
    elif there == "a link":
        path.symlink_to(tmp_path / "new")
    else:
        path.touch()
    noted: list[int] = []
    with pytest.raises(FileExistsError):
        workdirs.make(path, note=noted.append)
    assert not noted
    assert not (tmp_path / "new").exists()


@needs_root
def test_it_is_noted_while_it_is_ours_alone(tmp_path):
    path, user = tmp_path / "work", present(unprivileged())

    def note(inode):
        facts = path.stat()
        assert (facts.st_ino, facts.st_uid) == (inode, 0)
        assert stat.S_IMODE(facts.st_mode) == 0o700

    workdirs.make(path, user, 0o755, note)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (user.uid, 0o755)


@needs_root
@pytest.mark.parametrize("where", ["its parent", "above", "a link's directory"])
@pytest.mark.parametrize("how", ["another's", "writable", "group", "acl", "default acl"])
def test_nothing_is_made_where_another_user_could_exchange_it(tmp_path, where, how):
    top, parent = tmp_path / "top", tmp_path / "top" / "parent"
    parent.mkdir(parents=True)
    shared = {"its parent": parent, "above": top, "a link's directory": tmp_path / "links"}[where]
    shared.mkdir(exist_ok=True)
    if where == "a link's directory":
        (shared / "way").symlink_to(parent)
        parent = shared / "way"
    if how == "another's":
        os.chown(shared, ANOTHER, ANOTHER)
    elif how == "writable":
        shared.chmod(0o777)
    elif how == "group":
        os.chown(shared, -1, ANOTHER)
        shared.chmod(0o775)
    else:
        write_acl(shared, "user", ANOTHER, "rwx", default=how == "default acl")
    with pytest.raises(PermissionError):
        workdirs.make(parent / "work")
    assert not (parent / "work").exists()


@needs_root
@pytest.mark.parametrize("user", ["nobody", "daemon"])
def test_who_wins_a_rename_by_an_access_control_list_is_refused(open_path, user):
    """``setfacl -m u:USER:rwx``: the mode shows the list's mask, and the group is root's."""
    write_acl(open_path, "user", pwd.getpwnam(user).pw_uid, "rwx")
    (open_path / "data").mkdir()
    command = ["runuser", "-u", user, "--", "mv", str(open_path / "data"), str(open_path / "moved")]
    subprocess.run(command, check=True)
    with pytest.raises(PermissionError):
        refuse_writable(open_path)
    write_acl(open_path, "user", pwd.getpwnam(user).pw_uid, "r-x")
    refuse_writable(open_path)


@needs_root
@pytest.mark.parametrize(
    ("member", "safe"), [("root", True), ("daemon", False), ("a name without a user", False)]
)
def test_roots_group_is_trusted_if_root_alone_is_in_it(tmp_path, monkeypatch, member, safe):
    root = grp.struct_group(("root", "x", 0, [member]))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: root)
    tmp_path.chmod(0o775)
    if safe:
        refuse_writable(tmp_path)
    else:
        with pytest.raises(PermissionError):
            refuse_writable(tmp_path)


def test_what_a_killed_harness_has_left_is_removed_and_what_is_in_use_is_not(tmp_path, monkeypatch):
    left, another = (workdirs.fresh(tmp_path, name) for name in ("tmp", "results"))
    for path in (left, another):
        (path / "below").mkdir(parents=True)
    with workdirs.temporary(tmp_path) as in_use:
        with workdirs.temporary(tmp_path):
            assert left.exists()  # its maker may not have locked it yet
        monkeypatch.setattr(workdirs, "_FRESH_S", -1.0)
        with workdirs.temporary(tmp_path):
            assert not left.exists()
            assert in_use.exists() and another.exists()


@needs_root
def test_directories_of_others_are_not_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(workdirs, "_FRESH_S", -1.0)
    tmp_path.chmod(0o1777)
    theirs = workdirs.fresh(tmp_path, "tmp")
    theirs.mkdir()
    os.chown(theirs, ANOTHER, ANOTHER)
    with workdirs.temporary(tmp_path):
        assert theirs.exists()


def test_others_may_write_where_only_owners_rename(tmp_path):
    tmp_path.chmod(0o1777)
    workdirs.make(tmp_path / "work")
    assert (tmp_path / "work").is_dir()


@needs_root
def test_who_ran_sudo_is_no_other_user(tmp_path, monkeypatch):
    os.chown(tmp_path, ANOTHER, ANOTHER)
    with pytest.raises(PermissionError):
        refuse_exchangeable_way(tmp_path / "results")
    monkeypatch.setenv("SUDO_UID", str(ANOTHER))
    refuse_exchangeable_way(tmp_path / "results")


@needs_root
@pytest.mark.parametrize("named", ["games", None])
def test_the_servers_user_is_another_user_though_it_ran_sudo(tmp_path, monkeypatch, named):
    monkeypatch.delenv("HARNESS_USER", raising=False)
    if named:
        monkeypatch.setenv("HARNESS_USER", named)
    user = present(unprivileged())
    os.chown(tmp_path, user.uid, user.gid)
    monkeypatch.setenv("SUDO_UID", str(user.uid))
    with pytest.raises(PermissionError, match="HARNESS_USER"):
        refuse_exchangeable_way(tmp_path / "results")


# The one place ------------------------------------------------------------------------------------

#: Directories that are no work directories, made where only we write, or as the servers' user.
ALLOWED = {
    "the helper itself": {
        "harness/supervise/workdirs.py make",
        "harness/supervise/user_files.py make_directory",
        "harness/supervise/own_files.py make_passable",
        "harness/supervise/own_files.py make_own",
    },
    "state, results and pages: they stay, and their place is checked": {
        "harness/supervise/journal.py _prepared",
        "harness/store/run_store.py RunFolder.finish",
        "harness/store/run_store.py Store._fresh",
        "harness/execution/observing.py Observing.running",
        "harness/cli/run_export.py export",
        "harness/experiment/slurm.py _made",
    },
    "below datasets and answers, which only we write": {
        "harness/workloads/tpch/reference.py keep",
        "harness/workloads/tpch/data.py generate",
        "harness/workloads/htap/workload.py Htap.generate",
        "harness/workloads/tpch/refresh_sets.py _make",
        "harness/workloads/tpch/refresh_sets.py _last_part",
    },
    "below a work directory": {
        "harness/capture/server.py capture_server",
        "harness/copytree.py _copy",
        "harness/store/transfer.py _extract",
        "harness/install/__init__.py _install",
        "harness/install/archives.py Jars.unpack",
        "harness/install/archives.py SourceArchive.unpack",
        "harness/install/debs.py Debs.unpack",
        "harness/install/debs.py _merge",
        "harness/install/debs.py Apt.__init__",
        "harness/drivers/ycsb/build.py _build",
        "harness/workloads/sql/public/generate.py _make",
    },
    "control groups": {"harness/host/cgroup.py _make_group"},
}


#: What a module that makes a directory has in its text.
MAKES = re.compile("mkdir|makedirs|mkdtemp|gettempdir|tempfile")


def made_directories(node, where=""):
    """The functions that make a directory, or import tempfile."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".removeprefix(".")
    match node:
        case ast.Call(func=ast.Attribute(attr="mkdir" | "makedirs" | "mkdtemp" | "gettempdir")):
            yield where
        case ast.Import(names=names) if any(name.name == "tempfile" for name in names):
            yield "import tempfile"
        case ast.ImportFrom(module="tempfile"):
            yield "import tempfile"
    for child in ast.iter_child_nodes(node):
        yield from made_directories(child, where)


def test_every_work_directory_is_made_by_the_helper():
    functions = {
        f"{path.relative_to(ROOT)} {function}"
        for folder in ("harness", "engines", "reports")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if MAKES.search(source := path.read_text(encoding="utf-8"))
        for function in made_directories(ast.parse(source))
    }
    assert functions == set().union(*ALLOWED.values())


def test_what_makes_a_directory_is_found():
    for call in ("path.mkdir()", "os.makedirs(path)", "tempfile.mkdtemp()"):
        assert list(made_directories(ast.parse(f"def start():\n    {call}"))) == ["start"]
    for line in ("import tempfile", "from tempfile import mkdtemp"):
        assert list(made_directories(ast.parse(line))) == ["import tempfile"]


# Root among files of a user who may exchange any of them at any moment --------------

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
    write_acl(tree / "folder", "user", ANOTHER, "rwx", default=True)
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


# Whom servers run as ----------------------------------------------------------------


@needs_root
def test_root_runs_servers_as_another_user(monkeypatch):
    monkeypatch.delenv("HARNESS_USER", raising=False)
    user = present(unprivileged())
    assert user.uid != 0
    assert user.name in ("tierbench", "nobody")


@needs_root
def test_a_named_user_is_taken(monkeypatch):
    monkeypatch.setenv("HARNESS_USER", "daemon")
    entry = pwd.getpwnam("daemon")
    user = present(unprivileged())
    assert (user.uid, user.gid, user.name) == (entry.pw_uid, entry.pw_gid, "daemon")


@needs_root
@pytest.mark.parametrize(("name", "reason"), [("nosuchuser", "no such user"), ("root", "is root")])
def test_a_user_that_will_not_do_is_refused_beforehand(monkeypatch, name, reason):
    monkeypatch.setenv("HARNESS_USER", name)
    with pytest.raises(UsageError, match=reason) as refusal:
        unprivileged()
    assert "HARNESS_USER" in refusal.value.hint
    assert refusal.value.exit_code == 2


def test_a_user_that_other_services_may_share_is_warned_of():
    (warning,) = shared_user_warnings(Credentials(65534, 65534, "nobody"))
    assert warning.code == "shared-user"
    assert shared_user_warnings(Credentials(990, 990, "tierbench")) == []


@needs_root
def test_set_up_creates_a_system_user_of_our_own(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "create-user.sh"
    code = f"""
        cp -a /etc {tmp_path}/etc && mount --bind {tmp_path}/etc /etc || exit 2
        userdel --force tierbench 2>/dev/null  # while servers of other tests run as it, too
        {script} && {script} && getent passwd tierbench"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, check=True
    )
    name, _, uid, _, _, home, shell = done.stdout.strip().split(":")
    assert (name, home, shell) == ("tierbench", "/nonexistent", "/usr/sbin/nologin")
    assert 0 < int(uid) < 1000
    assert done.stderr.count("created") == 1


@needs_root
def test_a_foreign_program_runs_as_the_unprivileged_user():
    user = present(unprivileged())
    done = run_unprivileged(["sh", "-c", "id -u; id -G; tty; pwd"], timeout_s=PATIENCE_S)
    assert done.stdout.split() == [str(user.uid), str(user.gid), "not", "a", "tty", "/"]
