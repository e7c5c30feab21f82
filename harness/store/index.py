"""The index of a store: the head of each run, by which runs are selected and listed.

``runs.index`` lies next to the runs and is never the truth: the head of a run counts while the
documents that it was made from have the same time, size and inode. A line of it is a digest, a run
id, its stamps and its head; the last one of a run counts. A line that is damaged, or of a release
with other types, does not: its run is read again. The file may be removed at any time.
Where it cannot be written everything works, slower.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from harness import jsonfile
from harness.metrics import metric_files, result_of
from harness.store.result import Emulated, Experiment, Manifest, RunResult, RunStatus
from harness.store.spec import RunSpec
from harness.structs import Struct
from harness.supervise.own_files import appending, replacing

FILE = "runs.index"
#: The documents of a run that its head is from.
DOCUMENTS = ("run", "manifest")

#: The file is written again if this number of its lines, and half of them, do not count.
_FEW = 100


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The head of a run as JSON, and the stamps of the documents that it is from."""

    stamps: bytes
    head: bytes


class HostName(Struct, frozen=True):
    """Name of a host in a list of runs."""

    hostname: str
    host_id: str


class Head(Struct, frozen=True):
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
    result: tuple[str, int | float] | None


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


def head_of(run: RunResult, manifest: Manifest | None) -> Head:
    """Return the head of a run from its documents; without a manifest its host is unknown."""
    values: dict[str, float] = {}
    for metric in run.metrics:
        if metric.value is not None and not metric.labels:
            values.setdefault(metric.name, metric.value)
    return Head(
        spec=run.spec,
        spec_hash=run.spec_hash,
        status=run.status,
        experiment=run.experiment,
        started_unix_ns=run.started_unix_ns,
        host_mode=run.host_mode,
        emulated=run.emulated,
        modelled=run.modelled,
        failed=run.error is not None,
        resumed=bool(run.resumed),
        host=HostName(manifest.host.hostname, manifest.host.host_id) if manifest else None,
        result=result_of(values),
    )


class Index:
    """The entries of a store's index by run id, as they were when they were written."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self.entries: dict[str, IndexEntry] = {}
        self._lines = 0
        with suppress(OSError, ValueError):
            for line in jsonfile.read_bytes(self._path, most_bytes=sys.maxsize).splitlines():
                self._lines += 1
                digest, _, text = line.partition(b"\t")
                if digest == _digest(text):
                    with suppress(ValueError):
                        run_id, stamps, head = text.split(b"\t")
                        self.entries[run_id.decode()] = IndexEntry(stamps, head)

    def update(self, entries: dict[str, IndexEntry]) -> None:
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


def _line(run_id: str, entry: IndexEntry) -> bytes:
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
    """Identify how a head is made, and all types that it and its documents consist of."""
    texts = [path.read_bytes() for path in (Path(__file__), *metric_files())]
    seen: set[Any] = set()
    types = [line for kind in (Head, RunResult, Manifest) for line in _types(kind, seen)]
    return hashlib.blake2b(b"".join([*texts, "\n".join(types).encode()]), digest_size=16).digest()


def _types(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Describe a struct or dataclass, and each type that its members name."""
    seen.add(kind)
    for member, type_ in vars(kind)["__annotations__"].items():
        yield f"{kind.__name__}.{member}: {type_}"
        for name in re.findall(r"\w+", type_):
            named = vars(sys.modules[kind.__module__]).get(name)
            if is_dataclass(named) or (isinstance(named, type) and issubclass(named, Struct)):
                if named not in seen:
                    yield from _types(named, seen)
            elif named is not None and not isinstance(named, FunctionType):  # has an address
                yield f"{name} = {named}"
