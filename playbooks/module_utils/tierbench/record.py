"""The record /var/lib/harness/provisioning.json: the earlier state and our objects.

Written and synced before each change, so that a run after a power failure knows the intention.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .commands import Refused, StepFailed

#: Of every record here.
SCHEMA = 1


@dataclass
class Record:
    """Kept for as long as anything of ours is on the host."""

    #: Region to ``{labelled, namespaces: [{mode, raw_bytes, label, map, sector_size,
    #: align_bytes}]}``, as we first found it.
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: UUID of each of our namespaces to ``{mode, requested_bytes, serves}``. ``serves``: the set-up
    #: mode it is for; in one that serves system-ram, no program stores data.
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: UUIDs of file systems we made to ``{point, block_size}``. We choose the UUID, so that it is
    #: on record before mkfs begins: a finished file system is known as ours whatever happens then.
    filesystems: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: What a run under way may destroy: name to UUID (empty where the namespace has none).
    approved: dict[str, str] = field(default_factory=dict)
    #: UUID of the namespace of which signatures are wiped, or on which a file system is made, and
    #: the UUID of that file system: whatever else is found on it is of before.
    making: str | None = None
    making_filesystem: str | None = None
    #: Region in which a namespace is being made: one of ours in it that is not on record was
    #: made by a run that was cut off.
    creating: str | None = None
    #: The mode of the set-up that it is made for.
    creating_for: str | None = None
    #: Mount points that we made.
    folders: list[str] = field(default_factory=list)
    #: The kernel parameter ``memmap=`` that we add: recorded before the boot loader changes, so
    #: that it can be taken back, and done once the boot loader has it.
    memmap: str | None = None
    memmap_done: bool = False
    #: What the firmware's goal was before.
    goal_before: str | None = None
    #: The goal that we requested last, and the boot of the request.
    requested_goal: str | None = None
    goal_boot: str | None = None
    host_file_made: bool = False
    #: DAX devices on no NVDIMM that we made memory nodes to ``{size_bytes, target_node}``.
    dax: dict[str, dict[str, int | None]] = field(default_factory=dict)
    #: CXL regions that we made, by the capacity that they take (cxl.py), to ``{serves, uuid,
    #: boot}``: a volatile one ends with a restart, a persistent one is made again with its UUID.
    cxl: dict[str, dict[str, str | None]] = field(default_factory=dict)
    #: Regions whose labels we zeroed, to the boot of that: the kernel shows them as labelled until
    #: the next.
    zeroed: dict[str, str] = field(default_factory=dict)

    def made(self, uuid: str, mode: str, requested_bytes: int | None, serves: str) -> None:
        """A namespace of ours; nothing is being made any more that is not on record."""
        self.namespaces[uuid] = {"mode": mode, "requested_bytes": requested_bytes, "serves": serves}
        self.creating = self.creating_for = None

    @property
    def points(self) -> set[str]:
        """Mount points of the file systems we made."""
        return {each["point"] for each in self.filesystems.values()}

    @property
    def blank(self) -> bool:
        """Return whether nothing of ours is on the host."""
        return self == Record(zeroed=self.zeroed)


# Reading ---------------------------------------------------------------------------


def load_record(path: Path) -> Record:
    """The record; a blank one where there is none. ValueError where it cannot be understood."""
    try:
        return Record(**(read_document(path, _FORMS) or {}))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


#: Whether a value has a form.
Form = Callable[[Any], bool]


def read_document(
    path: Path, forms: Mapping[str, Form], required: Iterable[str] = ()
) -> dict[str, Any] | None:
    """The members of a document of ours, without its schema; None where there is none.

    ValueError where it cannot be read, or we cannot have written it.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
        raise ValueError(f"no record of schema {SCHEMA}")
    for name in required:
        if name not in document:
            raise ValueError(f"{name} is missing")
    for name, value in document.items():
        if name not in forms:
            raise ValueError(f"unknown field {name!r}")
        if not forms[name](value):
            raise ValueError(f"{name} is malformed: {str(value)[:200]!r}")
    return document


def matches(pattern: str) -> Form:
    """A text that the pattern matches as a whole."""
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def number_below(end: int) -> Form:
    """A whole number from 0 to before ``end``."""
    return lambda value: type(value) is int and 0 <= value < end


def rows_of(form: Form) -> Form:
    """A list of values of one form."""
    return lambda value: isinstance(value, list) and all(map(form, value))


def members(**forms: Form) -> Form:
    """An object of exactly these members."""
    return lambda value: (
        isinstance(value, dict)
        and set(value) == set(forms)
        and all(form(value[name]) for name, form in forms.items())
    )


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _optional(form: Form) -> Form:
    return lambda value: value is None or form(value)


