"""What was there before and what we made: /var/lib/harness/provisioning.json on the host.

Written, and synced, before the change that it tells of, so that whoever comes after a power
failure knows what we were about.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_SCHEMA = 1


@dataclass
class Record:
    """Kept for as long as anything of ours is on the host."""

    #: Region to ``{labelled, namespaces: [{mode, raw_bytes, label, map, sector_size,
    #: align_bytes}]}``, as we first found it.
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: UUIDs of namespaces we made to ``{mode, asked_bytes, serves}``. ``serves``: the mode (of
    #: wish.py) that it was made for, or was given to since; system-ram: nobody keeps things in it.
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: UUIDs of file systems we made to their mount points.
    filesystems: dict[str, str] = field(default_factory=dict)
    #: What a run under way may destroy: name to UUID (empty where the namespace has none).
    approved: dict[str, str] = field(default_factory=dict)
    #: UUID of the namespace on which a file system is being made: there is none yet.
    making: str | None = None
    #: Region in which a namespace is being made: one of ours in it that is not on record was
    #: made by a run that was cut off.
    creating: str | None = None
    #: The mode of the set-up that it is made for.
    creating_for: str | None = None
    #: Mount points that we made.
    folders: list[str] = field(default_factory=list)
    #: The kernel parameter ``memmap=`` that we add: on record before the boot loader is told, so
    #: that it can be taken back, and done once the boot loader has it.
    memmap: str | None = None
    memmap_done: bool = False
    #: What the firmware's goal was before.
    goal_before: str | None = None
    #: The goal that we asked for last, and the boot that we asked in.
    goal_asked: str | None = None
    goal_boot: str | None = None
    host_file_made: bool = False
    #: DAX devices on no NVDIMM that we made memory nodes to ``{size_bytes, target_node}``.
    dax: dict[str, dict[str, int | None]] = field(default_factory=dict)
    #: Regions whose labels we zeroed to the boot we did it in: until the next, the kernel goes on
    #: to show them as labelled.
    zeroed: dict[str, str] = field(default_factory=dict)

    def made(self, uuid: str, mode: str, asked_bytes: int | None, serves: str) -> None:
        """A namespace of ours; nothing is being made any more that is not on record."""
        self.namespaces[uuid] = {"mode": mode, "asked_bytes": asked_bytes, "serves": serves}
        self.creating = self.creating_for = None

    @property
    def blank(self) -> bool:
        """Whether nothing of ours is on the host."""
        return self == Record(zeroed=self.zeroed)


def load_record(path: Path) -> Record:
    """The record; a blank one where there is none. ValueError where it cannot be understood."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Record()
    try:
        told = json.loads(text)
        if told.pop("schema") != _SCHEMA:
            raise ValueError("of another version")
        return Record(**told)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from error


def save_record(record: Record, path: Path) -> None:
    """Replace the record at once, durably; an empty one is removed."""
    if record == Record():
        path.unlink(missing_ok=True)
        return
    write_durably(path, json.dumps({"schema": _SCHEMA, **asdict(record)}, indent=2) + "\n", 0o600)


def write_durably(path: Path, text: str, mode: int) -> None:
    """Beside, fsync, rename, fsync of the folder; a file that is there keeps its owner and mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()
    fd, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if target.exists():
                status = target.stat()
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
