"""Bringing runs into this store, from an archive or from another results directory.

Each run is copied next to the store, read as any stored run is (schemas and all), synced, and
renamed into place: the store has whole runs or nothing of them. A run that is there already
stays as it is; of two different runs with one name, the one that comes is named ``<id>@<from>``.
A result that was rescued (harness.store.rescue) completes the unfinished run that it is of.

JSON of runs packs ten to thirty times. An archive that unpacks to far more is refused as soon as
that shows: headers count too, so that neither size nor number of files nor a name is without limit.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import shutil
import socket
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness import jsonfile
from harness.errors import HarnessError, UsageError
from harness.store.checkpoint import FILE as STEPS_FILE
from harness.store.checkpoint import under_way
from harness.store.documents import write_json_atomically
from harness.store.rescue import is_rescued
from harness.store.run_store import Store
from harness.store.runs import ORIGIN_FILE, StoredRun
from harness.supervise import workdirs
from harness.supervise.own_files import sync_path
from harness.units import format_bytes

#: What an archive may unpack to: this, or this many times its own size.
_LIMIT_BYTES, _LIMIT_TIMES = 64 << 20, 100
#: Of runs and hosts: a plain name, without control characters, in any directory.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,@+-]{0,254}")
#: Folders in folders within a run.
_MOST_FOLDERS = 8


@dataclass(frozen=True)
class Imported:
    """``new``: what is in the store now; ``present``: what was there before, by run id."""

    new: tuple[StoredRun, ...]
    present: tuple[str, ...]


def import_runs(
    source: Path, store: Store, origin: str = "elsewhere", limit_bytes: int | None = None
) -> Imported:
    """All runs of a ``.tar.gz`` or a results directory; UsageError where one of them is no run.

    Nothing is imported then. ``origin``: the host it comes from; ``limit_bytes``: what an archive
    may unpack to, None for 64 MiB or a hundred times its own size.
    """
    problem = f"import {source}"
    if not _NAME.fullmatch(origin):
        raise UsageError(
            f"--from {origin!r}",
            "it becomes a part of names of directories",
            "use letters, digits and . _ = , @ + - (at most 255)",
        )
    store.make()
    # Another host that shares the store does not see whether one of ours is still in use.
    with workdirs.temporary(store.root, f".import-{socket.gethostname()}") as work:
        if source.is_dir():
            _copy(source, work, problem)
        else:
            _unpack(source, work, problem, limit_bytes)
        runs = [StoredRun(folder) for folder in sorted(work.iterdir())]
        if not runs:
            raise UsageError(problem, "there is no run in it", "make it with harness runs export")
        rescued = is_rescued(source)
        return _taken_over([_read(run, problem) for run in runs], store, origin, rescued)


class _Limited(io.RawIOBase):
    """Contents of a stream, up to ``limit_bytes``; UsageError beyond."""

    def __init__(self, stream: io.BufferedIOBase, limit_bytes: int, problem: str) -> None:
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._left = limit_bytes
        self._problem = problem

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise UsageError(
                self._problem,
                f"it unpacks to more than {format_bytes(self._limit_bytes)}",
                "say --max-size if you trust it",
            )
        return content


def _copy(source: Path, work: Path, problem: str) -> None:
    """Copy the finished runs of a results directory, without what observers' programs wrote."""

    def copy(file: str, target: str) -> None:
        Path(target).write_bytes(jsonfile.read_bytes(Path(file)))
        sync_path(Path(target))

    try:
        for run in (source / "runs").iterdir():
            if (run / "run.json").exists():
                skipped = shutil.ignore_patterns("observers")
                shutil.copytree(run, work / run.name, True, skipped, copy)
        copied = [(path, path.relative_to(work)) for path in work.rglob("*")]
    except (OSError, ValueError) as error:
        raise UsageError(problem, str(error), "name a results directory") from error
    for path, name in copied:
        if path.is_symlink() or not str(name).isprintable():
            raise UsageError(problem, f"{str(name)!r} does not belong into a run", "remove it")


