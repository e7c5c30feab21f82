"""Room in a memory cap for the files that its processes write to a tmpfs.

A page of a tmpfs is charged to the control group that first touches it and cannot be
reclaimed: below a fixed limit, a log on a tmpfs takes the room of the page cache, and in the
end kills the server, while the device that the tmpfs stands for would hold it. The kernel
cannot charge such pages elsewhere. So the limit follows them: it is always the requested
limit plus the tmpfs pages charged inside the cap, and what is left for the server and its
page cache is the same as where no part is on a tmpfs.

Files that exist when this starts (a restored dataset) were charged to the harness; of those
only the growth counts.

Walking a database's thousands of files every 10 ms would take processor time from what is
measured. Between walks the growth of the whole file system stands in, which may include files
of others until the next walk.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from harness.errors import RunFailed
from harness.host.cgroup import MemoryCap
from harness.host.page_cache import in_memory
from harness.supervise.user_files import opened

#: Pages written between two looks take the room of the page cache: at 1 GB/s, 10 MB.
_INTERVAL_S = 0.01
#: Walking the directories takes at most this share of a processor.
_WALKING_SHARE = 0.01
_BLOCK_BYTES = 512
#: Each level holds a descriptor; no server nests its files this deep.
_DEPTH = 32
#: Allocated bytes by device and inode number.
_Sizes = Counter[tuple[int, int]]
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TmpfsRoom:
    """A thread that moves the limit of ``cap`` with the tmpfs files below ``directories``.

    ``given_bytes``: the room now; ``peak_bytes``: the most so far; ``charged_bytes``: the files
    found by the last walk. All are 0 where no directory is on a tmpfs.
    """

    def __init__(self, cap: MemoryCap, directories: Iterable[Path]) -> None:
        self._cap = cap
        self._directories = [path for path in directories if in_memory(path)]
        self.given_bytes = self.peak_bytes = 0
        self.charged_bytes = self._used = 0  # at the last walk
        self._next_walk = 0.0
        self._outside: _Sizes = Counter()
        self._descriptors: list[int] = []
        self._closing = ExitStack()
        self._stop = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._loop, name="tmpfs room", daemon=True)

    def __enter__(self) -> TmpfsRoom:
        if self._directories and self._cap.path is not None:
            with ExitStack() as stack:
                for path in self._directories:
                    self._descriptors.append(os.open(path, _DIRECTORY))
                    stack.callback(os.close, self._descriptors[-1])
                self._closing = stack.pop_all()
            self._outside = self._sizes()
            self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._closing.close()
        if self._failure is not None and error is None:
            raise RunFailed(
                "keep the memory limit equal for files on a tmpfs",
                f"the limit of {self._cap.path} cannot be changed: {self._failure}",
                "place the log and the temporary files on a device, or leave out --memory-limit",
            ) from self._failure

    def _look(self) -> None:
        """Set the limit to what the files take now."""
        used = self._used_bytes()
        started = time.monotonic()
        if started < self._next_walk:
            room = self.charged_bytes + max(0, used - self._used)
        else:
            sizes = self._sizes()
            self._outside &= sizes  # a file cut short grows again inside the cap
            charged = (sizes - self._outside).total()
            # A walk may miss a file that is being renamed: a limit set too low would kill.
            room, self.charged_bytes, self._used = max(charged, self.charged_bytes), charged, used
            cost = time.monotonic() - started
            self._next_walk = started + max(10 * _INTERVAL_S, cost / _WALKING_SHARE)
        if room == self.given_bytes:
            return
        try:
            self._cap.set_limit(self._cap.limit_bytes + room)
        except OSError as error:
            if room > self.given_bytes or error.errno != errno.EBUSY:
                raise
            return  # nothing could be reclaimed just now
        self.given_bytes = room
        self.peak_bytes = max(self.peak_bytes, room)

    def _loop(self) -> None:
        try:
            while not self._stop.wait(_INTERVAL_S):
                self._look()
        except OSError as error:
            self._failure = error

    def _used_bytes(self) -> int:
        """Pages in use on these file systems, of whatever file."""
        status = {os.fstat(at).st_dev: os.fstatvfs(at) for at in self._descriptors}
        return sum((item.f_blocks - item.f_bfree) * item.f_frsize for item in status.values())

    def _sizes(self) -> _Sizes:
        result: _Sizes = Counter()
        for directory in self._descriptors:
            _add_sizes(directory, result)
        devices = {os.fstat(at).st_dev for at in self._descriptors}
        for pid in self._cap.pids():
            _add_unlinked(pid, devices, result)
        return result


def _add_unlinked(pid: int, devices: set[int], sizes: _Sizes) -> None:
    """Add the sizes of unnamed files that a process has open, such as MySQL's temporary files."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as listing:
        for entry in listing:
            with suppress(OSError):  # closed meanwhile
                status = entry.stat()
                if status.st_nlink == 0 and status.st_dev in devices:
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES


def _add_sizes(directory: int, sizes: _Sizes, depth: int = _DEPTH) -> None:
    """Add sizes of all files below an open directory; the server's user may change it meanwhile.

    Deeper ones do not count: that user's own server has the less room.
    """
    with os.scandir(directory) as listing:
        entries = list(listing)
    for entry in entries:
        try:
            if not entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
            elif depth > 0:
                with opened(entry.name, _DIRECTORY, dir_fd=directory) as below:
                    _add_sizes(below, sizes, depth - 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
