"""Directories of a run, whatever the umask, and the lock that keeps two runs apart."""

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from lab import strict_umask
from narrowed import present
from patience import eventually

from harness.errors import RunFailed, UsageError
from harness.execution.environment import Environment
from harness.execution.host_lock import Places, one_at_a_time, others_at_work
from harness.progress import SilentProgress
from harness.store.datasets import DatasetStore
from harness.supervise import locks, workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.own_files import refuse_writable
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import acting_as

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")


@pytest.fixture
def tier() -> Iterator[Path]:
    """A directory in which the servers' user may look around."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    with Supervisor(tmp_path / "state") as supervisor:
        yield Environment(
            tiers={}, host=cast(Any, None), credentials=unprivileged(), engines_prefix=tmp_path,
            datasets=cast(DatasetStore, None), source=cast(DatasetStore, None),
            supervisor=supervisor, progress=SilentProgress(), argv=(),
        )  # fmt: skip


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_servers_user_reaches_its_directories(environment, tier, umask):
    with environment.directory(tier / "tierbench-work" / "run-data") as made:
        assert (mode(made.parent), mode(made)) == (0o755, 0o700)
        user = environment.credentials
        assert made.stat().st_uid == (os.geteuid() if user is None else user.uid)
    assert not made.parent.exists()


@needs_root
@pytest.mark.parametrize("what", ["another's", "everybody's", "a link", "a tier of the user's"])
def test_where_another_user_can_write_nothing_is_made(environment, tier, what):
    user: Any = environment.credentials
    work = tier / "tierbench-work"
    if what == "a link":
        (tier / "elsewhere").mkdir()
        work.symlink_to(tier / "elsewhere")
    else:
        work.mkdir()
    if what == "another's":
        os.chown(work, user.uid, user.gid)
    elif what == "everybody's":
        work.chmod(0o1777)
    elif what == "a tier of the user's":
        os.chown(tier, user.uid, user.gid)
    with pytest.raises(UsageError) as refused, environment.directory(work / "run-data"):
        pass
    assert refused.value.exit_code == 2
    assert not (work / "run-data").exists()


@needs_root
@pytest.mark.parametrize("place", ["open", "closed", "another's", "a blank", "a colon"])
def test_a_library_is_preloaded_from_where_only_root_writes(environment, tier, place):
    folder = tier / {"a blank": "a b", "a colon": "a:b"}.get(place, "plain")
    folder.mkdir(mode=0o700 if place == "closed" else 0o755)
    library = folder / "lib.so"
    library.write_bytes(b"code")
    library.chmod(0o644)  # as it is installed: it is never executed
    if place == "another's":
        user: Any = environment.credentials
        os.chown(folder, user.uid, user.gid)
    with environment.readable(library) as used:
        assert (used == library) == (place == "open")
        assert used.read_bytes() == b"code"
        assert not set(str(used)) & set(" :")
        refuse_writable(used.parent)
    assert library.exists()
    assert used.exists() == (place == "open")


def test_scratch_is_short_and_not_where_the_environment_says(environment, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 100)))
    with environment.scratch() as scratch:
        assert scratch.parent == workdirs.disk_base()
        if (user := environment.credentials) is not None and os.geteuid() == 0:
            assert scratch.stat().st_uid == user.uid
            with acting_as(user), pytest.raises(PermissionError):
                (workdirs.base() / "bulk").touch()  # the host's memory
    assert not scratch.exists()


# Two harnesses do not measure at the same time ------------------------------------


LOCK = "tierbench-measuring.lock"
#: Holds the lock in the directory of its argument, prints a line, ends with its stdin.
HOLDER = """import pathlib, sys
from harness.execution.host_lock import Places, one_at_a_time, others_at_work
from harness.progress import SilentProgress
with one_at_a_time(SilentProgress(), places=Places([pathlib.Path(sys.argv[1])], None)):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def new_command(monkeypatch):
    """No wait has used a part of the limit, and each is shown at once."""
    monkeypatch.setattr(locks, "_waits_s", [])
    monkeypatch.setattr(locks, "_SHOWN_AFTER_S", 0.0)