def _by(key: Form, form: Form) -> Form:
    return lambda value: (
        isinstance(value, dict) and all(map(key, value)) and all(map(form, value.values()))
    )


_COUNT = number_below(1 << 63)
_WORD = matches(r"[\x21-\x7e]{1,255}")
_PHRASE = matches(r"[\x20-\x7e]{0,255}")
_REGION = matches(r"region\d+")
#: Without a space, which would end the field of fstab(5).
_POINT = matches(r"(/[^/\s\x00-\x1f\ud800-\udfff]+)+")
_LABEL = matches(r"[^\x00\ud800-\udfff]*")
_MODE = matches(r"raw|fsdax|sector|devdax")
_FORMS: dict[str, Form] = {
    "before": _by(
        _REGION,
        members(
            labelled=_flag,
            namespaces=rows_of(
                members(
                    mode=_MODE,
                    raw_bytes=_COUNT,
                    label=_optional(_LABEL),
                    map=_optional(matches("dev|mem")),
                    sector_size=_optional(_COUNT),
                    align_bytes=_optional(_COUNT),
                )
            ),
        ),
    ),
    "namespaces": _by(_WORD, members(mode=_MODE, requested_bytes=_optional(_COUNT), serves=_WORD)),
    "filesystems": _by(_WORD, members(point=_POINT, block_size=_COUNT)),
    "approved": _by(_WORD, _PHRASE),
    "making": _optional(_WORD),
    "making_filesystem": _optional(_WORD),
    "creating": _optional(_REGION),
    "creating_for": _optional(_WORD),
    "folders": rows_of(_POINT),
    "memmap": _optional(matches(r"memmap=[0-9A-Za-z!,]+")),
    "memmap_done": _flag,
    "goal_before": _optional(matches(r"\d{1,3} \w+( \d{1,3})?")),
    "requested_goal": _optional(_PHRASE),
    "goal_boot": _optional(_PHRASE),
    "host_file_made": _flag,
    "dax": _by(
        matches(r"dax\d+\.\d+"),
        members(size_bytes=_optional(_COUNT), target_node=_optional(_COUNT)),
    ),
    "cxl": _by(_PHRASE, members(serves=_WORD, uuid=_optional(_WORD), boot=_PHRASE)),
    "zeroed": _by(_REGION, _PHRASE),
}


# Writing ---------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """One run at a time changes what this record is of; Refused where no record could be kept
    there, or another run changes it and this one is not to ``wait``.
    """
    lock = f"{path}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = f"cannot write the record: {lock}: {error.strerror or error}"
        raise Refused("host", why, "make its file system writable, with free space") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Refused("host", f"another run holds {lock}", "wait for it to end") from None
        yield
    finally:
        os.close(descriptor)


def save_record(record: Record, path: Path) -> None:
    """Replace the record at once, durably; an empty one is removed. StepFailed where it cannot."""
    if record == Record():
        remove_durably(path)
        return
    write_durably(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=2) + "\n", 0o600)


def write_durably(path: Path, text: str, mode: int) -> None:
    """As :func:`replace_file`; StepFailed where the file cannot be written."""
    try:
        replace_file(path, text, mode)
    except OSError as error:
        raise unwritable(path, error) from error


def remove_durably(path: Path) -> None:
    """As :func:`delete_file`; StepFailed where the file cannot be removed."""
    try:
        delete_file(path)
    except OSError as error:
        raise unwritable(path, error) from error


def replace_file(path: Path, text: str, mode: int) -> None:
    """Temporary file, fsync, rename, fsync of the folder; an old file keeps its owner and mode.

    After an OSError the file is whole, old or new.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(path))
    partial = _partial(target)
    try:
        _write(partial, target, text, mode)
        os.replace(partial, target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def delete_file(path: Path) -> None:
    """Remove a file, and the temporary file of an interrupted write."""
    _partial(path).unlink(missing_ok=True)
    if path.exists():
        path.unlink()
        _sync_folder(path.parent)


def _partial(target: Path) -> Path:
    """Always the same name, so that an interrupted write leaves at most one file."""
    return target.with_name(f".{target.name}.tierbench")


def _write(partial: Path, target: Path, text: str, mode: int) -> None:
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        if target.exists():
            status = target.stat()
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def unwritable(path: Path, error: OSError) -> StepFailed:
    """Return the failure to write a file."""
    return StepFailed(
        str(path),
        f"cannot be written: {error.strerror or error}",
        "make its file system writable, with free space; then rerun",
    )
