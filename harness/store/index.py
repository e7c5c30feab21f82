"""The index of a store: the head of each run, by which runs are selected and listed.

``runs.index`` lies next to the runs and is never the truth: the head of a run counts while the
documents that it was made from have the same time, size and inode. The file may be removed at any
time; one that is damaged, or of a release with other schemas, is made again. Where it cannot be
written everything works, slower.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import jsonfile
from harness.store import schemas
from harness.store.result import Emulated, Experiment, Manifest, RunResult, RunStatus
from harness.store.spec import JsonObject, RunSpec
from harness.supervise.user_files import replacing

FILE = "runs.index"
#: The documents of a run that have a schema of the same name.
DOCUMENTS = ("run", "manifest")
#: The result of a run in a list is the first of these metrics that it has.
RESULTS = (
    "queries_duration_ns",
    "new_orders_per_minute",
    "operations_per_second",
    "recovery_duration_ns",
)

#: Modification time, size and inode of each document; None where there is none.
Stamps = list[list[int] | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """The head of a run as JSON, and the stamps of the documents that it is from."""

    stamps: Stamps
    head: JsonObject


@dataclass(frozen=True)
class HostName:
    """What a list of runs shows of their host."""

    hostname: str
    host_id: str


@dataclass(frozen=True)
class Head:
    """What runs are selected and listed by. ``host``: None where it is unknown."""

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


def stamps_of(directory: Path) -> Stamps | None:
    """Return the stamps of the documents in a run's directory; None where it has no result."""
    stamps: Stamps = []
    for name in DOCUMENTS:
        try:
            facts = (directory / f"{name}.json").stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append([facts.st_mtime_ns, facts.st_size, facts.st_ino])
    return stamps if stamps[0] is not None else None


def head_of(run: RunResult, manifest: Manifest | None) -> Head:
    """Return the head of a run; without a manifest its host is unknown."""
    host = manifest.host if manifest else None
    values = ((name, run.value(name)) for name in RESULTS)
    return Head(
        run.spec,
        run.spec_hash,
        run.status,
        run.experiment,
        run.started_unix_ns,
        run.host_mode,
        run.emulated,
        run.modelled,
        failed=run.error is not None,
        resumed=bool(run.resumed),
        host=HostName(host["hostname"], host["host_id"]) if host else None,
        result=next(((name, value) for name, value in values if value is not None), None),
    )


def read(root: Path) -> dict[str, Entry]:
    """Return the entries of a store's index by run id; none where it has no valid index."""
    try:
        digest, _, text = jsonfile.read_bytes(root / FILE).partition(b"\n")
        entries = jsonfile.parse(text) if digest == _digest(text) else {}
    except (OSError, ValueError):
        return {}
    return {run_id: Entry(stamps, head) for run_id, (stamps, head) in entries.items()}


def write(root: Path, entries: Mapping[str, Entry]) -> None:
    """Replace a store's index; nothing where that cannot be."""
    pairs = {run_id: (entry.stamps, entry.head) for run_id, entry in entries.items()}
    text = json.dumps(pairs, separators=(",", ":")).encode()
    with suppress(OSError), replacing(root / FILE, sync=False) as file:
        file.write(_digest(text) + b"\n" + text)


def _digest(text: bytes) -> bytes:
    """Identify an index, and the schemas by which its runs were valid."""
    return hashlib.blake2b(text, digest_size=16, key=_schemas()).hexdigest().encode()


@cache
def _schemas() -> bytes:
    texts = (path.read_bytes() for path in sorted(schemas.FOLDER.glob("*.json")))
    return hashlib.blake2b(b"".join(texts), digest_size=16).digest()
