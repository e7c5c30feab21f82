"""Datasets: loaded databases ("golden copies") and generated source files.

The order that survives a crash: everything is built in ``<name>.partial-<pid>``, which the
journal knows and the supervisor removes; its files are read back and digested; then
``golden.json`` is written and the directory renamed. A directory without
``golden.json`` is never used.

Next to each dataset is ``.<name>.lock``, locked exclusively by the process that builds or removes
the dataset, shared by those that use it. It is never unlinked: a process may be waiting for it.
No other user can open it; who uses another user's datasets has no lock, and looks again afterwards.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from harness import jsonfile, structs
from harness.errors import RunFailed, UsageError
from harness.progress import Progress, SilentProgress
from harness.store.documents import write_json_atomically
from harness.store.spec import JsonObject, content_hash
from harness.structs import Struct
from harness.supervise import locks
from harness.supervise.credentials import refuse_exchangeable
from harness.supervise.own_files import make_passable
from harness.supervise.user_files import Credentials, make_directory, remove_tree
from harness.warnings import RunWarning, warn

if TYPE_CHECKING:
    from harness.supervise.journal import Journal

Kind = Literal["golden", "source"]
_CHUNK = 1 << 22
#: Files below this size are read by one thread: several would wait for Python's lock.
_SMALL = 1 << 20
#: Files that an error names.
_MOST_NAMED = 3

#: By name: inode, size, and the times of content and inode.
_Stamps = dict[str, tuple[int, int, int, int]]
#: By directory: datasets whose files this process has read and found as recorded.
_intact: dict[Path, _Stamps] = {}


class FileRecord(Struct, frozen=True, omit_defaults=True):
    """A file of a dataset as it was made: its digest, or where a symbolic link leads."""

    size_bytes: Annotated[int, Meta(ge=0)]
    blake2b: str | None = None
    link: str | None = None


class DatasetRecord(Struct, frozen=True, tag_field="schema", tag=1, omit_defaults=True):
    """golden.json: what a dataset is made of.

    It is written last: a directory without it is never used.
    """

    key: Mapping[str, Any]
    facts: Mapping[str, Any]
    created_unix_ns: int
    files: Mapping[str, FileRecord]
    loaded_in_ns: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="duration of its making; null: unknown")
    ] = None
    load_retries: Annotated[
        Mapping[str, Annotated[int, Meta(ge=1)]] | None,
        Meta(description="by table, how often a piece was loaded again after a deadlock"),
    ] = None
    relations: Annotated[
        Mapping[str, Annotated[int, Meta(ge=0)]] | None,
        Meta(description="sizes of the tables and indexes, named as in a placement; null: unknown"),
    ] = None


class DatasetName(Struct, frozen=True, omit_defaults=True):
    """A dataset as in a run's manifest: its name, and what its data are."""

    key: str
    fingerprint: Mapping[str, Any]
    load_retries: Mapping[str, int] | None = None


@lru_cache(maxsize=8)  # a run reads its dataset's several times
def _record(text: bytes) -> DatasetRecord:
    return structs.convert(jsonfile.parse(text), DatasetRecord, "golden.json")


@dataclass(frozen=True)
class Dataset:
    """One complete dataset on disk, as it was found.

    ``record``: read when the dataset was found: what a run says of its data does not depend on
    their still being there.
    """

    directory: Path
    record: DatasetRecord = field(repr=False, compare=False)

    @classmethod
    def read(cls, directory: Path) -> Dataset | None:
        """The complete dataset in ``directory``, None where there is none."""
        try:
            record = _record(jsonfile.read_bytes(directory / "golden.json"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, UsageError) as error:
            raise UsageError(
                f"dataset {directory.name}",
                f"its golden.json cannot be read: {error}",
                f"remove it: `harness data rm {shlex.quote(directory.name)}`; it is made again "
                "when needed",
            ) from error
        return cls(directory, record)

    @property
    def name(self) -> str:
        """Its directory's name: what `harness data` shows."""
        return self.directory.name

    @property
    def content(self) -> Path:
        return self.directory / "content"

    @contextmanager
    def in_use(self, progress: Progress) -> Iterator[None]:
        """While this holds, the dataset cannot be removed.

        RunFailed if it was already, or if a file is not as recorded (:meth:`require_intact`).
        """
        with _shared_lock(self.directory, progress):
            self._require_present("before it could be used")
            self.require_intact(progress)
            yield
            self._require_present("while it was in use, by its owner")

    def _require_present(self, when: str) -> None:
        if not (self.directory / "golden.json").exists():
            raise RunFailed(
                f"dataset {self.name}", f"it was removed {when}", "run again: it is made again"
            )

    def require_intact(self, progress: Progress) -> None:
        """RunFailed naming each file that differs from the record.

        A process reads all of them once, and again when the size or a time of one changes.
        """
        stamps = _stamps(self.content)
        if _intact.get(self.directory) == stamps:
            return
        if problems := self.verify(progress):
            more = f" and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
            raise RunFailed(
                f"dataset {self.name}",
                f"it is not as it was made: {'; '.join(problems[:_MOST_NAMED])}{more}",
                f"check the device that holds {self.directory}, then remove the dataset: "
                f"`harness data rm {shlex.quote(self.name)}`; it is made again when needed",
            )
        _intact[self.directory] = stamps

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.record.files.values())

    @property
    def fingerprint(self) -> JsonObject:
        """Digest of the data, equal for two builds of the same data."""
        return self.record.facts

    @property
    def identity(self) -> DatasetName:
        """The dataset as in a run's manifest."""
        return DatasetName(self.name, self.fingerprint, self.record.load_retries)

    def verify(self, progress: Progress) -> list[str]:
        """Differences from the record (missing, added, changed files); empty when sound."""
        recorded = self.record.files
        actual = digest_files(self.content, progress, f"verify {self.name}")
        problems = [f"missing: {name}" for name in recorded if name not in actual]
        problems += [f"added: {name}" for name in actual if name not in recorded]
        problems += [
            f"changed: {name}"
            for name, entry in recorded.items()
            if name in actual and actual[name] != entry
        ]
        return problems


