"""A third user turns on root and on the servers' user: whoever watches their directories' parents.

``python watcher.py SPEC``: becomes the user, says "ready", and until its input ends races each new
name: it makes a directory of the name that a marker announces, moves away what it may, makes the
next name, puts links and files at known names into what it can write. Then it prints what it won
(JSON): the things of its own that another user opened or filled, and what it took from another.
SPEC (JSON): uid, gid, folders (to watch), names (that it knows), foreseen (paths that it makes
first), folder (root's own, to link to).
"""

import contextlib
import ctypes
import json
import os
import select
import struct
import sys
from typing import Any

_CREATE, _MOVED_TO, _OPEN, _MODIFY = 0x100, 0x80, 0x20, 0x2
_EVENT = struct.Struct("iIII")
_SUFFIXES = (".tierbench", ".partial", ".lock", ".journal")
_libc = ctypes.CDLL(None, use_errno=True)


class Watcher:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.uid = spec["uid"]
        self.descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.paths: dict[int, str] = {}
        self.planted: set[str] = set()
        self.won: list[str] = []
        self.seen = 0

    def watch(self, path: str, mask: int) -> bool:
        number: int = _libc.inotify_add_watch(self.descriptor, os.fsencode(path), mask)
        if number >= 0:
            self.paths[number] = path
        return number >= 0

    def begin(self) -> None:
        for folder in self.spec["folders"]:
            if not self.watch(folder, _CREATE | _MOVED_TO):
                sys.exit(f"{folder} cannot be watched")
            for name in self.spec["names"]:
                self.plant(os.path.join(folder, name))
        for path in self.spec["foreseen"]:
            self.plant(path)

    def race(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.register(0, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll()}
            if self.descriptor in ready:
                self.read()
            elif 0 in ready:
                return

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            events = os.read(self.descriptor, 1 << 16)
            while events:
                number, mask, _, length = _EVENT.unpack_from(events)
                end = _EVENT.size + length
                name = os.fsdecode(events[_EVENT.size : end].rstrip(b"\0"))
                events = events[end:]
                if path := self.paths.get(number):
                    self.happened(path, name, mask)

    def happened(self, path: str, name: str, mask: int) -> None:
        if path in self.planted:
            inner = os.path.join(path, name) if name else path
            if inner not in self.planted:
                self.won.append(f"used: {inner} ({mask:#x})")
            return
        self.seen += 1
        new = os.path.join(path, name)
        if new not in self.planted:
            self.attack(path, name)

    def attack(self, folder: str, name: str) -> None:
        for suffix in _SUFFIXES:
            if name.endswith(suffix):
                self.plant(os.path.join(folder, name.removesuffix(suffix).lstrip(".")))
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if os.lstat(path).st_uid == self.uid:
                return
            os.rename(path, f"{path}.taken")
            self.won.append(f"moved: {path}")
            self.plant(path)
        self.plant(os.path.join(folder, f".{name}.tierbench"), directory=False)
        self.plant(os.path.join(folder, f".{name}.partial"), directory=False)
        head, _, number = name.rpartition("-")
        if number.isdecimal():
            self.plant(os.path.join(folder, f"{head}-{int(number) + 1}"))
        with contextlib.suppress(OSError):
            self.watch(path, _CREATE | _MOVED_TO)  # where it may look
            for inner in self.spec["names"]:
                self.plant(os.path.join(path, inner))

    def plant(self, path: str, directory: bool = True) -> None:
        """A directory (or, in a turn, a link to a directory) of its own, watched from now on."""
        with contextlib.suppress(OSError):
            if not directory:
                os.symlink(os.path.join(self.spec["folder"], "new"), path)
                self.planted.add(path)
                return
            os.mkdir(path, 0o777)
            os.chmod(path, 0o777)
            self.planted.add(path)
            for name in self.spec["names"]:
                inner = os.path.join(path, name)
                with open(inner, "xb") as file:
                    os.fchmod(file.fileno(), 0o777)
                self.planted.add(inner)
            self.watch(path, _CREATE | _MOVED_TO)
            for name in self.spec["names"]:
                self.watch(os.path.join(path, name), _OPEN | _MODIFY)

    def end(self) -> None:
        for path in self.planted:
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid != self.uid:
                    self.won.append(f"filled: {path}")
        for path in sorted(self.planted, reverse=True):
            with contextlib.suppress(OSError):
                (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)


def main() -> None:
    spec = json.loads(sys.argv[1])
    os.umask(0)
    os.setgroups([])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    watcher = Watcher(spec)
    watcher.begin()
    print("ready", flush=True)
    watcher.race()
    watcher.read()
    watcher.end()
    print(json.dumps({"won": watcher.won, "seen": watcher.seen}), flush=True)


if __name__ == "__main__":
    main()