def _unpack(archive: Path, work: Path, problem: str, limit_bytes: int | None) -> None:
    """Plain files below ``<run>/`` alone: links, devices and ways out of it are refused."""
    do = "make it with harness runs export"
    try:
        limit = limit_bytes or max(_LIMIT_BYTES, _LIMIT_TIMES * archive.stat().st_size)
        with (
            gzip.open(archive) as content,
            tarfile.open(fileobj=_Limited(content, limit, problem), mode="r|") as packed,
        ):
            for member in packed:
                parts = PurePosixPath(member.name).parts
                plain = (member.isfile() or member.isdir()) and not member.issparse()
                plain &= member.name.isprintable()
                if not plain or not parts or member.name.startswith("/") or ".." in parts:
                    context = f"{member.name!r} does not belong into an archive of runs"
                    raise UsageError(problem, context, do)
                loose = member.isfile() and len(parts) == 1
                if parts[0].startswith(".") or loose or len(parts) > _MOST_FOLDERS:
                    raise UsageError(problem, f"{member.name!r} is no run's", do)
                _extract(packed, member, work.joinpath(*parts))
    except (OSError, tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(problem, str(error), do) from error


def _extract(packed: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(0o700 | (member.mode & 0o055))  # a private run stays private
        return
    source = packed.extractfile(member)
    assert source is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())


def _read(run: StoredRun, problem: str) -> StoredRun:
    """The run, indexed; UsageError where it is not a finished run that this release reads."""
    try:
        result = run.result
        stored = run.indexed()
    except HarnessError as error:
        raise UsageError(
            problem, error.context, error.hint or "export it from its host again"
        ) from error
    if not (_NAME.fullmatch(run.run_id) and run.run_id.startswith(result.run_id)):
        raise UsageError(
            problem,
            f"{run.run_id!r} says that it is {result.run_id}",
            "export it from its host again",
        )
    return stored


def _taken_over(runs: list[StoredRun], store: Store, origin: str, rescued: bool) -> Imported:
    """Rename the runs into the store. ``rescued``: they are of this host."""
    new: list[StoredRun] = []
    present: list[str] = []
    for run in runs:
        there = [store.runs_folder / name for name in (run.run_id, f"{run.run_id}@{origin}")]
        same = next((place.name for place in there if _same(place, run.directory)), None)
        if same is not None:
            present.append(same)
            continue
        (run.directory / STEPS_FILE).unlink(missing_ok=True)  # nothing here may resume them
        if not rescued:
            write_json_atomically(run.directory / ORIGIN_FILE, {"from": origin})
        if rescued and _unfinished(there[0]):
            target: Path | None = there[0]
            _complete(run.directory, there[0])
        else:
            target = next((place for place in there if _renamed(run.directory, place)), None)
        if target is None:
            raise UsageError(
                f"import {run.run_id} from {origin}",
                f"other runs of these names are there: {there[0].name}, {there[1].name}",
                "name another origin with --from",
            )
        new.append(StoredRun(target, run.entry))
    sync_path(store.runs_folder)
    return Imported(tuple(new), tuple(present))


def _renamed(run: Path, target: Path) -> bool:
    """Give the run its place; False where another run has it, perhaps since a moment."""
    if target.exists():
        return False
    try:
        run.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _unfinished(run: Path) -> bool:
    return run.is_dir() and not (run / "run.json").exists() and not under_way(run)


def _complete(run: Path, unfinished: Path) -> None:
    """Move the documents of a run into its unfinished directory, the result last."""
    shutil.rmtree(unfinished / "artifacts", ignore_errors=True)
    for path in run.iterdir():
        if path.name != "run.json":
            path.rename(unfinished / path.name)
    sync_path(unfinished)
    (run / "run.json").rename(unfinished / "run.json")
    sync_path(unfinished)


def _same(run: Path, other: Path) -> bool:
    """Return whether both hold the same result."""
    results = [folder / "run.json" for folder in (run, other)]
    return results[0].exists() and results[0].read_bytes() == results[1].read_bytes()