@dataclass
class DatasetBuilder:
    """A dataset being built in ``partial``; its files go into ``content``, which is ours alone."""

    store: DatasetStore
    keeper: Journal
    partial: Path
    target: Path
    published: bool = False
    _began_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def content(self) -> Path:
        """Directory where the finished files must be when it is published."""
        return self.partial / "content"

    def directory(self, name: str, owner: Credentials | None) -> Path:
        """An empty directory next to the content, of that user; gone once published."""
        path = self.partial / name
        make_directory(path, None, 0o755)
        if owner is not None:
            os.chown(path, owner.uid, owner.gid)
        return path

    def publish(
        self,
        key: JsonObject,
        facts: JsonObject,
        progress: Progress,
        load_retries: Mapping[str, int] | None = None,
        relations: Mapping[str, int] | None = None,
    ) -> Dataset:
        """Record the content and give the dataset its name.

        ``load_retries``: by table, the number of times that a piece of it was loaded again.
        ``relations``: sizes of tables and indexes.
        """
        for path in self.partial.iterdir():
            if path.is_dir() and path.name != "content":
                remove_tree(path)
        files = digest_files(self.content, progress, f"recording {self.target.name}")
        loaded_in_ns = time.monotonic_ns() - self._began_ns
        record = DatasetRecord(
            key,
            facts,
            time.time_ns(),
            files,
            loaded_in_ns,
            load_retries or None,
            relations or None,
        )
        write_json_atomically(self.partial / "golden.json", record.to_json())
        shutil.rmtree(self.target, ignore_errors=True)  # a removal that was cut off
        self.partial.rename(self.target)
        self.keeper.release_directory(self.partial)
        self.published = True
        dataset = Dataset(self.target, record)
        _intact[self.target] = _stamps(dataset.content)
        return dataset


class DatasetStore:
    """The datasets below one folder."""

    def __init__(
        self,
        root: Path,
        keeper: Journal | None = None,
    ) -> None:
        self.root = root
        self._keeper = keeper

    def directories(self) -> list[Path]:
        """Directories of complete datasets by name, whether their record can be read or not."""
        if not self.root.is_dir():
            return []
        paths = (p for p in self.root.iterdir() if ".partial-" not in p.name)
        return [p for p in sorted(paths) if os.path.lexists(p / "golden.json")]

    def datasets(self) -> list[Dataset]:
        """Complete datasets by name; warns of each whose record cannot be read."""
        readable: list[Dataset] = []
        for directory in self.directories():
            try:
                dataset = Dataset.read(directory)
            except UsageError as error:
                warn(
                    RunWarning(
                        "dataset-unreadable", f"{directory} is left out", str(error), error.hint
                    )
                )
            else:
                readable += [dataset] if dataset is not None else []
        return readable

    def find(self, name: str) -> Dataset | None:
        """The complete dataset of this name, None where there is none.

        UsageError where another user could exchange it.
        """
        if os.geteuid() == 0 and self.root.is_dir():  # it will be copied with our rights
            refuse_exchangeable(self.root, "data", "HARNESS_DATA")
        return Dataset.read(self.root / name)

    @contextmanager
    def building(self, name: str, progress: Progress) -> Iterator[DatasetBuilder | None]:
        """Yield where to build ``name``, or None when another has built it meanwhile.

        Two processes never build the same name: the second waits for the first.
        What the caller does not publish is removed.
        """
        if self._keeper is None:
            raise RuntimeError("a store without a keeper only reads")
        with ExitStack() as stack:
            try:
                make_passable(self.root)
                if os.geteuid() == 0:  # what is loaded as the servers' user is ours in the end
                    refuse_exchangeable(self.root, "data", "HARNESS_DATA")
                path = _lock_path(self.root / name)
                stack.enter_context(locks.locked(path, shows=progress.waiting))
            except OSError as error:
                raise UsageError(
                    f"data in {self.root}",
                    str(error),
                    "export HARNESS_DATA=DIRECTORY, a writable one",
                ) from error
            if self.find(name) is not None:
                yield None
                return
            partial = self.root / f"{name}.partial-{os.getpid()}"
            self._keeper.register_directory(partial, mode=0o755)
            building = DatasetBuilder(self, self._keeper, partial, self.root / name)
            try:
                building.directory("content", None)
                yield building
            finally:
                if not building.published:
                    self._keeper.remove_directory(partial)


