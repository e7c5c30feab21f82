"""Locks that no other user can hold, and waits for them that end."""

import ast
import os
import pwd
import re
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrowed import present

from harness.errors import RunFailed
from harness.execution.host_lock import Places, one_at_a_time, taking_turns
from harness.install.prefix import work_directory
from harness.progress import SilentProgress
from harness.store.checkpoint import FILE, Checkpoint, under_way
from harness.store.datasets import DatasetStore
from harness.supervise import locks
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import Journal

ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")


def locking_calls(source):
    tree = ast.parse(source if re.search("flock|lockf", source) else "")
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("flock", "lockf")
    ]


def test_locks_are_taken_in_one_place():
    sources = [
        path for name in ("harness", "engines", "reports") for path in ROOT.glob(f"{name}/**/*.py")
    ]
    taking = {path for path in sources if locking_calls(path.read_text())}
    assert taking == {Path(locks.__file__)}


@contextmanager
def host_lock(folder):
    folder.chmod(0o1777)
    (folder / "root").mkdir(mode=0o755)
    with one_at_a_time(SilentProgress(), places=Places([folder], folder / "root")):
        yield folder / "root" / "tierbench-measuring.lock"


def test_commands_of_one_experiment_and_results_take_turns(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_STATE", str(tmp_path / "state"))
    with taking_turns("mine", tmp_path / "results"), taking_turns("other", tmp_path / "results"):
        descriptors = [locks.open_private(path) for path in (tmp_path / "state").glob("*.lock")]
        assert [locks.try_lock(descriptor) for descriptor in descriptors] == [False, False]
    assert all(locks.try_lock(descriptor) for descriptor in descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


@contextmanager
def dataset_lock(folder):
    keeper = Journal(folder / "state")
    with DatasetStore(folder, keeper).building("tpch", SilentProgress()):
        yield folder / ".tpch.lock"
    keeper.close()


@contextmanager
def state_lock(folder):
    keeper = Journal(folder)
    yield folder / "lock"
    keeper.close()


@contextmanager
def prefix_lock(folder):
    with work_directory(folder, "tiny"):
        yield folder / ".lock"


@contextmanager
def installing(folder):
    with work_directory(folder, "tiny") as work:
        yield work


@contextmanager
def checkpoint(folder):
    steps = Checkpoint.create(folder)
    yield folder / FILE
    steps.close()


@needs_root
@pytest.mark.parametrize("user", ["nobody", "the servers' user"])
@pytest.mark.parametrize(
    "lock", [host_lock, dataset_lock, state_lock, prefix_lock, installing, checkpoint]
)
def test_no_other_user_can_hold_what_root_waits_for(open_path, lock, user):
    credentials = unprivileged()
    assert credentials is not None
    uid = credentials.uid if user == "the servers' user" else pwd.getpwnam(user).pw_uid
    before = os.umask(0)
    try:
        with lock(open_path) as path:
            assert path.exists()
            done = subprocess.run(["flock", "-n", path, "true"], user=uid, check=False)
            assert done.returncode != 0
            held_open = subprocess.run(["cat", path], user=uid, capture_output=True, check=False)
            assert b"denied" in held_open.stderr
    finally:
        os.umask(before)


def test_a_lock_that_others_could_open_is_closed_to_them(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    path.chmod(0o666)
    os.close(locks.open_private(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("other")])
def test_what_is_no_lock_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "lock")
    with pytest.raises(OSError):
        locks.open_private(tmp_path / "lock")


def test_a_wait_names_the_holder_and_the_file_and_ends_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_SILENCE", "lock=0.2")
    monkeypatch.setattr(locks, "_waits_s", [])
    monkeypatch.setattr(locks, "_SHOWN_AFTER_S", 0.0)
    shown: list[str] = []
    progress = SilentProgress()
    monkeypatch.setattr(progress, "say", shown.append)
    path = tmp_path / "lock"
    with (
        locks.locked(path),
        pytest.raises(RunFailed) as failed,
        locks.locked(path, shows=progress.waiting),
    ):
        pass
    for text in (shown[0], f"{failed.value.problem}: {failed.value.context}"):
        assert str(path) in text
        assert f"process {os.getpid()}" in text
    assert "HARNESS_SILENCE=lock=" in failed.value.hint


def test_a_wait_is_shown_although_the_holder_is_not(tmp_path, monkeypatch):
    """The error is that of a lock that a process on another host holds."""
    monkeypatch.setenv("HARNESS_SILENCE", "lock=0.2")
    monkeypatch.setattr(locks, "_waits_s", [])
    monkeypatch.setattr(locks, "_SHOWN_AFTER_S", 0.0)
    shown: list[str] = []
    progress = SilentProgress()
    monkeypatch.setattr(progress, "say", shown.append)
    path = tmp_path / "lock"
    assert not locks.wait_until(lambda: False, path, lambda: None, progress.waiting)
    assert len(shown) == 1 and str(path) in shown[0]


@needs_root
def test_another_user_sees_that_a_run_is_under_way(open_path):
    with checkpoint(open_path) as path:
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                path.read_bytes()
            assert under_way(open_path)
        finally:
            os.seteuid(0)
    assert not under_way(open_path)


@needs_root
def test_data_of_another_user_are_used_without_a_lock(open_path):
    keeper = Journal(open_path / "state")
    store = DatasetStore(open_path / "data", keeper)
    with store.building("tpch", SilentProgress()) as building:
        dataset = present(building).publish({}, {}, SilentProgress())
    os.seteuid(65534)
    try:
        with dataset.in_use(SilentProgress()):
            pass
        with pytest.raises(RunFailed), dataset.in_use(SilentProgress()):
            os.seteuid(0)
            (dataset.directory / "golden.json").unlink()
    finally:
        os.seteuid(0)
        keeper.close()
