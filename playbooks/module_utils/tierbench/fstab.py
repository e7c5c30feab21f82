"""Our lines of /etc/fstab, marked by the option ``x-tierbench`` (which mount(8) ignores)."""

from __future__ import annotations

from .desired_state import DesiredState

_OURS = "x-tierbench"


def mount_options(desired: DesiredState) -> str:
    """Options of mount(8). ``dax=never`` rather than none: an inode flag could enable DAX."""
    if desired.namespace_mode != "fsdax":
        return "noatime"
    return "noatime,dax" if desired.dax else "noatime,dax=never"


def our_line(uuid: str, point: str, desired: DesiredState) -> str:
    """By UUID, since device names may change; ``nofail``: a host without it still boots."""
    options = f"{mount_options(desired)},nofail,{_OURS}"
    return f"UUID={uuid} {point} {desired.filesystem} {options} 0 2"


def entries(text: str) -> list[list[str]]:
    """The fields of every line that is one."""
    lines = (line.split("#", 1)[0].split() for line in text.splitlines())
    return [fields for fields in lines if len(fields) >= 3]


def is_ours(fields: list[str]) -> bool:
    """Return whether we wrote the line."""
    return len(fields) > 3 and _OURS in fields[3].split(",")


def foreign_line(text: str, point: str) -> str | None:
    """A foreign line for the same mount point."""
    for fields in entries(text):
        if fields[1] == point and not is_ours(fields):
            return " ".join(fields)
    return None


def has_line(text: str, line: str) -> bool:
    """Return whether the line is there, alone of ours for its mount point."""
    wanted = line.split()
    return [e for e in entries(text) if e[1] == wanted[1] and is_ours(e)] == [wanted]


def our_points(text: str) -> list[str]:
    """Mount points of our lines."""
    return [fields[1] for fields in entries(text) if is_ours(fields)]


def points_of(text: str, uuid: str) -> list[str]:
    """Mount points of our lines of one file system."""
    return [e[1] for e in entries(text) if e[0] == f"UUID={uuid}" and is_ours(e)]


def with_line(text: str, line: str) -> str:
    """The text with the line in place of ours for its mount point or its file system."""
    source, point = line.split()[:2]
    for fields in entries(text):
        if is_ours(fields) and fields[0] == source:
            text = without_point(text, fields[1])
    existing = without_point(text, point)
    return existing + ("" if not existing or existing.endswith("\n") else "\n") + line + "\n"


def without_point(text: str, point: str) -> str:
    """The text without our line for the mount point; all others stay as they are."""
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not (is_ours(fields := line.split()) and fields[1] == point)
    )
