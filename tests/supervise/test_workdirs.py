"""Work directories: made by mkdir that succeeds, in places that others cannot exchange."""

import ast
import os
import re
import stat
from pathlib import Path

import pytest
from narrowed import present

from harness.errors import UsageError
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.user_files import refuse_exchangeable_way

ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users' directories need root")
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
    monkeypatch.setattr(workdirs, "_candidates", lambda: bases)
    assert workdirs.base() == bases[1]


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
@pytest.mark.parametrize("how", ["another's", "writable", "group"])
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
    else:
        os.chown(shared, -1, ANOTHER)
        shared.chmod(0o775)
    with pytest.raises(PermissionError):
        workdirs.make(parent / "work")
    assert not (parent / "work").exists()


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


# The one place ------------------------------------------------------------------------------------

#: Directories that are no work directories, made where only we write, or as the servers' user.
ALLOWED = {
    "the helper itself": {
        "harness/supervise/workdirs.py make",
        "harness/supervise/user_files.py make_directory",
        "harness/supervise/user_files.py make_passable",
        "harness/supervise/user_files.py make_own",
    },
    "state, results and pages: they stay, and their place is checked": {
        "harness/supervise/journal.py _prepared",
        "harness/store/runs.py RunFolder.write_artifact",
        "harness/store/runs.py Store._fresh",
        "harness/execution/observing.py Observing.running",
        "harness/cli/runs.py export",
    },
    "below datasets and answers, which only we write": {
        "harness/workloads/tpch/reference.py keep",
        "harness/workloads/tpch/data.py generate",
        "harness/workloads/tpch/refresh_data.py _make",
        "harness/workloads/tpch/refresh_data.py _last_part",
    },
    "below a work directory": {
        "harness/copytree.py _copy",
        "harness/store/transfer.py _extract",
        "harness/install/__init__.py _install",
        "harness/install/archives.py Jars.unpack",
        "harness/install/archives.py SourceArchive.unpack",
        "harness/install/debs.py Debs.unpack",
        "harness/install/debs.py _merge",
        "harness/install/debs.py Apt.__init__",
        "harness/drivers/ycsb/build.py _build",
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
    found = {
        f"{path.relative_to(ROOT)} {function}"
        for folder in ("harness", "engines", "reports")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if MAKES.search(source := path.read_text(encoding="utf-8"))
        for function in made_directories(ast.parse(source))
    }
    assert found == set().union(*ALLOWED.values())


def test_what_makes_a_directory_is_found():
    for call in ("path.mkdir()", "os.makedirs(path)", "tempfile.mkdtemp()"):
        assert list(made_directories(ast.parse(f"def start():\n    {call}"))) == ["start"]
    for line in ("import tempfile", "from tempfile import mkdtemp"):
        assert list(made_directories(ast.parse(line))) == ["import tempfile"]
