"""The kernel as a source of facts: /proc, /sys, statvfs and statx, under one root.

Standard library only: this runs with a plain python3 on servers where nothing is
installed. Tests read recorded trees through the same class.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_STATX_ATTR_DAX = 0x0020_0000  # linux/stat.h
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_STATX_SIZE = 256
_STATX_ATTRIBUTES = 8  # offsets into struct statx
_STATX_ATTRIBUTES_MASK = 56
_READ_BYTES = 1 << 16
#: How many entries of a directory that cannot be written are searched for a file.
_SEARCHED = 1000


@dataclass(frozen=True)
class Space:
    """statvfs of a file system: bytes in all, and free to an unprivileged user."""

    size_bytes: int
    free_bytes: int
    block_size_bytes: int


@dataclass(frozen=True)
class DaxAnswer:
    """STATX_ATTR_DAX of a regular file; ``dax`` None: nothing to ask, ``how`` says why."""

    dax: bool | None
    how: str


class Kernel:
    """Facts of the running kernel, or of a recorded tree below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """``/sys/…`` or ``/proc/…`` below the root."""
        return self.root / name.lstrip("/")

    def read(self, name: str | Path) -> str | None:
        """The stripped text of a small file, None where there is none or it may not be read."""
        path = self.path(name) if isinstance(name, str) else name
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            # By system calls: monitors read while an engine is measured.
            parts = iter(lambda: os.read(file, _READ_BYTES), b"")
            return b"".join(parts).decode(errors="replace").strip()
        except OSError:
            return None
        finally:
            os.close(file)

    def read_int(self, name: str | Path) -> int | None:
        """A number from a small file (decimal or 0x…)."""
        text = self.read(name)
        try:
            return int(text, 0) if text else None
        except ValueError:
            return None

    def names(self, name: str | Path) -> list[str]:
        """Sorted names in a directory; empty where it does not exist."""
        path = self.path(name) if isinstance(name, str) else name
        try:
            return sorted(entry.name for entry in path.iterdir())
        except OSError:
            return []

    def available_memory_bytes(self) -> int | None:
        """MemAvailable: what a tmpfs can really still hold."""
        return self.meminfo().get("MemAvailable")

    def meminfo(self) -> dict[str, int]:
        result: dict[str, int] = {}
        for line in (self.read("/proc/meminfo") or "").splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if words and words[0].isdigit():
                result[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
        return result

    # What depends on a live path -------------------------------------------------

    def mount_id(self, path: Path) -> int | None:
        """The id in mountinfo of the mount that ``path`` is reached through."""
        try:
            fd = os.open(path, os.O_PATH)
        except OSError:
            return None
        try:
            text = Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii")
        except OSError:
            return None
        finally:
            os.close(fd)
        ids = [line.split()[1] for line in text.splitlines() if line.startswith("mnt_id:")]
        return int(ids[0]) if ids else None

    def space(self, path: Path) -> Space:
        """Size and free space of the file system that ``path`` is on."""
        answer = os.statvfs(path)
        return Space(
            answer.f_blocks * answer.f_frsize, answer.f_bavail * answer.f_frsize, answer.f_bsize
        )

    def device_number(self, device: str) -> str | None:
        """``major:minor`` of a device node."""
        try:
            rdev = Path(device).stat().st_rdev
        except OSError:
            return None
        return f"{os.major(rdev)}:{os.minor(rdev)}" if rdev else None

    def dax(self, path: Path) -> DaxAnswer:
        """Return whether a file made in directory ``path`` bypasses the page cache.

        Made where that is possible (as an unnamed file, which a kill cannot
        leave there), else the first regular file found there is examined.
        """
        try:
            with _probe_file(path) as fd:
                return DaxAnswer(statx_dax(fd), "statx of a file made there")
        except OSError as error:
            reason = error.strerror or str(error)
        existing = _some_file(path)
        if existing is None:
            return DaxAnswer(None, f"no file can be made there ({reason}) and none is there to ask")
        return DaxAnswer(
            statx_dax(existing), f"statx of {existing.name}; no file can be made there ({reason})"
        )


@contextmanager
def _probe_file(directory: Path) -> Iterator[int]:
    try:
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        fd = _unlinked_file(directory)
    try:
        yield fd
    finally:
        os.close(fd)


def _unlinked_file(directory: Path) -> int:
    """A new file that has no name any more; by descriptor, so that no other is made or removed."""
    above = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = f".harness-probe-{secrets.token_hex(8)}"
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=above)
        os.unlink(name, dir_fd=above)
    finally:
        os.close(above)
    return fd


def _some_file(directory: Path) -> Path | None:
    try:
        with os.scandir(directory) as entries:
            for entry in islice(entries, _SEARCHED):
                if entry.is_file(follow_symlinks=False):
                    return Path(entry.path)
    except OSError:
        return None
    return None


def statx_dax(file: int | Path) -> bool | None:
    """STATX_ATTR_DAX of an open file or a path.

    None where the kernel or the C library has no statx, or where the file system
    does not say whether it uses DAX (statx(2), ``stx_attributes_mask``).
    """
    try:
        function = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if isinstance(file, int):
        failed = function(file, b"", _AT_EMPTY_PATH, 0, buffer)
    else:
        failed = function(_AT_FDCWD, os.fsencode(file), 0, 0, buffer)
    if failed:
        return None
    attributes, mask = (
        int.from_bytes(buffer.raw[at : at + 8], sys.byteorder)
        for at in (_STATX_ATTRIBUTES, _STATX_ATTRIBUTES_MASK)
    )
    return bool(attributes & _STATX_ATTR_DAX) if mask & _STATX_ATTR_DAX else None


#: The kernel we run on.
LIVE = Kernel()
