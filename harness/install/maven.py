"""A server inside Java archives: fetched by Maven's own client.

Releases in a Maven repository never change and never go away, so such a source still
works when a distribution has moved on to a newer release.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from harness.errors import RunFailed
from harness.install.clients import run_client, verify
from harness.install.pypi import unzip

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_DO = (
    "install Maven (Debian: sudo apt install maven), check the network and Maven's "
    "settings.xml, then run it again"
)


@dataclass(frozen=True)
class MavenArchive:
    """``artifact``: group:name:version. ``inner``: an archive inside it that has the server.
    ``below``: the folder in it that becomes the tree. ``programs``: what is made executable.
    """

    artifact: str
    sha256: str
    inner: str = ""
    below: str = ""
    programs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"Maven {self.artifact}"

    @property
    def _file(self) -> str:
        _, name, version = self.artifact.split(":")
        return f"{name}-{version}.jar"

    def fetch(self, folder: Path) -> list[str]:
        """Bring the archive into ``folder`` and compare its checksum."""
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"-Dmaven.repo.local={folder / 'm2'}",
            f"{_PLUGIN}:copy",
            f"-Dartifact={self.artifact}",
            f"-DoutputDirectory={folder}",
        ]
        run_client(f"download {self.label}", command, folder, _DO)
        verify(self.label, folder / self._file, self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """What lies below ``below`` of the innermost archive."""
        whole = folder / "unpacked"
        with zipfile.ZipFile(folder / self._file) as zipped:
            if self.inner:
                inner = Path(zipped.extract(self.inner, folder))
                with tarfile.open(inner) as archive:
                    # Python before 3.11.4, which Debian 12 has, knows none; what is unpacked is
                    # the pinned archive in any case.
                    archive.extraction_filter = getattr(tarfile, "data_filter", None)
                    archive.extractall(whole)
            else:
                unzip(zipped, whole)
        source = whole / self.below
        if not source.is_dir():
            raise RunFailed(f"install {self.label}", f"there is no folder {self.below} in it")
        shutil.copytree(source, tree, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(whole)
        for program in self.programs:
            (tree / program).chmod(0o755)


@dataclass(frozen=True)
class Jar:
    """``artifact``: group:name:version."""

    artifact: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in a folder of jars."""
        _, name, version = self.artifact.split(":")
        return f"{name}-{version}.jar"


@dataclass(frozen=True)
class Jars:
    """A Java server: archives that stay as they are, in ``lib``. The first one is the server.

    ``compile``: folder of Java sources to compile against them, into ``classes``; None: none.
    """

    jars: tuple[Jar, ...]
    compile: Path | None = None

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"Maven {self.jars[0].artifact}"

    def fetch(self, folder: Path) -> list[str]:
        """Bring these archives and no others into ``folder``, and compare their checksums."""
        (folder / "pom.xml").write_text(_project(self.jars), encoding="utf-8")
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"-Dmaven.repo.local={folder / 'm2'}",
            f"{_PLUGIN}:copy-dependencies",
            f"-DoutputDirectory={folder / 'lib'}",
        ]
        run_client(f"download {self.label}", command, folder, _DO)
        for jar in self.jars:
            verify(f"Maven {jar.artifact}", folder / "lib" / jar.file, jar.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """The archives, and our own classes."""
        (tree / "lib").mkdir(parents=True)
        for jar in self.jars:
            shutil.copy(folder / "lib" / jar.file, tree / "lib")
        if self.compile is None:
            return
        path = ":".join(str(tree / "lib" / jar.file) for jar in self.jars)
        command = [
            "javac",
            "-nowarn",
            "-cp",
            path,
            "-d",
            str(tree / "classes"),
            *map(str, sorted(self.compile.rglob("*.java"))),
        ]
        run_client(
            f"compile {self.compile.name} for {self.label}",
            command,
            folder,
            "install a JDK (Debian: sudo apt install default-jdk-headless), then run it again",
        )


def _project(jars: Sequence[Jar]) -> str:
    """A project with these dependencies and none of theirs."""
    names = ("groupId", "artifactId", "version")
    dependencies = "".join(
        "<dependency>"
        + "".join(
            f"<{name}>{escape(value)}</{name}>"
            for name, value in zip(names, jar.artifact.split(":"), strict=True)
        )
        + "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions></dependency>\n"
        for jar in jars
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tierbench</groupId><artifactId>jars</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )
