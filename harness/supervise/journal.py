"""The harness's side of the journal: note a change, then make it.

``Journal`` belongs to one harness process. Each verb appends its entry, syncs it to
disk and only then acts, so that whatever moment the harness dies at, the supervisor
(or the next harness's ``recover``) knows all that may have to be undone. Both owners
hold a shared lock on the file; a journal that can be locked exclusively has neither.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import paths
from harness.errors import RunFailed, UsageError
from harness.supervise import locks, undo, workdirs
from harness.supervise.own_files import refuse_exchangeable_way, refuse_writable, sync_path
from harness.supervise.process import ProcessId, alive, marked_processes, own_identity, process_stat
from harness.supervise.segments import end_stopped_supervisor
from harness.supervise.silence import limit_s
from harness.supervise.user_files import Credentials, opened

_RECOVER_POLL_S = 0.05
_SAID_AFTER_S = 2.0


def _prepared(state_dir: Path) -> Path:
    """The state directory, made; UsageError where others could write what we act on."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"state directory {state_dir}", str(error), "export HARNESS_STATE=DIRECTORY"
        ) from error
    try:
        refuse_writable(state_dir.resolve())
        refuse_exchangeable_way(state_dir)
    except OSError as error:
        raise UsageError(
            f"state directory {state_dir}",
            "another user may write to it, but its entries are undone with our rights: "
            f"{error.strerror}: {error.filename}",
            f"chown it to uid {os.geteuid()} and chmod 700 it, or export HARNESS_STATE=DIRECTORY",
        ) from error
    return state_dir


