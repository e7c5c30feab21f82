"""The index of a store: the head of each run, by which runs are selected and listed.

``runs.index`` lies next to the runs and is never the truth: the head of a run counts while the
documents that it was made from have the same time, size and inode. A line of it is a digest, a run
id, its stamps and its head; the last one of a run counts. A line that is damaged, or of a release
with other schemas or types, does not: its run is read again. The file may be removed at any time.
Where it cannot be written everything works, slower.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.metrics import metric_files, result_of
from harness.store import schemas
from harness.store.documents import from_members
from harness.store.result import Emulated, Experiment, RunStatus
from harness.store.spec import JsonObject, RunSpec
from harness.supervise.own_files import appending, replacing

FILE = "runs.index"
#: The documents of a run that have a schema of the same name.
DOCUMENTS = ("run", "manifest")

#: The file is written again if this number of its lines, and half of them, do not count.
_FEW = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """The head of a run as JSON, and the stamps of the documents that it is from."""

    stamps: bytes
    head: bytes


@dataclass(frozen=True)
class HostName:
    """Name of a host in a list of runs."""

    hostname: str
    host_id: str


@dataclass(frozen=True)
class Head:
    """Fields by which runs are selected and listed. ``host``: None where it is unknown."""

    spec: RunSpec
    spec_hash: str
    status: RunStatus
    experiment: Experiment
    started_unix_ns: int
    host_mode: str
    emulated: tuple[Emulated, ...]
    modelled: tuple[str, ...]
    failed: bool
    resumed: bool
    host: HostName | None
    result: tuple[str, float] | None


def stamps_of(directory: Path) -> bytes | None:
    """Return modification time, size and inode of each document of a run, for comparison.

    None where it has no result.
    """
    stamps = []
    for name in DOCUMENTS:
        try:
            facts = os.stat(f"{directory}/{name}.json")  # noqa: PTH116  # a path takes as long
        except OSError:
            stamps.append(b"-")
        else:
            stamps.append(b"%d,%d,%d" % (facts.st_mtime_ns, facts.st_size, facts.st_ino))
    return b" ".join(stamps) if stamps[0] != b"-" else None


def head_of(run: JsonObject, manifest: JsonObject) -> Head:
    """Return the head of a run from its valid documents; without a manifest its host is unknown."""
    host: Any = manifest.get("host")
    values: dict[str, float] = {}
    metrics: Any = run["metrics"]
    for metric in metrics:
        if "value" in metric and not metric["labels"]:
            values.setdefault(metric["name"], metric["value"])
    return from_members(
        Head,
        {
            **run,
            "failed": run["error"] is not None,
            "resumed": bool(run.get("resumed")),
            "host": host and {"hostname": host["hostname"], "host_id": host["host_id"]},
            "result": result_of(values),
        },
    )


class Index:
    """The entries of a store's index by run id, as they were when they were written."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self.entries: dict[str, Entry] = {}
        self._lines = 0
        with suppress(OSError, ValueError):
            for line in jsonfile.read_bytes(self._path, most_bytes=sys.maxsize).splitlines():
                self._lines += 1
                digest, _, text = line.partition(b"\t")
                if digest == _digest(text):
                    with suppress(ValueError):
                        run_id, stamps, head = text.split(b"\t")
                        self.entries[run_id.decode()] = Entry(stamps, head)

    def update(self, entries: dict[str, Entry]) -> None:
        """Store the entries of all runs; nothing where that cannot be.

        New ones are appended. The file is written again when most of its lines count no longer.
        """
        new = {i: entry for i, entry in entries.items() if self.entries.get(i) is not entry}
        self.entries = entries
        full = self._lines + len(new) > 2 * len(entries) + _FEW
        with suppress(OSError):
            if full or (new and not self._lines):
                with replacing(self._path, sync=False) as file:
                    file.writelines(_line(run_id, entry) for run_id, entry in entries.items())
                self._lines = len(entries)
            elif new:
                with appending(self._path) as file:
                    file.write(b"".join(_line(run_id, entry) for run_id, entry in new.items()))
                self._lines += len(new)


def _line(run_id: str, entry: Entry) -> bytes:
    """Empty of a run whose name, which its owner gave it, does not fit into a line."""
    if not run_id.isprintable():
        return b""
    text = b"\t".join((run_id.encode(), entry.stamps, entry.head))
    return b"%s\t%s\n" % (_digest(text), text)


def _digest(text: bytes) -> bytes:
    """Identify a line, and the release that its run was valid for."""
    return hashlib.blake2b(text, digest_size=16, key=_release()).hexdigest().encode()


@cache
def _release() -> bytes:
    """Identify the schemas, how a head is made, and all types that it consists of."""
    files = (*sorted(schemas.FOLDER.glob("*.json")), Path(__file__), *metric_files())
    texts = [*(path.read_bytes() for path in files), "\n".join(_types(Head, set())).encode()]
    return hashlib.blake2b(b"".join(texts), digest_size=16).digest()


def _types(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Describe a dataclass, and each type that its fields name."""
    seen.add(kind)
    for each in fields(kind):
        yield f"{kind.__name__}.{each.name}: {each.type}"
        for name in re.findall(r"\w+", str(each.type)):
            named = vars(sys.modules[kind.__module__]).get(name)
            if is_dataclass(named) and named not in seen:
                yield from _types(named, seen)
            elif named is not None and not is_dataclass(named):
                yield f"{name} = {named}"