class Reports(SilentProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def shared(tmp_path):
    """A directory such as /run/lock."""
    tmp_path.chmod(0o1777)
    return tmp_path


def locked(directory, progress=None):
    return one_at_a_time(progress or SilentProgress(), places=Places([directory], None))


def take(directory, progress=None):
    with locked(directory, progress):
        pass


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as threads:
        yield threads


def test_the_second_waits_for_the_first_and_says_so(shared, pool):
    reports = Reports()
    with locked(shared):
        second = pool.submit(take, shared, reports)
        assert eventually(lambda: reports.lines)
        assert not second.done()
    second.result()
    assert "waiting" in reports.lines[0]
    assert f"process {os.getpid()}" in reports.lines[0]  # who holds it


def test_all_users_take_the_directory_that_all_may_write_to(tmp_path, shared):
    """Root could write to the first as well, and would be alone with its lock there."""
    private = tmp_path / "private"
    private.mkdir(mode=0o755)
    with one_at_a_time(SilentProgress(), places=Places([private, shared], None)):
        assert (shared / LOCK).exists()
    assert not (private / LOCK).exists()


def test_other_users_can_lock_it_whatever_the_umask(shared):
    with strict_umask():
        take(shared)
    assert stat.S_IMODE((shared / LOCK).stat().st_mode) & 0o044 == 0o044


def test_a_link_is_not_followed(shared):
    secret = shared / "secret"
    secret.touch(mode=0o600)
    (shared / LOCK).symlink_to(secret)
    with pytest.raises(RunFailed):
        take(shared)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_second_name_of_a_file_of_ours_does_not_open_it_to_others(shared):
    secret = shared / "secret"
    secret.touch(mode=0o600)
    (shared / LOCK).hardlink_to(secret)
    take(shared)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_what_is_no_file_is_refused_at_once(shared, make):
    make(shared / LOCK)
    with pytest.raises(RunFailed):
        take(shared)


def test_a_lock_file_that_was_removed_is_made_again_by_all(shared, pool):
    """Whoever waited for the removed one takes the new one, as those do that come later."""
    reports = Reports()
    with locked(shared):
        waiting = pool.submit(take, shared, reports)
        assert eventually(lambda: reports.lines)
        (shared / LOCK).unlink()
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        present(holder.stdout).readline()
    assert eventually(lambda: len(reports.lines) > 1)
    assert f"process {holder.pid}" in reports.lines[1]
    holder.communicate()
    waiting.result()


@pytest.fixture
def places():
    """Use directories of root and of all users, who cannot enter pytest's."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        shared = Path(folder)
        shared.chmod(0o1777)
        (shared / "root").mkdir(mode=0o755)
        yield Places([shared], shared / "root")


@contextmanager
def held_by_user(path):
    """A lock that anybody can hold for ever."""
    command = ["flock", "--no-fork", path, "sh", "-c", "echo; exec sleep 1000"]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, user=65534)
    present(holder.stdout).readline()
    yield holder
    holder.kill()
    holder.communicate()


@needs_root
def test_root_waits_for_a_user_for_a_limited_time(places, monkeypatch):
    monkeypatch.setenv("HARNESS_SILENCE", "lock=0.3")
    take_all(places)
    reports = Reports()
    with (
        held_by_user(places.shared[0] / LOCK) as holder,
        one_at_a_time(reports, places=places) as warnings,
    ):
        pass
    assert [warning.code for warning in warnings] == ["host-lock-held"]
    assert f"process {holder.pid}" in warnings[0].context
    assert str(places.shared[0] / LOCK) in reports.lines[0]


@pytest.fixture
def clock(monkeypatch):
    """The clock of the waits, which goes on by their pauses alone."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

        def time(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(locks, "time", clock)
    return clock


@needs_root
@pytest.mark.parametrize("user", [0, 65533])
def test_the_runs_of_a_command_wait_for_another_user_no_longer_than_its_limit(
    places, monkeypatch, clock, user
):
    monkeypatch.setenv("HARNESS_SILENCE", "lock=100")
    take_all(places)
    if user:
        monkeypatch.setattr(os, "geteuid", lambda: user)
    with held_by_user(places.shared[0] / LOCK):
        for _ in range(3):
            with one_at_a_time(SilentProgress(), places=places) as warnings:
                assert [warning.code for warning in warnings] == ["host-lock-held"]
    assert 100 <= clock.now < 101


@needs_root
def test_a_user_waits_for_a_harness_of_its_own_without_a_limit(places, monkeypatch, clock):
    monkeypatch.setenv("HARNESS_SILENCE", "lock=100")
    take_all(places)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with held_by_user(places.shared[0] / LOCK) as holder:

        def end_in_time(seconds):
            clock.now += seconds
            if clock.now > 1000:
                holder.kill()
                holder.wait()

        monkeypatch.setattr(clock, "sleep", end_in_time)
        take_all(places)
    assert clock.now > 1000


def take_all(places, progress=None):
    with one_at_a_time(progress or SilentProgress(), places=places) as warnings:
        assert warnings == []


@needs_root
def test_a_user_waits_for_root(places, pool, monkeypatch):
    """The user cannot open root's lock file, and sees in /proc/locks that it is held."""
    take_all(places)
    reports = Reports()
    with (places.root / LOCK).open() as root:
        fcntl.flock(root, fcntl.LOCK_EX)
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        user = pool.submit(take_all, places, reports)
        assert eventually(lambda: reports.lines)
        assert not user.done()
    user.result()
    assert f"process {os.getpid()}" in reports.lines[0]


def test_a_command_line_cannot_write_to_the_terminal(shared):
    escape = subprocess.Popen(["\x1b[2Jsleep", "1000"], executable="/bin/sleep")
    try:
        # Linux shows a process's arguments a moment after it has started the program.
        assert eventually(lambda: locks.command_line(escape.pid) != "")
        assert locks.command_line(escape.pid) == "?[2Jsleep 1000"
    finally:
        escape.kill()
        escape.wait()


def test_the_supervisor_keeps_the_lock_until_it_has_cleaned_up(shared, tmp_path):
    reports = Reports()
    with Supervisor(tmp_path / "state") as supervisor:
        with one_at_a_time(reports, supervisor.hold, Places([shared], None)):
            pass
        take(shared)  # held for no longer than the block
        descriptor = os.open(shared / LOCK, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        supervisor.hold(descriptor)
        os.close(descriptor)  # as kill -9 does
        with (shared / LOCK).open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    take(shared)


#: A harness in a mount namespace of its own: it measures, and holds another lock file than others.
#: It prints the process that it measures, and ends with its stdin.
OUTSIDE = """import os, pathlib, sys
from harness.execution.host_lock import Places, one_at_a_time, others_at_work
from harness.progress import SilentProgress
from harness.supervise.supervisor import Supervisor
folder = pathlib.Path(sys.argv[1])
with Supervisor(folder / "state") as supervisor:
    with one_at_a_time(SilentProgress(), supervisor.hold, Places([folder], None)):
        print(supervisor.spawn(["sleep", "1000"]).pid, flush=True)
        sys.stdin.read()
"""


def test_a_harness_that_does_not_wait_for_the_lock_is_named(shared, tmp_path):
    elsewhere = shared / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o1777)
    with (
        subprocess.Popen(
            [sys.executable, "-c", OUTSIDE, str(elsewhere)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
        Supervisor(tmp_path / "state") as supervisor,
        locked(shared),
    ):
        other_pid = present(other.stdout).readline().strip()
        sleeper = supervisor.spawn(["sleep", "1000"])
        (warning,) = others_at_work()
        assert warning.code == "other-load"
        assert f"harness {other.pid}-" in warning.context
        assert f"process {other_pid} " in warning.context
        assert f"process {sleeper.pid} " not in warning.context
        other.communicate("")
    assert not any(f"harness {other.pid}-" in warning.context for warning in others_at_work())
