"""The index of a store: what selects a run, and which of its documents were found valid.

``runs.index`` lies next to the runs and is never the truth: an entry counts while the files it
was made from have the same time, size and inode, and a document is taken as valid while its
digest is the one that was validated. Each line is complete (a checksum and a JSON object),
the last one of a run counts, and lines are only appended. So writers need no lock: a line that a
crash, a full disk or another writer spoils costs one more validation. It may be removed at any
time. Where it cannot be written everything works, slower.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.errors import UsageError
from harness.store import schemas
from harness.store.spec import RunSpec
from harness.supervise.user_files import replacing

FILE = "runs.index"
#: The documents of a run that have a schema of the same name.
DOCUMENTS = ("run", "manifest")
#: Lines that stand for no run any more, above twice as many as runs: then it is written again.
_SLACK_LINES = 1000

#: Modification time, size and inode of each document; None where there is none.
Stamps = list[list[int] | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One run: ``stamps`` and ``digests`` of its documents, and its ``head`` (:func:`head_of`)."""

    stamps: Stamps
    digests: list[str | None]
    head: Mapping[str, Any]

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Entry:
        """As a line has it; ValueError or UsageError for what no entry is."""
        entry = cls(fields["stamps"], fields["digests"], fields["head"])
        head = entry.head
        RunSpec.from_json(head["spec"])
        wrong = [name for name, types in _HEAD_TYPES.items() if not isinstance(head[name], types)]
        texts = [head["experiment"]["name"], head["experiment"]["hash"], *entry.digests]
        if host := head["host"]:
            texts += [host["hostname"], host["host_id"]]
        if wrong or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"another {', '.join(wrong) or 'type'} than an entry has")
        return entry


#: Other members of a head than its spec.
_HEAD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "spec_hash": str,
    "status": str,
    "experiment": dict,
    "started_unix_ns": int,
    "host_mode": str,
    "failed": bool,
    "host": (dict, type(None)),
}


def stamps_of(directory: Path) -> Stamps | None:
    """Of the documents in a run's directory; None where it has no result."""
    stamps: Stamps = []
    for name in DOCUMENTS:
        try:
            facts = (directory / f"{name}.json").stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append([facts.st_mtime_ns, facts.st_size, facts.st_ino])
    return stamps if stamps[0] is not None else None


def digest(content: bytes) -> str:
    """Identifies a document's content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def head_of(run: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What runs are selected by, from run.json and the manifest (empty: no host is known)."""
    names = ("spec", "spec_hash", "status", "experiment", "started_unix_ns", "host_mode")
    host = manifest.get("host")
    return {
        **{name: run[name] for name in names},
        "failed": run["error"] is not None,
        "host": {name: host[name] for name in ("hostname", "host_id")} if host else None,
    }


class StoreIndex:
    """The index of the store in ``root``."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._read: tuple[int, int, int] | None = None
        self._lines = 0
        self._entries: dict[str, Entry] = {}

    def entries(self) -> Mapping[str, Entry]:
        """All entries by the name of the run's directory; empty where there is no index."""
        try:
            facts = self._path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if stamp != self._read:
                self._parse(jsonfile.read_bytes(self._path))
                self._read = stamp
        except OSError:
            self._entries, self._lines, self._read = {}, 0, None
        except ValueError:  # too large, or no regular file: it is written again
            self._entries, self._lines, self._read = {}, sys.maxsize, None
        return self._entries

    def _parse(self, content: bytes) -> None:
        by = _schemas()
        lines = content.split(b"\n")
        self._lines = len(lines)
        self._entries = {}
        for line in lines:
            checksum, text = line[:8], line[9:]
            if not text or checksum != b"%08x" % binascii.crc32(text):
                continue
            # Whatever the line is: the run is read instead.
            with suppress(ValueError, KeyError, TypeError, AttributeError, UsageError):
                fields = jsonfile.parse(text)
                if fields["schemas"] == by:
                    self._entries[fields["run"]] = Entry.from_json(fields)

    def add(self, found: Mapping[str, Entry]) -> None:
        """Append entries; nothing where that cannot be."""
        if not found:
            return
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            flags |= os.O_NONBLOCK  # a FIFO would wait for its reader
            descriptor = os.open(self._path, flags, 0o644)
            try:
                for name, entry in found.items():
                    os.write(descriptor, _line(name, entry))
            finally:
                os.close(descriptor)

    def compact(self, present: Collection[str]) -> None:
        """Write it again without lines that stand for no run, where these are many."""
        if self._lines <= 2 * len(present) + _SLACK_LINES:
            return
        entries = {name: entry for name, entry in self.entries().items() if name in present}
        with suppress(OSError), replacing(self._path, sync=False) as file:
            file.writelines(_line(name, entry) for name, entry in entries.items())


def _line(name: str, entry: Entry) -> bytes:
    fields = {
        "run": name,
        "schemas": _schemas(),
        "stamps": entry.stamps,
        "digests": entry.digests,
        "head": entry.head,
    }
    text = json.dumps(fields, separators=(",", ":")).encode()
    # The leading line break ends a line that another writer's full disk has cut off.
    return b"\n%08x %s\n" % (binascii.crc32(text), text)


def _schemas() -> str:
    """Names the schemas: what was valid by others is validated again."""
    return schemas.fingerprint(DOCUMENTS)
