"""The folder of a site: its manifest, and files that are written only where they differ."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from harness import jsonfile, structs
from harness.errors import UsageError
from harness.store.documents import json_bytes
from harness.structs import Struct
from harness.supervise.own_files import make_own, replacing
from reports.site.entries import Address, Entry

MANIFEST = "site.json"


class Part(Struct, frozen=True, omit_defaults=True):
    """The pages of an experiment or of a host.

    ``key``: equal where the pages would be made of the same; ``problem``: why there are none.
    """

    key: str
    entries: tuple[Entry, ...]
    problem: str = ""

    @property
    def addresses(self) -> set[str]:
        return {entry.address for entry in self.entries}


class SiteManifest(Struct, frozen=True, tag_field="schema", tag=1):
    """What lies in the folder of a site."""

    documented = "docs/site.md"

    pages: Annotated[tuple[Address, ...], Meta(description="every page that was written")] = ()
    parts: Annotated[Mapping[str, Part], Meta(description="by the kind and name")] = {}


class SiteFolder:
    """A folder with a manifest, to which pages are written.

    A page is in the manifest before it is written, and a part when all its pages are: what an
    interruption leaves is readable, and goes on at the next time.
    """

    def __init__(self, out: Path) -> None:
        """Read the manifest; UsageError where the folder has files and none."""
        self.out = out
        self._path = out / MANIFEST
        self.manifest = self._read()
        self.written: list[str] = []
        self.unchanged = 0
        self.removed: list[str] = []

    def _read(self) -> SiteManifest:
        where = f"site in {self.out}"
        try:
            if self._path.is_file():
                return structs.convert(
                    jsonfile.read(self._path), SiteManifest, f"{where}: {MANIFEST}"
                )
            if self.out.exists() and any(self.out.iterdir()):
                hint = "name a new directory, or that of a site"
                raise UsageError(where, f"it is not empty and has no {MANIFEST}", hint)
        except (OSError, ValueError) as error:
            hint = "name a new directory"
            raise UsageError(where, f"{MANIFEST}: {error}", hint) from error
        return SiteManifest()

    def part(self, name: str, key: str) -> Part | None:
        """Return a part that was made of the same and whose pages are there."""
        part = self.manifest.parts.get(name)
        if part is None or part.key != key:
            return None
        if not all(self._file(address).is_file() for address in part.addresses):
            return None
        self.unchanged += len(part.addresses)
        return part

    def finish_part(self, name: str, part: Part) -> None:
        """Note that all pages of a part are written."""
        self._save(replace(self.manifest, parts={**self.manifest.parts, name: part}))

    def write(self, address: str, text: str) -> None:
        """Write a page where it differs; UsageError where another file has its name."""
        file, content = self._file(address), text.encode()
        if address not in self.manifest.pages:
            if os.path.lexists(file):
                context = "another program wrote it"
                raise UsageError(f"page {file}", context, "remove it, or name a new directory")
            self._save(replace(self.manifest, pages=(*self.manifest.pages, address)))
        if not file.is_symlink() and file.is_file() and file.read_bytes() == content:
            self.unchanged += 1
            return
        self._make(file.parent)
        with replacing(file, sync=False) as stream:
            stream.write(content)
        self.written.append(address)

    def retain(self, parts: Iterable[str], addresses: Iterable[str]) -> None:
        """Remove all other pages and parts."""
        retained = set(addresses)
        obsolete = [address for address in self.manifest.pages if address not in retained]
        for address in obsolete:
            self._file(address).unlink(missing_ok=True)
            with suppress(OSError):  # it has other files
                if "/" in address:
                    self._file(address).parent.rmdir()
        self.removed += obsolete
        pages = tuple(sorted(retained.intersection(self.manifest.pages)))
        by_name = self.manifest.parts
        left = {name: by_name[name] for name in parts if name in by_name}
        self._save(SiteManifest(pages, left))

    def _file(self, address: str) -> Path:
        return self.out / f"{address}.html"

    def _make(self, folder: Path) -> None:
        try:
            make_own(folder)
        except OSError as error:
            hint = "name a writable directory"
            raise UsageError(f"site in {self.out}", str(error), hint) from error

    def _save(self, manifest: SiteManifest) -> None:
        if manifest == self.manifest and self._path.is_file():
            return
        self._make(self.out)
        try:
            with replacing(self._path, sync=False) as stream:
                stream.write(json_bytes(manifest.to_json()))
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            raise UsageError(f"site in {self.out}", reason, "name a writable directory") from error
        self.manifest = manifest