class Journal:
    """Changes of this harness process on the host, each change noted beforehand.

    Safe to call from several threads. ``owner`` names it in the environment of its processes.
    """

    def __init__(self, state_dir: Path | None = None) -> None:
        folder = _prepared(state_dir or paths.state_dir())
        self.owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.path = folder / f"{self.owner}{undo.JOURNAL_SUFFIX}"
        self._state_dir = folder
        self._lock = threading.RLock()
        self._next = 0
        self._fd = -1
        try:
            self._open()
        except OSError as error:
            self.close()
            raise UsageError(
                f"journal in {folder}",
                str(error),
                "free space there, or export HARNESS_STATE=DIRECTORY",
            ) from error

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with _state_lock(self._state_dir):  # else recover might take the file before it is ours
            self._fd = os.open(self.path, flags, 0o600)
            locks.try_lock(self._fd, shared=True)  # nobody else knows it yet
        owner = {
            "kind": "owner",
            "schema": 2,
            "owner": self.owner,
            **undo.machine(),
            "boot_id": undo.boot_id(),
            **asdict(own_identity()),
            "command": sys.argv,
        }
        undo.append_entry(self._fd, owner, sync=True)
        sync_path(self._state_dir)

    def close(self) -> None:
        """Give up ownership; what is still pending is for the supervisor or ``recover``."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _append(self, entry: undo.Entry) -> None:
        try:
            undo.append_entry(self._fd, entry, sync=True)
        except OSError as error:
            raise RunFailed(
                f"journal {self.path}", str(error), f"free space in {self._state_dir}"
            ) from error

    def _note(self, entry: undo.Entry) -> int:
        with self._lock:
            self._next += 1
            self._append(entry | {"seq": self._next})
            return self._next

    def _note_done(self, token: int) -> None:
        with contextlib.suppress(RunFailed):  # a full disk; undoing it again is harmless
            self._append({"kind": "done", "of": token})

    def undo(self, token: int) -> None:
        """Undo one change now; RunFailed says why it cannot be. Nothing if it is undone already."""
        notes = undo.read_notes(str(self.path))
        entry = next((e for e in notes.pending if e["seq"] == token), None)
        if entry is None:
            return
        try:
            undo.undo_entry(entry, notes.entries)
        except (undo.UndoFailed, OSError) as error:
            raise RunFailed(f"undo {entry['kind']}", str(error)) from error
        self._note_done(token)

    def kill_processes(self) -> None:
        """SIGKILL all processes with our mark or noted here; RunFailed where one does not die."""
        entries = undo.read_notes(str(self.path)).entries
        try:
            undo.kill_noted_processes(entries, lambda: marked_processes(self.owner))
        except undo.UndoFailed as error:
            raise RunFailed("end what was left running", str(error)) from error

    def register_directory(
        self, path: Path, credentials: Credentials | None = None, mode: int = 0o700
    ) -> Path:
        """Make ``path``; from now on it is removed with all in it when the harness ends or dies.

        Its parent exists. It has ``mode``, and is owned by ``credentials`` if given. Returns the
        path with symbolic links resolved. UsageError where something is there, or the place
        cannot be written, or other users could exchange it (harness.supervise.workdirs).
        """
        problem = f"work directory {path}"
        try:
            refuse_exchangeable_way(path)
            self._make_directory(real := _resolved(path), credentials, mode)
        except FileExistsError as error:
            raise UsageError(problem, "it already exists", "remove or move it") from error
        except OSError as error:
            raise UsageError(
                problem,
                f"{error.strerror or error}: {error.filename or path}",
                "choose a writable directory that no other user can write to",
            ) from error
        return real

    def _make_directory(self, real: Path, credentials: Credentials | None, mode: int) -> None:
        token = self._note({"kind": "directory", "path": str(real)})

        def made(inode: int) -> None:
            mount = undo.lasting_mount(str(real))
            self._append({"kind": "made", "of": token, "inode": inode, "mount": mount})

        try:
            workdirs.make(real, credentials, mode, made)
        except FileExistsError:
            self._note_done(token)  # nothing was made
            raise
        except OSError:
            with contextlib.suppress(RunFailed):  # tried again at the end, then
                self.undo(token)
            raise

    def lost(self, path: Path) -> bool:
        """Return whether a registered directory was removed, or exchanged, by another program."""
        token = self._directory_token(path)
        return token is not None and undo.is_lost(token, undo.read_notes(str(self.path)).entries)

    def remove_directory(self, path: Path) -> None:
        """Remove a registered directory now; nothing where it is not registered (any more)."""
        if (token := self._directory_token(path)) is not None:
            self.undo(token)

    def release_directory(self, path: Path) -> None:
        """It stays: it was renamed to its final place.

        Killed between renaming and this, it is in its new place and nothing is left at the old one.
        """
        if (token := self._directory_token(path)) is not None:
            self._append({"kind": "done", "of": token})

    def _directory_token(self, path: Path) -> int | None:
        real = str(_resolved(path))
        for entry in undo.read_notes(str(self.path)).pending:
            if entry["kind"] == "directory" and entry["path"] == real:
                return int(entry["seq"])
        return None

    def note_cgroup(self, path: Path) -> int:
        """A control group about to be made: its members are killed and it is removed at the end."""
        return self._note({"kind": "cgroup", "path": str(path)})

    def note_setting(self, path: Path) -> int | None:
        """A setting of Linux that a program may change: it gets its present value at the end.

        None where there is no such setting, or it is not ours to write.
        """
        try:
            with opened(path, os.O_RDWR) as descriptor:
                value = os.read(descriptor, undo.SETTING_BYTES).decode().strip()
        except OSError:
            return None
        return self._note({"kind": "setting", "path": str(path), "value": value})

    def change_setting(self, path: Path, value: str) -> int:
        """Set a setting of Linux, which gets its present value back at the end.

        RunFailed where it cannot be set. What Linux does not take back, such as its own weights of
        nodes whose bandwidths it lacks, is not changed: the present value is written first.
        """
        problem = f"set {path} to {value}"
        token = self.note_setting(path)
        if token is None:
            raise RunFailed(problem, "it is not there, or not ours to write", "run as root")
        try:
            with opened(path, os.O_RDWR) as descriptor:
                present = os.read(descriptor, undo.SETTING_BYTES)
                os.pwrite(descriptor, present, 0)
                os.pwrite(descriptor, f"{value}\n".encode(), 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                read = os.read(descriptor, undo.SETTING_BYTES).decode().strip()
        except OSError as error:
            self.undo(token)
            raise RunFailed(problem, error.strerror or str(error)) from error
        if read != value:
            self.undo(token)
            raise RunFailed(problem, f"Linux took it as {read}")
        return token

    def note_unit(self, name: str) -> int:
        """A transient unit of the user's systemd manager about to be started."""
        return self._note({"kind": "unit", "name": name})


def _resolved(path: Path) -> Path:
    """Symbolic links on the way to ``path`` resolved, not ``path`` itself."""
    return path.parent.resolve() / path.name


# Recovery ----------------------------------------------------------------------


@dataclass(frozen=True)
class Recovery:
    """Recovery from one dead harness: what was undone, what could not be."""

    owner: str
    undone: tuple[str, ...]
    failures: tuple[str, ...]


def recover(
    state_dir: Path | None = None,
    wait_s: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Recovery]:
    """Undo what dead harness processes left; called at each start of the harness.

    Journals of living harnesses are left alone. One whose harness is dead but whose
    supervisor still cleans up is waited for, ``wait_s`` at most (default: its limit of silence),
    then it is a UsageError: the next measurement would run next to the old server. A supervisor
    that is stopped is killed, and with it its processes.
    """
    folder = state_dir or paths.state_dir()
    if not folder.is_dir():
        return []
    _prepared(folder)
    began = time.monotonic()
    deadline = began + (limit_s("left") if wait_s is None else wait_s)
    said = False
    result: list[Recovery] = []
    waiting = set(_journals(folder))
    while waiting:
        for path in sorted(waiting):
            outcome, settled = _recover_unless_owned(path)
            result += [outcome] if outcome else []
            if settled:
                waiting.discard(path)
        if waiting and time.monotonic() >= deadline:
            raise _unfinished(min(waiting))
        if waiting and not said and time.monotonic() >= began + _SAID_AFTER_S:
            said = True
            say("waiting for the supervisor of an earlier harness to finish its clean-up")
        if waiting:
            time.sleep(_RECOVER_POLL_S)
    return result


