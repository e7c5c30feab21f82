"""The journal's entries and how each is undone.

One journal file per harness process, appended before each change. Undoing is idempotent and
runs backwards, so it may be cut off and begun again anywhere: by the harness at a clean end,
by the supervisor when the harness has died, by the next harness when both are gone (power
cut, kill -9 of both).

A line is a checksum and a JSON object, with a line break on either side: a line cut off by a
full disk or a crash spoils neither the line before it nor the one after it. What it would have
announced was not done. Any other line without its checksum is damage: the rest is undone, the
journal stays and its damage is reported.

Never removed: a directory that is not the one that was made (by its inode's number), is on another
file system than that, is reached by a symbolic link, or is or holds a mount point. Of settings of
Linux only those in ``SETTINGS`` are written, and of control groups and units only those that have
our names are ended: who could write a journal must not choose what root overwrites.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from harness import jsonfile
from harness.supervise.process import ProcessId, ProcessStat, kill_all, process_stat
from harness.supervise.user_files import opened, remove_tree
from harness.tiers.linux.mounts import Mount, longest_match, parse_mountinfo

JOURNAL_SUFFIX = ".journal"
Entry = dict[str, Any]
#: Settings of Linux (patterns of paths) that toplev changes, and does not put back when it is
#: killed.
COUNTER_SETTINGS = (
    "/proc/sys/kernel/nmi_watchdog",
    "/sys/bus/event_source/devices/*/perf_event_mux_interval_ms",
)
#: All that a journal may restore: of memory policies, too (harness.tiers.memory_policy).
SETTINGS = (
    *COUNTER_SETTINGS,
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/mm/numa/demotion_enabled",
    "/sys/kernel/mm/mempolicy/weighted_interleave/*",
)
#: How the names of our control groups and units begin.
GROUP_PREFIX = "tierbench"
#: What is read of a setting of Linux.
SETTING_BYTES = 4096

_IDENTITY = {"pid", "start_ticks"}
#: What an entry of each kind has; those of other kinds are a newer release's.
_MEMBERS = {
    "owner": {*_IDENTITY, "boot_id", "hostname", "machine_id"},
    "supervisor": _IDENTITY,
    "process": _IDENTITY,
    "directory": {"path", "seq"},
    "made": {"of", "inode", "mount"},
    "setting": {"path", "value", "seq"},
    "cgroup": {"path", "seq"},
    "unit": {"name", "seq"},
    "released": {"of"},
    "done": {"of"},
}
_NUMBERS = {*_IDENTITY, "inode", "of", "seq"}
_TEXTS = {"boot_id", "hostname", "machine_id", "name", "path", "value"}
#: A line of which only the beginning was written.
_CUT_OFF = re.compile(rb"[0-9a-f]{0,8}|[0-9a-f]{8} (\{.*)?(?<!\})")
_CGROUP_S = 1.0
_POLL_S = 0.01


class UndoFailed(Exception):
    """A change that could not be undone; the text says which and why."""


def boot_id() -> str:
    """Names the current boot: what was noted under another one, the reboot has undone."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def machine() -> dict[str, str]:
    """Names this host: state on a shared home directory holds the journals of several."""
    hostname = socket.gethostname()
    try:
        with open("/etc/machine-id") as file:
            return {"hostname": hostname, "machine_id": file.read().strip() or hostname}
    except OSError:
        return {"hostname": hostname, "machine_id": hostname}


def owner_of(journal: str | os.PathLike[str]) -> str:
    """The name that a journal's processes carry: their mark is it, or begins with it."""
    return os.path.basename(journal).removesuffix(JOURNAL_SUFFIX)


