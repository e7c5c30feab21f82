"""versions.yml: the pinned builds of an engine, in order of preference."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness import registry
from harness.errors import UsageError, unknown
from harness.install.archives import Jars, MavenArchive, SourceArchive, Wheel
from harness.install.debs import Debs
from harness.store.documents import from_members
from harness.yamlfile import load_yaml


class Source(Protocol):
    """Archives or packages from a registry."""

    @property
    def label(self) -> str:
        """Its origin, as recorded with every run."""

    def fetch(self, folder: Path) -> list[str]:
        """Download it into ``folder`` and verify it; returns what differs from the pins."""

    def unpack(self, folder: Path, tree: Path) -> None:
        """Extract its files into ``tree``."""


@dataclass(frozen=True)
class Pinned:
    """One build. The first of ``sources`` contains the server, the others its dependencies.

    ``keep``: prefixes of the paths to keep. ``program``: the program or the main class of a Java
    server (``classes/….class``) that must run, or the shared library (``….so``) that must load.
    ``note``: for its users.
    """

    engine: str
    version: str
    sources: tuple[Source, ...]
    keep: tuple[str, ...]
    program: str
    note: str = ""

    @property
    def folder(self) -> str:
        """Name of its folder in the prefix (``postgres-18.4``)."""
        return f"{self.engine}-{self.version}"

    @property
    def source(self) -> str:
        """Its origin, as recorded with every run."""
        return self.sources[0].label


def pinned_engines() -> list[str]:
    """Names of the engines that have a versions.yml."""
    return sorted(registry.engine_files("versions.yml"))


def pinned(engine: str, versions: Path | None = None) -> list[Pinned]:
    """The pinned builds of ``engine`` for this machine; UsageError if there is none."""
    path = versions or registry.engine_files("versions.yml").get(engine)
    if path is None or not path.exists():
        context = "the harness installs no such engine"
        raise unknown(f"install {engine}", context, engine, pinned_engines())
    document: Mapping[str, Any] = load_yaml(path).value
    machine = platform.machine()
    found = [
        Pinned(
            document["engine"],
            build["version"],
            tuple(_source(source, machine, path.parent) for source in build["sources"]),
            tuple(build["keep"]),
            _program(build, machine),
            build.get("note", ""),
        )
        for build in document["builds"]
        if all(machine in source["archives"] for source in build["sources"])
    ]
    if not found:
        raise UsageError(
            f"install {engine}",
            f"no build is pinned for {machine}",
            f"install {engine} on the machine, or select one with the engine option 'prefix'",
        )
    return found


def _program(build: Mapping[str, Any], machine: str) -> str:
    """One name, or one per architecture."""
    program: str | Mapping[str, str] = build["program"]
    return program if isinstance(program, str) else program[machine]


#: Classes of sources by their kind in versions.yml.
_KINDS: Mapping[str, type[Source]] = {
    "pypi": Wheel,
    "pypi-source": SourceArchive,
    "maven": MavenArchive,
    "jars": Jars,
    "debs": Debs,
}


def _source(source: Mapping[str, Any], machine: str, engine: Path) -> Source:
    """A source with what is pinned for this machine; its members are those of its class."""
    stated = {**source, **source["archives"][machine]}
    if "compile" in source:
        stated["compile"] = engine / source["compile"]
    return from_members(_KINDS[source["kind"]], stated)
