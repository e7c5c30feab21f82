"""The journal's entries and how each is undone.

One journal file per harness process, JSON lines, appended before each change. Undoing
is idempotent and runs backwards, so it may be cut off and begun again anywhere: by the
harness at a clean end, by the supervisor when the harness has died, by the next
harness when both are gone (power cut, kill -9 of both).

What is never done: removing a directory that lacks our marker, lies behind a symbolic
link, or is or holds a mount point; unmounting what is not the mount we made.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.supervise import linux
from harness.supervise.process import ProcessId, ProcessStat, kill_all, process_stat

MARKER_SUFFIX = ".tierbench"
Entry = dict[str, Any]

_BUSY_S = 0.5
_CGROUP_S = 1.0
_POLL_S = 0.01


class UndoFailed(Exception):
    """A change that could not be undone; the text says which and why."""


def boot_id() -> str:
    """Names the current boot: what was noted under another one, the reboot has undone."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def append_entry(descriptor: int, entry: Entry, *, sync: bool) -> None:
    """Append one line in one write (O_APPEND: two writers do not mix their lines)."""
    os.write(descriptor, json.dumps(entry).encode() + b"\n")
    if sync:
        os.fsync(descriptor)


def read_entries(path: str) -> list[Entry]:
    """All whole lines; a last line cut off by a crash belongs to a change never made."""
    entries = []
    with open(path, "rb") as file:
        for line in file:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
    return entries


def pending_entries(entries: list[Entry]) -> list[Entry]:
    """The changes not yet undone, latest first."""
    done = {entry["of"] for entry in entries if entry["kind"] == "done"}
    return [e for e in reversed(entries) if "seq" in e and e["seq"] not in done]


def undo_journal(path: str) -> list[str]:
    """Undo all that is pending in a journal and remove it; what could not be undone.

    Processes must be dead by now. With failures the journal stays, for another try.
    """
    entries = read_entries(path)
    owner = next((e for e in entries if e["kind"] == "owner"), None)
    if owner is None:  # cut off before its first line was whole: nothing was changed
        os.unlink(path)
        return []
    rebooted = owner["boot_id"] != boot_id()
    failures = []
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        for entry in pending_entries(entries):
            if (failure := _try_undo(entry, entries, owner["owner"], rebooted)) is not None:
                failures.append(failure)
            else:
                append_entry(descriptor, {"kind": "done", "of": entry["seq"]}, sync=False)
    finally:
        os.close(descriptor)
    if not failures:
        os.unlink(path)
    return failures


def _try_undo(entry: Entry, entries: list[Entry], owner: str, rebooted: bool) -> str | None:
    try:
        undo_entry(entry, entries, owner, rebooted)
    except UndoFailed as failure:
        return str(failure)
    except OSError as error:
        return f"{entry['kind']} {entry.get('path') or entry.get('target')}: {error}"
    return None


def undo_entry(entry: Entry, entries: list[Entry], owner: str, rebooted: bool = False) -> None:
    """Undo one change; UndoFailed or OSError where that cannot be done."""
    if entry["kind"] == "directory":
        if any(e["kind"] == "released" and e["of"] == entry["seq"] for e in entries):
            remove_marker(entry["path"], owner)
        else:
            remove_directory(entry["path"], owner)
    elif rebooted:
        return  # settings, mounts, cgroups and units ended with the boot
    elif entry["kind"] == "setting":
        restore_setting(entry["path"], entry["old"])
    elif entry["kind"] == "mount":
        facts = (e for e in entries if e["kind"] == "mounted" and e["of"] == entry["seq"])
        remove_mount(entry["target"], next(facts, None))
    elif entry["kind"] == "cgroup":
        remove_cgroup(entry["path"])
    elif entry["kind"] == "unit":
        stop_unit(entry["name"])
    else:
        raise UndoFailed(
            f"journal entry of unknown kind {entry['kind']!r}: made by a newer release"
        )


# Settings ----------------------------------------------------------------------


def read_setting(path: str) -> str:
    """A sysctl's or sysfs file's value; of a choice (``a [b] c``) the chosen word."""
    with open(path) as file:
        text = file.read().rstrip("\n")
    chosen = re.findall(r"(?:^|\s)\[(\S+)\](?=\s|$)", text)
    return str(chosen[0]) if len(chosen) == 1 else text


def write_setting(path: str, value: str) -> None:
    """Write in one write(2), as the kernel wants it; never creates a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode() + b"\n")
    finally:
        os.close(descriptor)


def same_value(one: str, other: str) -> bool:
    """Whether two values are the same to the kernel (which turns spaces into tabs)."""
    return one.split() == other.split()


def restore_setting(path: str, old: str) -> None:
    """Write the old value back and see that it holds."""
    write_setting(path, old)
    found = read_setting(path)
    if not same_value(found, old):
        raise UndoFailed(f"setting {path}: wrote {old!r} back, it reads {found!r}")


# Mounts ------------------------------------------------------------------------


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo (proc(5)); options of mount and superblock together."""

    target: str
    device: str
    root: str
    fstype: str
    source: str
    options: tuple[str, ...]