def append_entry(descriptor: int, entry: Entry, *, sync: bool) -> None:
    """Append one line in one write (O_APPEND: two writers do not mix their lines).

    OSError where not all of it was written; what it announces must not be done then.
    """
    line = b"\n" + jsonfile.log_line(entry)
    if os.write(descriptor, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if sync:
        os.fsync(descriptor)


@dataclass(frozen=True)
class Notes:
    """A journal's entries, and the numbers of its damaged lines (from 1)."""

    entries: list[Entry]
    damaged: list[int]

    @property
    def owner(self) -> Entry | None:
        """The entry that names the harness process, its boot and its host."""
        return next((e for e in self.entries if e["kind"] == "owner"), None)

    @property
    def pending(self) -> list[Entry]:
        """The changes not yet undone, latest first."""
        done = {entry["of"] for entry in self.entries if entry["kind"] == "done"}
        return [e for e in reversed(self.entries) if "seq" in e and e["seq"] not in done]


def read_notes(path: str) -> Notes:
    """All whole lines of a journal; OSError where it cannot be read."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    notes = Notes([], [])
    for number, line in enumerate(lines, 1):
        if (entry := _entry(line)) is not None:
            notes.entries.append(entry)
        elif not _CUT_OFF.fullmatch(line):
            notes.damaged.append(number)
    return notes


@lru_cache(maxsize=1 << 12)  # a journal is read at each of its changes
def _entry(line: bytes) -> Entry | None:
    """Return the entry of a whole line whose members are as the journal writes them, else None."""
    try:
        entry = jsonfile.parse_log_line(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        return None
    if not entry.keys() >= _MEMBERS.get(entry["kind"], set()):
        return None
    for name, value in entry.items():
        if name in _NUMBERS and (type(value) is not int or not 0 <= value < 2**63):
            return None
        if name in _TEXTS and not (isinstance(value, str) and "\0" not in value):
            return None
    return entry


def undo_journal(path: str) -> list[str]:
    """Undo all that is pending in a journal and remove it; what could not be undone.

    Processes must be dead by now. With failures the journal stays, for another try.
    """
    notes = read_notes(path)
    rebooted = notes.owner is not None and notes.owner["boot_id"] != boot_id()
    failures = []
    if notes.damaged:
        lines = ", ".join(map(str, notes.damaged))
        failures.append(
            f"journal {path} is damaged (line {lines}): what it noted there may be left; "
            "look for it, then remove the journal"
        )
    with opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
        for entry in notes.pending:
            if (failure := _try_undo(entry, notes.entries, rebooted)) is not None:
                failures.append(failure)
                continue
            with suppress(OSError):  # a full disk: this may be what frees it
                append_entry(descriptor, {"kind": "done", "of": entry["seq"]}, sync=False)
    if not failures:
        os.unlink(path)
    return failures


def _try_undo(entry: Entry, entries: list[Entry], rebooted: bool) -> str | None:
    try:
        undo_entry(entry, entries, rebooted)
    except UndoFailed as failure:
        return str(failure)
    except OSError as error:
        return f"{entry['kind']} {entry.get('path') or entry.get('name')}: {error}"
    return None


def undo_entry(entry: Entry, entries: list[Entry], rebooted: bool = False) -> None:
    """Undo one change; UndoFailed or OSError where that cannot be done."""
    if entry["kind"] == "directory":
        remove_directory(entry, entries, rebooted)
    elif rebooted:
        return  # cgroups, units and settings ended with the boot
    elif entry["kind"] == "cgroup":
        remove_cgroup(entry["path"])
    elif entry["kind"] == "unit":
        stop_unit(entry["name"])
    elif entry["kind"] == "setting":
        restore_setting(entry["path"], entry["value"])
    else:
        raise UndoFailed(
            f"journal entry of unknown kind {entry['kind']!r}: made by a newer release"
        )


def restore_setting(path: str, value: str) -> None:
    """Write a setting of Linux that has another value now; nothing where it is gone.

    UndoFailed for a path that is not in ``SETTINGS``.
    """
    if not any(PurePosixPath(path).match(pattern) for pattern in SETTINGS):
        raise UndoFailed(f"setting {path}: not restored, the harness changes no such setting")
    with suppress(FileNotFoundError), opened(path, os.O_RDWR) as descriptor:
        if os.read(descriptor, SETTING_BYTES).decode().strip() != value:
            os.pwrite(descriptor, f"{value}\n".encode(), 0)


# Directories -------------------------------------------------------------------

#: Their files are gone after a reboot, and when they are no longer mounted.
_VOLATILE = ("tmpfs", "ramfs")


def lasting_mount(path: str) -> str | None:
    """Point where the file system of ``path`` is mounted; None of one in memory."""
    mount = longest_match(path, _mounts())
    return None if mount is None or mount.filesystem in _VOLATILE else mount.point


def _mounts() -> list[Mount]:
    with open("/proc/self/mountinfo", errors="replace") as file:
        return parse_mountinfo(file.read())


def _made(seq: int, entries: list[Entry]) -> Entry | None:
    return next((e for e in entries if e["kind"] == "made" and e["of"] == seq), None)


def is_lost(seq: int, entries: list[Entry]) -> bool:
    """Return whether the directory that this entry made is no longer where it was made."""
    path = next(e["path"] for e in entries if e.get("seq") == seq)
    made = _made(seq, entries)
    try:
        return made is not None and os.lstat(path).st_ino != made["inode"]
    except (FileNotFoundError, NotADirectoryError):
        return True


def remove_directory(entry: Entry, entries: list[Entry], rebooted: bool) -> None:
    """Remove a work directory and all in it; nothing where it is gone, or was never made."""
    path, made = entry["path"], _made(entry["seq"], entries)
    if made is None:
        _remove_unnoted(path)
        return
    if made["mount"] is None and rebooted:
        return  # it was in memory: what lies there now is another's
    if made["mount"] is not None and lasting_mount(path) != made["mount"]:
        raise UndoFailed(
            f"directory {path}: not removed, {made['mount']} is not mounted as it was; mount it, "
            "then start harness again"
        )
    if not os.path.lexists(path):
        return
    _refuse_special(path)
    if os.lstat(path).st_ino != made["inode"]:
        raise UndoFailed(
            f"directory {path}: not removed, another has taken its place (inode "
            f"{os.lstat(path).st_ino}, made as {made['inode']}); remove it if it is not needed"
        )
    remove_tree(path)


def _remove_unnoted(path: str) -> None:
    """Interrupted around mkdir: what was made is empty and ours; anything else is another's."""
    with suppress(OSError):
        if os.lstat(path).st_uid == os.geteuid():
            os.rmdir(path)


def _refuse_special(path: str) -> None:
    plain = stat.S_ISDIR(os.lstat(path).st_mode) and os.path.realpath(path) == path
    if path == "/" or not plain:
        raise UndoFailed(f"directory {path}: not removed, it is not a plain directory")
    points = [mount.point for mount in _mounts()]
    inside = [point for point in points if f"{point}/".startswith(f"{path}/")]
    if inside:
        raise UndoFailed(f"directory {path}: not removed, {inside[0]} is a mount point")


# Control groups ----------------------------------------------------------------


def cgroup_members(path: str) -> Iterator[ProcessStat]:
    """The processes of one control group, v1 or v2."""
    try:
        with open(f"{path}/cgroup.procs") as file:
            pids = [int(line) for line in file]
    except OSError:
        return
    for pid in pids:
        if (result := process_stat(pid)) is not None:
            yield result


def remove_cgroup(path: str) -> None:
    """Kill every member and remove the group; nothing where it is gone."""
    if not os.path.isdir(path):
        return
    _refuse_name(f"cgroup {path}", os.path.basename(path))
    survivors: list[ProcessId] = kill_all(lambda: cgroup_members(path), _CGROUP_S)
    if survivors:
        raise UndoFailed(f"cgroup {path}: process {survivors[0].pid} cannot be killed")
    _retry_busy(lambda: os.rmdir(path), _CGROUP_S)


def _refuse_name(what: str, name: str) -> None:
    if not name.startswith(GROUP_PREFIX):
        raise UndoFailed(f"{what}: not ended, its name does not begin with {GROUP_PREFIX}")


def _retry_busy(action: Callable[[], None], timeout_s: float) -> None:
    # A group stays busy for a moment after its last member has died.
    deadline = time.monotonic() + timeout_s
    while True:
        last = time.monotonic() >= deadline  # checked first: one try starts after the deadline
        try:
            return action()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or last:
                raise
        time.sleep(_POLL_S)


def stop_unit(name: str) -> None:
    """Stop a transient unit of the user's systemd manager, and so all that runs in it."""
    from harness.supervise import programs

    _refuse_name(f"unit {name}", name)
    command = ["systemctl", "--user", "stop", name]
    env = {"PATH": os.defpath, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
    done = programs.run(command, env=env, timeout_s=3)
    if done.returncode not in (0, 5):  # 5: no such unit, it has ended by itself
        raise UndoFailed(f"unit {name}: {done.stderr.strip()}")


def kill_noted_processes(entries: list[Entry], marked: Callable[[], list[ProcessStat]]) -> None:
    """SIGKILL what a dead harness and its dead supervisor left running."""
    noted = {ProcessId(e["pid"], e["start_ticks"]) for e in entries if e["kind"] == "process"}

    def still_there() -> list[ProcessStat]:
        direct = [result for p in noted if (result := process_stat(p.pid)) and result.id in noted]
        return direct + marked()

    survivors = kill_all(still_there, timeout_s=2.0)
    if survivors:
        raise UndoFailed(f"process {survivors[0].pid} does not die of signal {signal.SIGKILL}")
