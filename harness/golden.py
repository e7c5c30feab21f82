"""Golden data: a loaded database (or generated source files), kept and copied from.

The order that survives a crash: everything is built in ``<name>.partial``, which the
journal knows and the supervisor removes; its files are read back and digested; then
``golden.json`` is written and the directory renamed. A directory without
``golden.json`` is never used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.spec import content_hash
from harness.store import write_json_atomically

Kind = Literal["golden", "source"]
_CHUNK = 1 << 22


class DirectoryKeeper(Protocol):
    """Knows directories that must not outlive the harness (harness.supervise's journal)."""

    def register_directory(self, path: Path) -> None:
        """From now on ``path`` is removed when the harness dies."""

    def release_directory(self, path: Path) -> None:
        """``path`` stays."""


@dataclass(frozen=True)
class Dataset:
    """One complete dataset on disk. ``content`` is what was built."""

    directory: Path

    @property
    def name(self) -> str:
        """Its directory's name: what `harness data` shows."""
        return self.directory.name

    @property
    def content(self) -> Path:
        """The built files."""
        return self.directory / "content"

    @cached_property
    def record(self) -> dict[str, Any]:
        """golden.json: key, facts, files with size and digest."""
        document: dict[str, Any] = json.loads((self.directory / "golden.json").read_text())
        return document

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(int(entry["size_bytes"]) for entry in self.record["files"].values())

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the data are, equal for two builds of the same data."""
        facts: dict[str, Any] = self.record["facts"]
        return facts

    def verify(self, progress: Progress) -> list[str]:
        """What differs from the record (missing, added, changed files); empty when sound."""
        recorded: Mapping[str, Any] = self.record["files"]
        found = digest_files(self.content, progress, f"verify {self.name}")
        problems = [f"missing: {name}" for name in recorded if name not in found]
        problems += [f"not in the record: {name}" for name in found if name not in recorded]
        problems += [
            f"changed: {name}"
            for name, entry in recorded.items()
            if name in found and found[name] != entry
        ]
        return problems


class DatasetStore:
    """The datasets below one folder."""

    def __init__(self, root: Path, keeper: DirectoryKeeper | None = None) -> None:
        self.root = root
        self._keeper = keeper

    def datasets(self) -> list[Dataset]:
        """Complete datasets by name."""
        if not self.root.is_dir():
            return []
        found = (p for p in self.root.iterdir() if not p.name.endswith(".partial"))
        return [Dataset(p) for p in sorted(found) if (p / "golden.json").exists()]

    def find(self, name: str) -> Dataset | None:
        """The complete dataset of this name, None where there is none."""
        directory = self.root / name
        return Dataset(directory) if (directory / "golden.json").exists() else None

    @contextmanager
    def building(self, name: str) -> Iterator[Path | None]:
        """Yield an empty folder to build ``name`` in, or None when another has built it meanwhile.

        Two processes never build the same name: the second waits for the first.
        The caller publishes; what it did not publish is removed.
        """
        if self._keeper is None:
            raise RuntimeError("a store without a keeper only reads")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"data in {self.root}", str(error), "set HARNESS_DATA to a writable directory"
            ) from error
        with (self.root / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.find(name) is not None:
                yield None
                return
            partial = self.root / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o755)
            self._keeper.register_directory(partial)
            try:
                yield partial
            finally:
                if partial.exists():
                    shutil.rmtree(partial, ignore_errors=True)
                self._keeper.release_directory(partial)

    def publish(
        self, partial: Path, key: Mapping[str, Any], facts: Mapping[str, Any], progress: Progress
    ) -> Dataset:
        """Record ``partial/content`` and give it its name."""
        files = digest_files(partial / "content", progress, f"record {partial.stem}")
        record = {
            "schema": 1,
            "key": dict(key),
            "facts": dict(facts),
            "created_unix_ns": time.time_ns(),
            "files": files,
        }
        write_json_atomically(partial / "golden.json", record)
        target = partial.with_name(partial.name.removesuffix(".partial"))
        shutil.rmtree(target, ignore_errors=True)  # a cut-off removal left it without golden.json
        partial.rename(target)
        return Dataset(target)

    def remove(self, dataset: Dataset) -> None:
        """Remove a dataset; a removal cut short leaves nothing that looks complete."""
        (dataset.directory / "golden.json").unlink()
        shutil.rmtree(dataset.directory)
        (self.root / f".{dataset.name}.lock").unlink(missing_ok=True)


def dataset_name(prefix: str, key: Mapping[str, Any]) -> str:
    """``tpch-postgres-1a2b3c4d5e6f7a8b``: a readable prefix and the key's hash."""
    return f"{prefix}-{content_hash(dict(key))}"


def directory_bytes(path: Path) -> int:
    """Apparent bytes of the regular files below ``path``; links are not followed."""
    return sum(
        os.lstat(Path(folder) / name).st_size
        for folder, _, names in os.walk(path)
        for name in names
        if not (Path(folder) / name).is_symlink()
    )


def digest_files(root: Path, progress: Progress, title: str) -> dict[str, dict[str, Any]]:
    """``{relative name: {size_bytes, blake2b | link}}`` of everything below ``root``."""
    names = sorted(
        str((Path(folder) / name).relative_to(root))
        for folder, folders, files in os.walk(root)
        for name in [*files, *(f for f in folders if (Path(folder) / f).is_symlink())]
    )
    total = directory_bytes(root)
    with progress.task(title, total) as task, ThreadPoolExecutor() as pool:

        def one(name: str) -> tuple[str, dict[str, Any]]:
            path = root / name
            if path.is_symlink():
                return name, {"size_bytes": 0, "link": str(path.readlink())}
            digest = hashlib.blake2b(digest_size=16)
            size = 0
            with path.open("rb", buffering=0) as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    task.advance(len(chunk))
            return name, {"size_bytes": size, "blake2b": digest.hexdigest()}

        try:
            return dict(pool.map(one, names))
        except OSError as error:
            raise RunFailed(title, str(error)) from error
