"""The store of runs: directories that are finished when, and only when, run.json is there.

The order of writing is what survives a crash::

    results/runs/<run_id>/spec.json       first: what is to be run
                          steps.jsonl     each finished step, while it is measured
                          manifest.json   when the measured phase has ended
                          artifacts/*.json
                          run.json        last: temporary file, fsync, rename

A directory without run.json is *unfinished*, even an empty one: it is listed as such,
never read as a result. Readers take finished runs only.

``steps.jsonl`` (harness.store.checkpoint) is what an unfinished run is resumed from. It goes
when the result is there, and stays with a failed run: the run that resumes it takes the file
over, so that no step is ever part of two results.
"""

from __future__ import annotations

import calendar
import errno
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from harness import jsonfile, structs
from harness.errors import UsageError
from harness.store.checkpoint import FILE as STEPS_FILE
from harness.store.checkpoint import Checkpoint, is_of_another_host, steps_kept, under_way
from harness.store.documents import (
    json_bytes,
    not_written,
    write_atomically,
    write_json_atomically,
)
from harness.store.index import Index, IndexEntry, stamps_of
from harness.store.result import Manifest, RunResult
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject, RunSpec
from harness.supervise.linux import allocate
from harness.supervise.own_files import (
    make_own,
    refuse_exchangeable_way,
    refuse_writable,
    sync_path,
)
from harness.units import MIB, format_bytes
from harness.warnings import RunWarning, warn

#: What :meth:`Store.begin` calls its directories.
_RUN_ID = re.compile(r"^\d{8}T\d{6}Z-.")


_STEM = "%Y%m%dT%H%M%SZ"


#: A clock that is set back by more was wrong for long: names go by it again.
_SET_BACK_S = 86_400


#: What each run reserves for its documents. Monitors of an hour store about 20 MiB.
RESERVED_BYTES = 32 * MIB


#: Of file systems that reserve nothing, such as NFS before version 4.2.
_NO_ALLOCATION = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


_NO_ARTIFACTS: Mapping[str, Any] = MappingProxyType({})


class RunFolder:
    """The folder of a run under way, written in the order above; locked until it is closed."""

    def __init__(self, directory: Path, checkpoint: Checkpoint) -> None:
        self.directory = directory
        self.run_id = directory.name
        self.checkpoint = checkpoint
        self._reserved: IO[bytes] | None = None

    def reserve(self) -> None:
        """Reserve the space of its documents; UsageError where there is not enough.

        The file has no name: the space is free again when the process ends, however it ends.
        """
        path = self.directory / ".reserved"
        try:
            self._reserved = path.open("wb")
            path.unlink()
            allocate(self._reserved.fileno(), RESERVED_BYTES)
        except OSError as error:
            self._release()
            if error.errno in _NO_ALLOCATION:
                return
            raise UsageError(
                f"results in {self.directory.parents[1]}",
                f"{os.strerror(error.errno or 0)}: a run reserves {format_bytes(RESERVED_BYTES)}",
                "free space there, or name another place with --results",
            ) from error

    def finish(
        self,
        result: RunResult,
        manifest: Manifest | None = None,
        artifacts: Mapping[str, Any] = _NO_ARTIFACTS,
    ) -> StoredRun:
        """Store the manifest, the artifacts by name, and at last the result: it is finished.

        UsageError, ValueError or TypeError, before anything is written, for what is no such
        document; RunFailed where they cannot be written: call it again.
        """
        documents: dict[str, Any] = {f"artifacts/{name}": artifacts[name] for name in artifacts}
        for name, document in (("manifest", manifest), ("run", result)):
            if document is not None:
                documents[name] = document.to_json()
                source = f"{name}.json of {self.run_id}"
                structs.convert(documents[name], type(document), source)
        files = {name: json_bytes(document) for name, document in documents.items()}
        self._release()
        try:
            if artifacts:
                (self.directory / "artifacts").mkdir(exist_ok=True)
        except OSError as error:
            raise not_written(self.directory / "artifacts", error) from error
        for name, content in files.items():
            write_atomically(self.directory / f"{name}.json", content)
        if result.error is None or not self.checkpoint.finished:
            self.checkpoint.remove()
        return StoredRun(self.directory)

    def _release(self) -> None:
        """Free the space that was reserved for the result."""
        if self._reserved is not None:
            with suppress(OSError), self._reserved:
                self._reserved.truncate(0)  # a child may have inherited it
            self._reserved = None

    def close(self) -> None:
        """Let go of the run."""
        self._release()
        self.checkpoint.close()