def remove_datasets(directories: Sequence[Path]) -> None:
    """Remove the datasets in these directories; UsageError, and none is removed, while one is in
    use, or is a symbolic link: what it names is not below the data directory.

    A removal cut short leaves nothing that looks complete.
    """
    with ExitStack() as stack:
        for directory in directories:
            problem = f"remove {directory.name}"
            if directory.is_symlink():
                raise UsageError(
                    problem,
                    f"{directory} is a symbolic link to {directory.readlink()}",
                    f"remove the link itself: rm {shlex.quote(str(directory))}",
                )
            try:
                descriptor = locks.open_private(_lock_path(directory))
            except OSError as error:
                raise UsageError(problem, str(error)) from error
            stack.callback(os.close, descriptor)
            if not locks.try_lock(descriptor):
                raise UsageError(
                    problem,
                    "it is in use: a run measures on it, or it is being built",
                    "wait for that to end (or stop it), then try again; nothing was removed",
                )
        for directory in directories:
            try:
                (directory / "golden.json").unlink(missing_ok=True)
                shutil.rmtree(directory)
            except FileNotFoundError:  # another has removed it meanwhile
                continue
            except OSError as error:
                raise RunFailed(f"remove {directory.name}", str(error)) from error


def _lock_path(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.lock")


@contextmanager
def _shared_lock(directory: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of the dataset in ``directory``, if it is ours."""
    lock = locks.locked(_lock_path(directory), shared=True, shows=progress.waiting)
    with ExitStack() as stack:
        with suppress(OSError):  # another user keeps the data, or nobody can write them
            stack.enter_context(lock)
        yield


#: Written last into source data: what they consist of.
SOURCE_RECORD = "source.json"


def source_record(folder: Path) -> Any:
    """The record of the source data in ``folder``; RunFailed if they have changed since."""
    if (dataset := Dataset.read(folder.parent)) is not None:
        dataset.require_intact(SilentProgress())
    try:
        return jsonfile.read(folder / SOURCE_RECORD)
    except (OSError, ValueError) as error:
        raise RunFailed(
            f"source data in {folder}", f"not whole: {error}", "remove it and run again"
        ) from error


def dataset_name(prefix: str, key: JsonObject) -> str:
    """``tpch-postgres-1a2b3c4d5e6f7a8b``: a readable prefix and the key's hash."""
    return f"{prefix}-{content_hash(dict(key))}"


def _names(root: Path) -> list[str]:
    """Files below ``root``, and links, those to directories included."""
    return sorted(
        str((Path(folder) / name).relative_to(root))
        for folder, folders, files in os.walk(root)
        for name in [*files, *(f for f in folders if (Path(folder) / f).is_symlink())]
    )


def _stamps(root: Path) -> _Stamps:
    status = {name: (root / name).lstat() for name in _names(root)}
    return {n: (s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for n, s in status.items()}


def digest_files(root: Path, progress: Progress, title: str) -> dict[str, FileRecord]:
    """Return the records of everything below ``root`` by relative name."""
    try:
        status = {name: (root / name).lstat() for name in _names(root)}
        total = sum(s.st_size for s in status.values() if stat.S_ISREG(s.st_mode))
        large = [[name] for name, facts in status.items() if facts.st_size >= _SMALL]
        small = [name for name, facts in status.items() if facts.st_size < _SMALL]
        with progress.task(title, total, "B") as task, ThreadPoolExecutor() as pool:

            def record(name: str) -> FileRecord:
                path = root / name
                if stat.S_ISLNK(status[name].st_mode):
                    return FileRecord(0, link=str(path.readlink()))
                digest = hashlib.blake2b(digest_size=16)
                size = 0
                with path.open("rb", buffering=0) as stream:
                    # A larger buffer than the file would cost more than its digest.
                    while chunk := stream.read(min(_CHUNK, status[name].st_size + 1)):
                        digest.update(chunk)
                        size += len(chunk)
                        task.advance(len(chunk))
                return FileRecord(size, digest.hexdigest())

            def records(names: Sequence[str]) -> dict[str, FileRecord]:
                return {name: record(name) for name in names}

            result = {n: r for part in pool.map(records, [*large, small]) for n, r in part.items()}
            return {name: result[name] for name in status}
    except OSError as error:
        raise RunFailed(title, str(error)) from error
