"""The store of runs: directories that are finished when, and only when, run.json is there.

The order of writing is what survives a crash::

    results/runs/<run_id>/spec.json       first: what was asked
                          manifest.json   before the measured phase ends
                          artifacts/*.json
                          run.json        last: written beside, fsync'd, renamed

A directory without run.json is *unfinished*, even an empty one: it is listed as such,
never read as a result. Readers take finished runs only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import schemas
from harness.errors import RunFailed, UsageError
from harness.spec import RunSpec

#: What :meth:`Store.begin` calls its directories.
_RUN_ID = re.compile(r"^\d{8}T\d{6}Z-.")


def write_json_atomically(path: Path, document: Any) -> None:
    """Write, fsync, rename, fsync the directory: the file is whole or absent.

    RunFailed where it cannot be written; no partial file is left then.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.rename(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> RunFailed:
    gone = isinstance(error, FileNotFoundError)
    return RunFailed(
        f"write {path.name} into {path.parent}",
        "the directory was removed" if gone else error.strerror or str(error),
        "run again, and leave it there" if gone else "make room there, or name another place",
    )


@dataclass(frozen=True)
class StoredRun:
    """One finished run, read lazily."""

    directory: Path

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.directory.name

    @cached_property
    def run(self) -> dict[str, Any]:
        """run.json, validated."""
        return self._read("run.json", "run")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """manifest.json, validated; empty where the run failed before it was known."""
        if not (self.directory / "manifest.json").exists():
            return {}
        return self._read("manifest.json", "manifest")

    @cached_property
    def spec(self) -> RunSpec:
        """What was asked."""
        return RunSpec.from_json(self.run["spec"])

    def artifact(self, name: str) -> Any | None:
        """``artifacts/<name>.json``, None where there is none."""
        path = self.directory / "artifacts" / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _read(self, file: str, schema: str) -> dict[str, Any]:
        path = self.directory / file
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"run {self.run_id}", f"{file} cannot be read: {error}") from error
        schemas.validate(document, schema, source=str(path))
        return document


@dataclass(frozen=True)
class Unfinished:
    """A run directory without run.json."""

    directory: Path

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.directory.name


class RunWriter:
    """Writes one run in the order above; see the module."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_id = directory.name

    def write_spec(self, spec: RunSpec) -> None:
        """What was asked, before anything is done."""
        write_json_atomically(self.directory / "spec.json", spec.to_json())

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """What is needed to repeat it."""
        schemas.validate(manifest, "manifest", source=f"manifest of {self.run_id}")
        write_json_atomically(self.directory / "manifest.json", manifest)

    def write_artifact(self, name: str, document: Any) -> None:
        """A JSON document beside the result."""
        path = self.directory / "artifacts" / f"{name}.json"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise _not_written(path, error) from error
        write_json_atomically(path, document)

    def finish(self, run: Mapping[str, Any]) -> StoredRun:
        """The result; from here on the run is finished."""
        schemas.validate(run, "run", source=f"result of {self.run_id}")
        write_json_atomically(self.directory / "run.json", run)
        return StoredRun(self.directory)


class Store:
    """A results directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs_folder = root / "runs"

    def begin(self, spec: RunSpec) -> RunWriter:
        """A new run directory with its spec in it; none is left where that cannot be."""
        schemas.validate(spec.to_json(), "run-spec", source=f"spec of a {spec.workload} run")
        stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        where = spec.placement.name if spec.placement else (spec.label or "external")
        where = re.sub(r"[^A-Za-z0-9._=,-]+", "_", where)[:80]
        name = f"{stem}-{spec.workload}-{spec.engine}-{where}-b{spec.block}-{spec.hash()[:6]}"
        try:
            self.runs_folder.mkdir(parents=True, exist_ok=True)
            directory = self._fresh(name)
        except OSError as error:
            raise UsageError(
                f"results in {self.root}", str(error), "name a writable directory with --results"
            ) from error
        writer = RunWriter(directory)
        try:
            writer.write_spec(spec)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return writer

    def _fresh(self, name: str) -> Path:
        for attempt in range(1000):
            directory = self.runs_folder / (f"{name}.{attempt}" if attempt else name)
            try:
                directory.mkdir()
            except FileExistsError:
                continue
            return directory
        raise UsageError(f"run {name}", "a thousand runs of the same second exist")

    def runs(self) -> list[StoredRun]:
        """Finished runs, oldest first."""
        return [StoredRun(path) for path in self._directories() if (path / "run.json").exists()]

    def unfinished(self) -> list[Unfinished]:
        """Directories without a result: under way, or cut off."""
        return [
            Unfinished(path) for path in self._directories() if not (path / "run.json").exists()
        ]

    def run(self, name: str) -> StoredRun:
        """A finished run by id, unique beginning or end of it, or path; UsageError otherwise."""
        if (Path(name) / "run.json").exists():
            return StoredRun(Path(name).resolve())
        found = [run for run in self.runs() if run.run_id == name] or [
            run for run in self.runs() if run.run_id.startswith(name) or run.run_id.endswith(name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(run.run_id for run in found[:5])
            raise UsageError(f"run {name!r}", f"{len(found)} runs match: {listed}", "name one")
        if any(run.run_id == name for run in self.unfinished()):
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

    def remove(self, directory: Path) -> None:
        """Remove one run directory (finished or not) of this store."""
        if directory.parent.resolve() != self.runs_folder.resolve() or directory.is_symlink():
            raise UsageError(f"remove {directory}", f"not a run of {self.root}")
        # run.json goes first: a removal cut short leaves an unfinished run, not half a result.
        (directory / "run.json").unlink(missing_ok=True)
        if directory.exists():
            shutil.rmtree(directory)

    def _directories(self) -> Iterator[Path]:
        if self.runs_folder.is_dir():
            yield from sorted(filter(_is_run, self.runs_folder.iterdir()))


def _is_run(path: Path) -> bool:
    """By its name, or by its spec: the store's owner may have renamed it."""
    return path.is_dir() and (bool(_RUN_ID.match(path.name)) or (path / "spec.json").exists())