def mounts(mountinfo: str = "/proc/self/mountinfo") -> list[Mount]:
    """Every mount of this mount namespace, in the order they were made."""
    found = []
    with open(mountinfo) as file:
        for line in file:
            left, _, right = line.partition(" - ")
            _, _, device, root, target, options = left.split()[:6]
            fstype, source, more = right.split()[:3]
            found.append(
                Mount(
                    _unescape(target),
                    device,
                    _unescape(root),
                    fstype,
                    _unescape(source),
                    (*options.split(","), *more.split(",")),
                )
            )
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_at(target: str) -> Mount | None:
    """The topmost mount at exactly ``target``."""
    return next((m for m in reversed(mounts()) if m.target == target), None)


def remove_mount(target: str, facts: Entry | None) -> None:
    """Unmount what we mounted at ``target``; nothing where it is not mounted (any more)."""
    mount = mount_at(target)
    if mount is None:
        return
    if facts and (mount.device, mount.root) != (facts["device"], facts["root"]):
        raise UndoFailed(f"mount {target}: {mount.source} is mounted there now, not by us")
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            return linux.unmount(target)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        if time.monotonic() >= deadline:
            return linux.unmount(target, lazily=True)
        time.sleep(_POLL_S)


# Directories -------------------------------------------------------------------


def marker_file(path: str) -> str:
    """The marker of a work directory: beside it, so that the directory itself is empty."""
    parent, name = os.path.split(path)
    return f"{parent}/.{name}{MARKER_SUFFIX}"


def marker_owner(path: str) -> str | None:
    """The owner named in a directory's marker ("" when cut off), None without one of ours."""
    try:
        descriptor = os.open(marker_file(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor) as file:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return None  # forged by the user our servers run as
        return file.read(200).strip()


def remove_marker(path: str, owner: str) -> None:
    """Remove the marker of a directory that stays."""
    if marker_owner(path) == owner:
        os.unlink(marker_file(path))


def remove_directory(path: str, owner: str) -> None:
    """Remove a work directory and all in it, then its marker; nothing where both are gone."""
    exists = os.path.lexists(path)
    named = marker_owner(path)
    if exists:
        _refuse_special(path)
    if named not in (owner, ""):
        if exists and os.listdir(path):
            raise UndoFailed(f"directory {path}: not removed, its marker does not name {owner}")
        return  # cut off before the marker was written: it was never ours
    if exists:
        if named == "":  # cut off while it was registered: still empty, or not ours
            os.rmdir(path)
        else:
            _remove_tree(path)
    os.unlink(marker_file(path))


def _refuse_special(path: str) -> None:
    plain = stat.S_ISDIR(os.lstat(path).st_mode) and os.path.realpath(path) == path
    if path == "/" or not plain:
        raise UndoFailed(f"directory {path}: not removed, it is not a plain directory")
    inside = [m.target for m in mounts() if f"{m.target}/".startswith(f"{path}/")]
    if inside:
        raise UndoFailed(f"directory {path}: not removed, {inside[0]} is a mount point")


def _remove_tree(path: str) -> None:
    import shutil  # only now: the supervisor rarely needs it, and it is slow to import

    shutil.rmtree(path)


# Control groups ----------------------------------------------------------------


def cgroup_members(path: str) -> Iterator[ProcessStat]:
    """The processes of one control group, v1 or v2."""
    try:
        with open(f"{path}/cgroup.procs") as file:
            pids = [int(line) for line in file]
    except OSError:
        return
    for pid in pids:
        if (found := process_stat(pid)) is not None:
            yield found


def remove_cgroup(path: str) -> None:
    """Kill every member and remove the group; nothing where it is gone."""
    if not os.path.isdir(path):
        return
    survivors: list[ProcessId] = kill_all(lambda: cgroup_members(path), _CGROUP_S)
    if survivors:
        raise UndoFailed(f"cgroup {path}: process {survivors[0].pid} cannot be killed")
    _retry_busy(lambda: os.rmdir(path), _CGROUP_S)


def _retry_busy(action: Callable[[], None], timeout_s: float) -> None:
    # A group stays busy for a moment after its last member has died.
    deadline = time.monotonic() + timeout_s
    while True:
        last = time.monotonic() >= deadline  # looked at first: one try begins behind it
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
    import subprocess

    command = ["systemctl", "--user", "stop", name]
    env = {"PATH": os.defpath, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3, check=False)
    if done.returncode not in (0, 5):  # 5: no such unit, it has ended by itself
        raise UndoFailed(f"unit {name}: {done.stderr.strip()}")


def kill_noted_processes(entries: list[Entry], marked: Callable[[], list[ProcessStat]]) -> None:
    """SIGKILL what a dead harness and its dead supervisor left running."""
    noted = {ProcessId(e["pid"], e["start_ticks"]) for e in entries if e["kind"] == "process"}

    def still_there() -> list[ProcessStat]:
        direct = [found for p in noted if (found := process_stat(p.pid)) and found.id in noted]
        return direct + marked()

    survivors = kill_all(still_there, timeout_s=2.0)
    if survivors:
        raise UndoFailed(f"process {survivors[0].pid} does not die of signal {signal.SIGKILL}")