def left_behind(state_dir: Path | None = None) -> list[Recovery]:
    """Return what dead harness processes left and no supervisor undoes now; nothing is undone.

    Changes that are pending are under ``undone``.
    """
    result = []
    for path in _journals(state_dir or paths.state_dir()):
        try:
            with opened(path, os.O_RDWR | os.O_NONBLOCK) as descriptor:
                if locks.try_lock(descriptor):
                    pending = _pending(undo.read_notes(str(path)))
                    result.append(Recovery(undo.owner_of(path), pending, ()))
        except FileNotFoundError:
            continue
        except OSError as error:
            result.append(Recovery(undo.owner_of(path), (), (f"journal {path}: {error}",)))
    return result


def _pending(notes: undo.Notes) -> tuple[str, ...]:
    return tuple(f"{e['kind']} {e.get('path') or e.get('name')}" for e in notes.pending)


def _unfinished(path: Path) -> UsageError:
    supervisor = _supervisor_of(path)
    pid = supervisor.pid if supervisor else "?"
    return UsageError(
        "undo what an earlier harness left",
        f"that harness is dead, and its supervisor, process {pid}, does not finish; the journal is "
        f"{path}",
        f"see what it waits for (`cat /proc/{pid}/stack`), or end it: `kill -KILL {pid}`",
    )


def _supervisor_of(path: Path) -> ProcessId | None:
    entries = undo.read_notes(str(path)).entries
    latest = next((entry for entry in reversed(entries) if entry["kind"] == "supervisor"), None)
    return ProcessId(latest["pid"], latest["start_ticks"]) if latest else None


def _recover_unless_owned(path: Path) -> tuple[Recovery | None, bool]:
    """Recovery that was done, and whether this journal needs no further look."""
    try:
        # Writable: NFS takes an exclusive lock on nothing else.
        with opened(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW) as descriptor:
            return _recover_if_unlocked(path, descriptor)
    except FileNotFoundError:
        return None, True
    except OSError as error:
        return Recovery(undo.owner_of(path), (), (f"journal {path}: {error}",)), True


def _recover_if_unlocked(path: Path, descriptor: int) -> tuple[Recovery | None, bool]:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError("not a regular file")
    if facts.st_uid != os.geteuid():  # whoever wrote it would choose what we remove and kill
        raise OSError(
            f"it belongs to uid {facts.st_uid}, we are uid {os.geteuid()}: start harness as that "
            "user to undo it, or remove it"
        )
    with _state_lock(path.parent):
        if not locks.try_lock(descriptor):
            if lives := _harness_lives(path):
                return None, lives
            _kill_if_stopped(_supervisor_of(path))
            return None, False
        if not path.exists():  # recovered by another harness a moment ago
            return None, True
    return _recover(path), True


def _kill_if_stopped(supervisor: ProcessId | None) -> None:
    """SIGKILL, for it will not clean up."""
    status = process_stat(supervisor.pid) if supervisor else None
    if status is not None and status.id == supervisor and status.state in "Tt":
        end_stopped_supervisor(status.id)


def _harness_lives(path: Path) -> bool:
    owner = undo.read_notes(str(path)).owner
    if owner is None or _elsewhere(owner):
        return True
    return alive(ProcessId(owner["pid"], owner["start_ticks"]))


def _elsewhere(owner: undo.Entry) -> bool:
    """Return whether a journal's owner ran on another host than this one."""
    same_boot: bool = owner["boot_id"] == undo.boot_id()
    return not same_boot and owner["machine_id"] != undo.machine()["machine_id"]


def recover_journal(path: Path) -> Recovery | None:
    """Undo one journal that has no owner any more; None where it has, or is gone already."""
    return _recover_unless_owned(path)[0]


def _recover(path: Path) -> Recovery:
    """Kill what a dead supervisor's journal names and undo its changes.

    Of another host's journal nothing: its processes, groups and disks are not here.
    """
    notes = undo.read_notes(str(path))
    if notes.owner is not None and _elsewhere(notes.owner):
        host = notes.owner["hostname"]
        left = f"journal {path} belongs to {host}: start harness there to undo what it left"
        return Recovery(undo.owner_of(path), (), (left,))
    failures: list[str] = []
    pending = _pending(notes)
    same_boot = notes.owner is not None and notes.owner["boot_id"] == undo.boot_id()
    try:
        # Without a boot, a pid and its start time may mean another process by now.
        noted = notes.entries if same_boot else []
        undo.kill_noted_processes(noted, lambda: marked_processes(undo.owner_of(path)))
    except undo.UndoFailed as failure:
        failures.append(str(failure))
    failures += undo.undo_journal(str(path))
    return Recovery(undo.owner_of(path), pending, tuple(failures))


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{undo.JOURNAL_SUFFIX}"))


def _state_lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Short exclusive sections among all harness processes of one state directory."""
    return locks.locked(folder / "lock")
