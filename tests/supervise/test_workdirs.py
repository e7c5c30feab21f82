"""Where work directories are made: nowhere that another user could exchange them."""

import ast
import grp
import os
import pwd
import re
import stat
import subprocess
from pathlib import Path

import pytest
from narrowed import present
from posix_acl import write_acl

from harness.errors import UsageError
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.own_files import refuse_exchangeable_way, refuse_writable

ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
ANOTHER = 65533


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
