"""The official client with a binding, built by Maven into the private prefix.

Its core comes from Maven Central in a pinned version (``maven/pom.xml``), as do the
libraries of the binding; what is ours is compiled. A build is found by a digest of all it
was made of: changed sources are built again, others are used as they are, without
Maven, and without a network.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import paths
from harness.engine import YcsbBinding
from harness.errors import RunFailed, UsageError
from harness.install.prefix import publish, run_client, work_directory
from harness.progress import Progress
from harness.supervise import programs
from harness.supervise.credentials import refuse_exchangeable
from harness.supervise.own_files import make_passable

#: Of the core, as ``maven/pom.xml`` pins it.
VERSION = "0.17.0"
NAME = f"YCSB {VERSION}"
_PROJECT = Path(__file__).parent / "maven"
_DIGITS = 12
_LEFT_OUT = ("target", "__pycache__")


@dataclass(frozen=True)
class Build:
    """A built client. ``folder``: its Java archives."""

    folder: Path
    binding: YcsbBinding

    @property
    def classpath(self) -> str:
        return ":".join([f"{self.folder}/*", *map(str, self.binding.classpath)])


def check_buildable(binding: YcsbBinding) -> None:
    """Raise UsageError where the client is not built, and cannot be built."""
    if not _folder(binding).is_dir():
        find_maven()


def builds() -> list[str]:
    """Return the bindings that the client was built with here; changed sources are built again."""
    folders = paths.engines_prefix().glob(f"ycsb-{VERSION}-*-{'?' * _DIGITS}")
    names = (folder.name.removeprefix(f"ycsb-{VERSION}-") for folder in folders if folder.is_dir())
    return sorted({name[: -_DIGITS - 1] for name in names})


def built(binding: YcsbBinding, progress: Progress) -> Build:
    """Return the client with this binding, built if needed; RunFailed in Maven's words."""
    folder = _folder(binding)
    if paths.engines_prefix().is_dir():
        refuse_exchangeable(paths.engines_prefix(), "engines", "HARNESS_ENGINES")
    if not folder.is_dir():
        _build(binding, folder, progress)
    return Build(folder, binding)


def _folder(binding: YcsbBinding) -> Path:
    name = binding.project.parent.name.strip("_")
    return paths.engines_prefix() / f"ycsb-{VERSION}-{name}-{_digest(binding)}"


def _digest(binding: YcsbBinding) -> str:
    """Return a digest of all sources, by name, and of Maven's arguments."""
    digest = hashlib.sha256(repr(sorted(binding.built_with.items())).encode())
    for project in (_PROJECT, binding.project):
        for file in _sources(project):
            digest.update(f"\0{file.relative_to(project)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def _sources(project: Path) -> Iterator[Path]:
    for file in sorted(project.rglob("*")):
        if file.is_file() and not set(file.relative_to(project).parts) & set(_LEFT_OUT):
            yield file


def _build(binding: YcsbBinding, folder: Path, progress: Progress) -> None:
    maven = find_maven()
    make_passable(folder.parent)
    progress.say(f"building the official YCSB client {VERSION} with Maven")
    with work_directory(folder.parent, folder.name) as work:
        for source, target in ((_PROJECT, work), (binding.project, work / "binding")):
            for file in _sources(source):
                place = target / file.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
        with progress.task("building the official YCSB client"):
            _run_maven(maven, binding.built_with, work)
        tree = work / "tree"
        tree.mkdir()
        built = work / "binding" / "target"
        for archive in (*built.glob("*.jar"), *(built / "dependency").glob("*.jar")):
            shutil.copyfile(archive, tree / archive.name)
        _check(tree)
        for path in (tree, *tree.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        publish(tree, folder)


def _run_maven(maven: Path, properties: Mapping[str, str], work: Path) -> None:
    command = [
        str(maven),
        "--batch-mode",
        "--quiet",
        "--file",
        str(work / "pom.xml"),
        *(f"-D{name}={value}" for name, value in properties.items()),
        "package",
    ]
    run_client(
        "build the official YCSB client",
        command,
        work,
        "check the network and Maven's settings.xml (it comes from Maven Central), then run it "
        "again",
    )


def _check(tree: Path) -> None:
    if not (tree / f"core-{VERSION}.jar").is_file():
        raise RunFailed(
            "build the official YCSB client",
            f"Maven ended well, but there is no core-{VERSION}.jar",
            "remove site/ycsb from Maven's local repository, and run it again",
        )


# Java ---------------------------------------------------------------------------

#: The binding's unix sockets are Java's own from 16 on; 17 is the release that stays.
_LEAST = 17
_RELEASE = re.compile(r'version "(\d+)')
_TIMEOUT_S = 60
_PROBLEM = "driver ycsb"


@dataclass(frozen=True)
class Java:
    """A Java installation; ``program``: the command; ``banner``: its version in a line."""

    program: Path
    banner: str


def find_java() -> Java:
    """The ``java`` on the PATH; UsageError where there is none, or an old one."""
    return _inspect(_command("java"))


def find_maven() -> Path:
    """The ``mvn`` on the PATH, with a ``javac``; UsageError where one of them is missing."""
    _command("javac")
    return _command("mvn")


def _command(name: str) -> Path:
    program = shutil.which(name)
    if program is None:
        raise UsageError(
            _PROBLEM,
            f"there is no {name} on the PATH: the official client is a Java program, built by "
            "Maven on first use",
            "install both (Debian: sudo apt install default-jdk-headless maven)",
        )
    return Path(program)


@functools.cache
def _inspect(program: Path) -> Java:
    try:
        done = programs.run([program, "-version"], timeout_s=_TIMEOUT_S, foreign=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(_PROBLEM, f"{program}: {error}", "install another Java") from error
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    release = _RELEASE.search("\n".join(lines))
    if release is None:
        raise UsageError(
            _PROBLEM,
            f"{program} does not say its version: {(lines or ['it says nothing'])[0]}",
            "install another Java (Debian: default-jdk-headless)",
        )
    if int(release[1]) < _LEAST:
        raise UsageError(
            _PROBLEM,
            f"{program} is Java {release[1]}",
            f"put Java {_LEAST} or later on the PATH (Debian: default-jdk-headless)",
        )
    return Java(program, " / ".join(line.strip() for line in lines[:3] if line.strip()))
