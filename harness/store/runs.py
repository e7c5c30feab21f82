"""A finished run: its directory, from which its documents are read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness import hdr, jsonfile, structs
from harness.errors import HarnessError, UsageError
from harness.store.artifacts import kind_of
from harness.store.index import Head, IndexEntry, head_of, stamps_of
from harness.store.result import Manifest, Metric, RunResult
from harness.store.spec import RunSpec
from harness.tiers.linux.model import TierRecord
from harness.warnings import RunWarning, warn

#: In the directory of a run that was imported: where it came from.
ORIGIN_FILE = "origin.json"


@dataclass(frozen=True)
class StoredRun:
    """One finished run. Its documents are read once, when needed.

    ``entry``: what the store's index has of it.
    """

    directory: Path
    entry: IndexEntry | None = field(default=None, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.directory.name

    @property
    def imported(self) -> bool:
        """Return whether it came in an archive: what it names was chosen on another host."""
        return os.path.lexists(self.directory / ORIGIN_FILE)

    @property
    def results(self) -> Path:
        """The results directory that it is in."""
        return self.directory.parents[1]

    @property
    def document(self) -> dict[str, Any]:
        """run.json, valid."""
        if not self._indexed:
            self.result  # noqa: B018  it is valid
        return self._run

    @cached_property
    def result(self) -> RunResult:
        """Contents of run.json; UsageError where it is not valid."""
        result = structs.convert(self._run, RunResult, str(self._path("run")))
        if not self._indexed:
            self._check_histograms(result.metrics)
        return result

    @property
    def text(self) -> str:
        """run.json as it is stored, valid; not parsed where the index vouches for it."""
        if not self._indexed:
            self.result  # noqa: B018  it is valid
        return self._bytes("run").decode()

    @property
    def manifest_document(self) -> dict[str, Any]:
        """manifest.json, valid; empty where the run failed before it was known."""
        if not self._indexed:
            self.manifest  # noqa: B018  it is valid
        return self._manifest or {}

    @cached_property
    def manifest(self) -> Manifest | None:
        """Contents of manifest.json; None where the run failed before it was known."""
        if self._manifest is None:
            return None
        return structs.convert(self._manifest, Manifest, str(self._path("manifest")))

    @property
    def tiers(self) -> Sequence[TierRecord]:
        """The tiers of its placement; none without a manifest."""
        return self.manifest.tiers if self.manifest else ()

    @cached_property
    def head(self) -> Head:
        """Fields that runs are selected by, without reading their documents."""
        if self.entry:
            try:
                return msgspec.convert(jsonfile.parse(self.entry.head), Head)
            except (HarnessError, ValueError):
                return StoredRun(self.directory).head  # the index is a cache
        return head_of(self.result, self.manifest)

    @property
    def spec(self) -> RunSpec:
        """The spec that was run."""
        return self.head.spec

    @property
    def host_id(self) -> str:
        """Identity of its host; empty of a run without a manifest."""
        return self.head.host.host_id if self.head.host else ""

    def artifact(self, name: str) -> Any | None:
        """``artifacts/<name>.json``; None where there is none, and with a warning if damaged."""
        path = self.directory / "artifacts" / f"{name}.json"
        try:
            document = jsonfile.read(path)
            structs.convert(document, kind_of(name), str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, UsageError) as error:
            warn(RunWarning("artifact-unreadable", "an artifact is left out", f"{path}: {error}"))
            return None
        return document

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"

    def _bytes(self, name: str) -> bytes:
        try:
            return jsonfile.read_bytes(self._path(name))
        except (OSError, ValueError) as error:
            raise self._unreadable(name, error) from error

    @cached_property
    def _run(self) -> dict[str, Any]:
        return self._parsed("run")

    @cached_property
    def _manifest(self) -> dict[str, Any] | None:
        return self._parsed("manifest") if self._path("manifest").exists() else None

    def _parsed(self, name: str) -> dict[str, Any]:
        try:
            document: dict[str, Any] = jsonfile.parse(self._bytes(name))
        except ValueError as error:
            raise self._unreadable(name, error) from error
        return document

    def _check_histograms(self, metrics: Sequence[Metric]) -> None:
        for metric in metrics:
            if metric.hdr is not None:
                try:
                    hdr.decode(metric.hdr)
                except ValueError as error:
                    raise UsageError(f"run {self.run_id}", f"{metric.name}: {error}") from error

    def _unreadable(self, name: str, error: Exception) -> UsageError:
        return UsageError(f"run {self.run_id}", f"{name}.json cannot be read: {error}")

    @property
    def _indexed(self) -> bool:
        """Return whether its documents are those that were valid when the entry was made."""
        return self.entry is not None and self.entry.stamps == stamps_of(self.directory)

    def indexed(self) -> StoredRun:
        """The same run with its entry, and without its documents; UsageError if one is invalid."""
        stamps = stamps_of(self.directory)
        if stamps is None:
            raise UsageError(f"run {self.run_id}", "it has no result")
        head = head_of(self.result, self.manifest).to_json()
        content = json.dumps(head, separators=(",", ":")).encode()
        return StoredRun(self.directory, IndexEntry(stamps, content))


T = TypeVar("T")


def once_a_run(read: Callable[[StoredRun], T]) -> Callable[[StoredRun], T]:
    """Call a function of a run's documents once, and keep the result as long as the run."""
    name = f"{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def result_of(run: StoredRun) -> T:
        results: dict[str, T] = vars(run)
        if name not in results:
            results[name] = read(run)
        return results[name]

    return result_of