class Store:
    """A results directory. It warns of each run that cannot be read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs_folder = root / "runs"
        #: Whether it has taken a run: it was writable.
        self.was_writable = False
        #: Runs that could not be read, with the reason.
        self.unreadable: dict[str, str] = {}

    def make(self) -> None:
        """Make it; UsageError where that cannot be, or (as root) another user could exchange it."""
        try:
            make_own(self.runs_folder)
        except OSError as error:
            raise self._unusable(error) from error

    def refuse_foreign(self) -> None:
        """UsageError, as root, where another user could exchange what we read and write in it."""
        if os.geteuid() != 0:
            return
        try:
            if self.root.is_dir():
                refuse_writable(self.root.resolve())
            existing = next(path for path in (self.root, *self.root.parents) if path.is_dir())
            refuse_exchangeable_way(existing / "name")
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> UsageError:
        return UsageError(
            f"results in {self.root}",
            f"{error.strerror or error}: {error.filename or self.root}",
            "name a directory of your own with --results",
        )

    def begin(self, spec: RunSpec, run_id: str | None = None) -> RunFolder:
        """A new run directory with its spec in it; none is left where that cannot be.

        ``run_id``: of a run that another store has begun.
        """
        document = spec.to_json()
        structs.convert(document, RunSpec, f"spec of a {spec.workload} run")
        self.make()
        stem = self._stem()
        where = spec.placement.name if spec.placement else (spec.label or "external")
        where = re.sub(r"[^A-Za-z0-9._=,-]+", "_", where)[:80]
        where += "-PLANTED" if spec.plant else ""
        name = f"{stem}-{spec.workload}-{spec.engine}-{where}-b{spec.block}-{spec.hash()[:6]}"
        try:
            directory = self._fresh(run_id or name)
        except OSError as error:
            raise self._unusable(error) from error
        folder = None
        try:
            folder = RunFolder(directory, Checkpoint.create(directory))
            write_json_atomically(directory / "spec.json", document)
            sync_path(self.runs_folder)
            if run_id is None:  # else its documents are written at once
                folder.reserve()
        except BaseException as error:
            if folder is not None:
                folder.close()
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(error, OSError):
                raise not_written(directory / STEPS_FILE, error) from error
            raise
        return folder

    def resume(
        self, spec: RunSpec, conditions: JsonObject | None, say: Callable[[str], None]
    ) -> RunFolder | None:
        """The newest run of ``spec`` that was interrupted after a finished step, to be resumed.

        None where there is none, or another process works on it. ``conditions``: everything
        that must be the same, None: that is not known; ``say`` receives why a run is not
        resumed. A failed run stays stored as such, and its steps move to a new run.
        """
        self.make()
        host_id = None if conditions is None else conditions.get("host")
        done = {stored.directory for stored in self.runs() if not stored.head.failed}
        for directory in reversed([path for path in self._directories() if path not in done]):
            if is_of_another_host(directory, host_id) or not _resumable(directory, spec):
                continue
            if not (checkpoint := Checkpoint.open(directory)):
                continue
            if not _resumable(directory, spec):  # its owner finished before we locked it
                checkpoint.close()
                continue
            why = checkpoint.why_not_resumed(conditions)
            if not why:
                return self._continued(RunFolder(directory, checkpoint), spec)
            if checkpoint.finished:
                say(f"not resuming {directory.name}: {why}")
            checkpoint.close()
        return None

    def _continued(self, interrupted: RunFolder, spec: RunSpec) -> RunFolder:
        """The folder itself, or that of a new run where it has the result of a failed one."""
        try:
            if not (interrupted.directory / "run.json").exists():
                interrupted.reserve()
                return interrupted
            folder = self.begin(spec)
            try:
                interrupted.checkpoint.move(folder.directory)
            except OSError as error:
                folder.close()
                shutil.rmtree(folder.directory, ignore_errors=True)
                raise not_written(folder.directory / STEPS_FILE, error) from error
        except BaseException:
            interrupted.close()
            raise
        folder.checkpoint.close()
        folder.checkpoint = interrupted.checkpoint
        return folder

    def _stem(self) -> str:
        """The time of day, or the second after the newest run's where the clock was set back.

        Names are in the order of the runs then, by which an interrupted command finds its own.
        """
        now = time.time()
        stem, latest = (
            time.strftime(_STEM, time.gmtime(then)) for then in (now, now + _SET_BACK_S)
        )
        names = filter(_RUN_ID.match, os.listdir(self.runs_folder))  # noqa: PTH208
        newest = max((name[:16] for name in names if name[:16] <= latest), default="")
        if newest > stem:
            with suppress(ValueError):  # no time of day
                after = calendar.timegm(time.strptime(newest, _STEM)) + 1
                return time.strftime(_STEM, time.gmtime(after))
        return stem

    def _fresh(self, name: str) -> Path:
        for attempt in range(1000):
            directory = self.runs_folder / (f"{name}.{attempt}" if attempt else name)
            try:
                directory.mkdir()
            except FileExistsError:
                continue
            except KeyboardInterrupt:  # perhaps after the system call
                with suppress(OSError):
                    directory.rmdir()
                raise
            return directory
        raise UsageError(f"run {name}", "a thousand runs of the same second exist")

    def runs(self) -> list[StoredRun]:
        """Finished runs that can be read, oldest first; warns of each other one.

        None of their documents is in memory yet.
        """
        directories = list(self._directories())
        present = {path.name for path in directories}
        entries = {run_id: e for run_id, e in self._index.entries.items() if run_id in present}
        stored_runs: list[StoredRun] = []
        try:
            for directory in directories:
                stored = self._readable(directory, entries.get(directory.name))
                if stored is None or stored.entry is None:
                    continue
                stored_runs.append(stored)
                entries[directory.name] = stored.entry
        finally:  # an interrupted look at thousands of new runs is not for nothing
            self._index.update(entries)
        return stored_runs

    @cached_property
    def _index(self) -> Index:
        """Index of runs as they were; each is compared with the run's files before it counts."""
        return Index(self.root)

    def _readable(self, directory: Path, entry: IndexEntry | None) -> StoredRun | None:
        stamps = stamps_of(directory)
        if stamps is None:
            return None
        if entry is not None and entry.stamps == stamps:
            return StoredRun(directory, entry)
        try:
            return StoredRun(directory).indexed()
        except UsageError as error:
            self.unreadable[directory.name] = str(error)
            warn(
                RunWarning(
                    "run-unreadable",
                    f"{directory} is left out",
                    str(error),
                    f"remove it: harness runs rm {shlex.quote(directory.name)}",
                )
            )
            return None

    def unfinished(self) -> list[Path]:
        """Directories without a result: under way, or cut off."""
        return [path for path in self._directories() if not os.access(path / "run.json", os.F_OK)]

    def interrupted(self, spec: RunSpec, host_id: str | None = None) -> bool:
        """Return whether a run of ``spec`` was interrupted after a finished step, on that host."""
        return any(
            steps_kept(path)
            and not is_of_another_host(path, host_id)
            and not under_way(path)
            and _resumable(path, spec)
            for path in self.unfinished()
        )

    def has(self, run_id: str) -> bool:
        """Return whether a finished run has exactly this id."""
        named = run_id not in ("", ".", "..") and "/" not in run_id and "\0" not in run_id
        return named and os.access(self.runs_folder / run_id / "run.json", os.F_OK)

    def run(self, name: str) -> StoredRun:
        """A finished run by id, unique beginning or end of it, or path; UsageError otherwise."""
        if (Path(name) / "run.json").exists():
            return StoredRun(Path(name).resolve())
        if self.has(name):
            directory, entry = self.runs_folder / name, self._index.entries.get(name)
            current = entry is not None and entry.stamps == stamps_of(directory)
            return StoredRun(directory, entry if current else None)
        runs = [
            run
            for run in self.runs()
            if name and (run.run_id.startswith(name) or run.run_id.endswith(name))
        ]
        if len(runs) == 1:
            return runs[0]
        if runs:
            listed = ", ".join(run.run_id for run in runs[:5])
            raise UsageError(f"run {name!r}", f"{len(runs)} runs match: {listed}", "name one")
        if any(path.name == name for path in self.unfinished()):
            raise UsageError(
                f"run {name!r}",
                "it is unfinished: it has no result",
                "`harness runs list` shows all",
            )
        raise UsageError(
            f"run {name!r}",
            f"no such run in {self.root}",
            "`harness runs list` shows what is there",
        )

    def directory(self, run_id: str) -> Path:
        """The directory of a run, finished or not, readable or not; UsageError if there is none."""
        directory = next((path for path in self._directories() if path.name == run_id), None)
        if directory is None:
            raise UsageError(
                f"run {run_id!r}",
                f"no run in {self.root} has this id",
                "give the complete id, as `harness runs list` shows it",
            )
        return directory

    def remove(self, directory: Path) -> None:
        """Remove one run directory (finished or not) of this store."""
        if directory.parent.resolve() != self.runs_folder.resolve() or directory.is_symlink():
            raise UsageError(f"remove {directory}", f"not a run of {self.root}")
        if under_way(directory):
            raise UsageError(
                f"remove {directory.name}",
                "it is under way: another harness works on it",
                "wait for its end, or stop it",
            )
        # run.json goes first: a removal cut short leaves an unfinished run, not half a result.
        (directory / "run.json").unlink(missing_ok=True)
        if directory.exists():
            shutil.rmtree(directory)

    def _directories(self) -> Iterator[Path]:
        """Directories of runs: by their names, or by their spec where the owner renamed them."""
        if not self.runs_folder.is_dir():
            return
        with os.scandir(self.runs_folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        for name in names:
            directory = self.runs_folder / name
            if not os.access(directory, os.R_OK | os.X_OK):
                private = "it is another user's, and private: it has data of that user's workload"
                self.unreadable[name] = f"run {name}: {private}"
                warn(
                    RunWarning(
                        "run-unreadable",
                        f"{name} is left out",
                        private,
                        "use the account that ran it (root: sudo)",
                    )
                )
            elif _RUN_ID.match(name) or (directory / "spec.json").exists():
                yield directory


def _resumable(directory: Path, spec: RunSpec) -> bool:
    """Return whether it is an unfinished run of ``spec``, or a failed one."""
    try:
        if jsonfile.read(directory / "spec.json") != spec.to_json():
            return False
        stored = StoredRun(directory)
        return not (directory / "run.json").exists() or stored.result.error is not None
    except (OSError, ValueError, UsageError):
        return False
