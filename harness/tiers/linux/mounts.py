"""Mounts in /proc/self/mountinfo (proc(5)), and the mount of a path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the supervisor process reads mounts too, and nothing else of this package
    from .kernel import Kernel

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo.

    ``root``: the directory of the file system that is mounted: not ``/`` for a
    bind mount. ``device_number``: ``major:minor``, major 0 where no block device
    is mounted. ``options``: of the mount, then of the file system, each once.
    """

    id: int
    parent: int
    device_number: str
    root: str
    point: str
    options: tuple[str, ...]
    filesystem: str
    source: str

    @property
    def read_only(self) -> bool:
        """Either the mount or the file system takes no writes."""
        return "ro" in self.options


def parse_mountinfo(text: str) -> list[Mount]:
    """All mounts in the order they were made; lines that are not mounts are refused."""
    return [_parse_line(line) for line in text.splitlines() if line.strip()]


def _parse_line(line: str) -> Mount:
    fields = line.split(" ")
    dash = fields.index("-", 6)  # optional fields end with a lone dash
    filesystem, source, super_options = (*fields[dash + 1 :], "", "", "")[:3]
    options = dict.fromkeys(fields[5].split(",") + super_options.split(","))
    if "ro" in options:
        options.pop("rw", None)
    return Mount(
        id=int(fields[0]),
        parent=int(fields[1]),
        device_number=fields[2],
        root=_unescape(fields[3]),
        point=_unescape(fields[4]),
        options=tuple(_unescape(option) for option in options if option),
        filesystem=filesystem,
        source=_unescape(source),
    )


def _unescape(text: str) -> str:
    """Octal escapes of blank, tab, newline and backslash; UTF-8 passes as it is."""
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


def mounts(kernel: Kernel) -> list[Mount]:
    """Mounts that this process sees."""
    return parse_mountinfo(kernel.read("/proc/self/mountinfo") or "")


def mount_of(path: Path, kernel: Kernel) -> Mount | None:
    """The mount that the resolved ``path`` is on.

    The kernel's own answer (the mount id of an opened path) where possible;
    for a recorded tree the longest mount point above the path, the last mounted
    one of equals, because it covers the others.
    """
    every = mounts(kernel)
    number = kernel.mount_id(path)
    for mount in every:
        if mount.id == number:
            return mount
    return longest_match(str(path), every)


def longest_match(path: str, every: Sequence[Mount]) -> Mount | None:
    """The mount with the longest point that is ``path`` or above it."""
    best = None
    for mount in every:
        above = mount.point.rstrip("/") + "/"
        if (path == mount.point or path.startswith(above)) and (
            best is None or len(mount.point) >= len(best.point)
        ):
            best = mount
    return best
