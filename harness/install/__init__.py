"""Engine installations in a private prefix: pinned, verified, published in one step.

An engine may have a ``versions.yml`` next to its ``engine.py``, with pinned builds in order of
preference. The registry's client downloads a build, its SHA-256 is verified before anything
is unpacked, the program is run once, and the finished tree is renamed into place: a prefix contains
only complete installations. An installation that is damaged later is ignored, and replaced by the
next install. Database *services* of the machine are never changed.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness import jsonfile, registry, structs
from harness.errors import RunFailed, UsageError, unknown
from harness.install.archives import Jars, MavenArchive, Requirements, SourceArchive, Wheel
from harness.install.debs import Debs
from harness.install.prefix import NO_SPACE, publish, work_directory
from harness.progress import Progress
from harness.supervise import programs
from harness.supervise.credentials import (
    refuse_exchangeable,
    refuse_noexec,
    run_unprivileged,
    unprivileged,
)
from harness.supervise.own_files import make_passable
from harness.units import format_bytes
from harness.warnings import RunWarning, warn
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


def default_engines() -> list[str]:
    """Names of the engines that are installed where none is named."""
    files = registry.engine_files("versions.yml")
    return [name for name in pinned_engines() if not load_yaml(files[name]).value.get("on_request")]


def pinned(engine: str, versions: Path | None = None) -> list[Pinned]:
    """The pinned builds of ``engine`` for this machine; UsageError if there is none."""
    path = versions or registry.engine_files("versions.yml").get(engine)
    if path is None or not path.exists():
        context = "the harness installs no such engine"
        raise unknown(f"install {engine}", context, engine, pinned_engines())
    document: Mapping[str, Any] = load_yaml(path).value
    machine = platform.machine()
    installations = [
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
    if not installations:
        raise UsageError(
            f"install {engine}",
            f"no build is pinned for {machine}",
            f"install {engine} on the machine, or select one with the engine option 'prefix'",
        )
    return installations


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
    return structs.convert(stated, _KINDS[source["kind"]], f"versions.yml of {engine.name}")


__all__ = [
    "Installed",
    "Pinned",
    "default_engines",
    "install",
    "install_packages",
    "installed",
    "java_command",
    "linker",
    "pinned",
    "pinned_engines",
]

_RECORD = "installed.json"
_TRIAL_S = 60
#: Of an error's text.
_SHOWN = 300
#: Loads a library, as the unprivileged user where one is given by its numbers.
_LOAD = """
import ctypes, os, sys
library, *user = sys.argv[1:]
if user:
    os.setgroups([])
    os.setgid(int(user[1]))
    os.setuid(int(user[0]))
ctypes.CDLL(library)
"""


@dataclass(frozen=True)
class Installed:
    """An installation of the prefix: its folder and its origin.

    ``moved_on``: libraries that were newer than the pinned ones.
    """

    folder: Path
    source: str
    moved_on: tuple[str, ...] = ()


def install(
    engine: str,
    prefix: Path,
    progress: Progress,
    versions: Path | None = None,
    version: str | None = None,
) -> Path:
    """Install a pinned build of ``engine`` into ``prefix`` and return its folder; idempotent.

    The first build that is available, or the one of ``version``; nothing if one of them is already
    installed, undamaged. RunFailed names the failure of each build; nothing is left of it.
    """
    pins = pinned(engine, versions)
    builds = [pin for pin in pins if version in (None, pin.version)]
    if not builds:
        raise UsageError(
            f"install {engine} {version}",
            "no such build is pinned",
            f"pinned: {', '.join(pin.version for pin in pins)}",
        )
    return _install_first(builds, prefix, progress)


def _install_first(builds: Sequence[Pinned], prefix: Path, progress: Progress) -> Path:
    """Install the first build that is available and return its folder; see :func:`install`."""
    for pin in builds:
        folder = prefix / pin.folder
        if folder.is_dir():
            state = _read(folder)
            if isinstance(state, Installed):
                return folder
            progress.say(f"{folder}: {state}; installing it again")
    make_passable(prefix)
    refuse_noexec(prefix, builds[0].engine)
    refuse_exchangeable(prefix, "engines", "HARNESS_ENGINES")
    failures: list[RunFailed] = []
    for pin in builds:
        try:
            folder = _install(pin, prefix, progress)
        except (OSError, RunFailed) as error:
            failures.append(_failure(pin, prefix, error))
            continue
        for failure in failures:
            progress.say(f"{failure}; {pin.engine} {pin.version} was installed instead")
        if pin.note:
            progress.say(f"{pin.engine} {pin.version}: {pin.note}")
        return folder
    if len(failures) == 1:
        raise failures[0]
    raise RunFailed(f"install {builds[0].engine}", "; ".join(map(str, failures)), failures[-1].hint)


def install_packages(label: str, requirements: Path, prefix: Path, progress: Progress) -> Path:
    """Install Python packages that are no engine, with a DuckDB among them; returns their folder.

    ``label``: origin, name and version of the one that they are installed for.
    """
    _, name, version = label.split()
    library = f"_duckdb{sysconfig.get_config_var('EXT_SUFFIX')}"
    build = Pinned(name, version, (Requirements(requirements, label),), ("",), library)
    return _install_first([build], prefix, progress)


def _failure(pin: Pinned, prefix: Path, error: OSError | RunFailed) -> RunFailed:
    """RunFailed with one reason; shutil.Error has one for each file of a tree."""
    problem = f"install {pin.engine} {pin.version}"
    if NO_SPACE in str(error):
        raise RunFailed(
            problem,
            f"no space left in {prefix} ({format_bytes(shutil.disk_usage(prefix).free)} are free)",
            "free space there, or export HARNESS_ENGINES=DIRECTORY",
        ) from error
    if isinstance(error, RunFailed):
        return error
    context = f"{error.strerror}: {error.filename}" if error.strerror else str(error)[:_SHOWN]
    return RunFailed(problem, context, "see the folder's owner, mode and file system")


def installed(engine: str, prefix: Path) -> list[Installed]:
    """Installations of ``engine`` in the prefix, pinned builds first and in their order."""
    if prefix.is_dir():
        refuse_exchangeable(prefix, "engines", "HARNESS_ENGINES")
    pins = {pin.folder: pin for pin in _pins(engine)}
    order = {folder: number for number, folder in enumerate(pins)}
    installations: list[Installed] = []
    for folder in sorted(prefix.glob(f"{engine}-*"), key=lambda f: order.get(f.name, len(order))):
        match _read(folder):
            case Installed() as undamaged:
                installations.append(undamaged)
            case damage if folder.name in pins:
                warn(
                    RunWarning(
                        "installation-damaged",
                        f"{folder} is left out",
                        damage,
                        f"run: harness engines install {engine}",
                    )
                )
    return installations


def _read(folder: Path) -> Installed | str:
    """The installation if its files are unchanged, else what is wrong with it."""
    try:
        record = jsonfile.read(folder / _RECORD)
        sizes = dict(record["sizes"])
        installation = Installed(folder, str(record["source"]), tuple(map(str, record["moved_on"])))
    except (OSError, LookupError, RecursionError, TypeError, ValueError) as error:
        return f"{_RECORD} cannot be read: {error!r}"
    for name, size in sizes.items():
        try:
            size_now = (folder / name).stat().st_size
        except (OSError, ValueError) as error:
            return f"{name}: {error}"
        if size_now != size:
            return f"{name} has {size_now} bytes, {size} were installed"
    return installation if sizes else f"{_RECORD} names no file"


def _sizes(tree: Path) -> dict[str, int]:
    files = (path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(tree)): path.stat().st_size for path in files}


def linker(folder: Path) -> tuple[str, ...]:
    """The start of a command that uses the tree's own libraries; empty if it has none.

    A tree with its own C library needs its own dynamic linker too.
    """
    for libraries in sorted((folder / "usr/lib").glob("*-linux-gnu")):
        bundled = sorted(libraries.glob("ld-linux-*.so.*"))
        machine = sorted(Path("/").glob("lib*/ld-linux-*.so.*"))
        for program in [*bundled, *machine][:1]:
            return (str(program), "--library-path", str(libraries))
    return ()


def java_command(folder: Path, java: str = "java") -> tuple[str, ...]:
    """The start of a command that runs a class of a Java server's tree.

    Compiled classes precede those of the jars.
    """
    return (java, "-XX:-UsePerfData", "-cp", f"{folder}/classes:{folder}/lib/*")


def _pins(engine: str) -> list[Pinned]:
    try:
        return pinned(engine)
    except UsageError:
        return []


def _install(pin: Pinned, prefix: Path, progress: Progress) -> Path:
    target = prefix / pin.folder
    with work_directory(prefix, pin.folder) as work:
        tree = work / "tree"
        moved_on: list[str] = []
        steps = len(pin.sources) + 1
        with progress.task(f"installing {pin.engine} {pin.version}", total=steps) as task:
            for number, source in enumerate(pin.sources):
                folder = work / str(number)
                folder.mkdir()
                moved_on += source.fetch(folder)
                source.unpack(folder, tree)
                task.advance(note=f"has {source.label}")
            _prune(tree, pin.keep)
            work.chmod(0o755)  # for the user that runs the program
            _try(pin, tree)
            task.advance(note="runs")
        record = {"source": pin.source, "moved_on": moved_on, "sizes": _sizes(tree)}
        (tree / _RECORD).write_text(json.dumps(record, indent=1))
        if target.is_dir() and not isinstance(_read(target), Installed):
            target.rename(work / "damaged")
        publish(tree, target)
    if moved_on:
        progress.say(
            f"{pin.engine} {pin.version}: newer than pinned, signed by Debian: "
            f"{', '.join(moved_on)}"
        )
    return target


def _prune(tree: Path, keep: tuple[str, ...]) -> None:
    """Keep only paths that start with ``keep``, readable and executable for every user."""
    for path in sorted(tree.rglob("*"), reverse=True):
        name = str(path.relative_to(tree))
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
            if not any(path.iterdir()):
                path.rmdir()
        elif not name.startswith(keep):
            path.unlink()
        elif not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
    tree.chmod(0o755)


def _try(pin: Pinned, tree: Path) -> None:
    """RunFailed unless the program prints its version, or the library loads."""
    program = str(tree / pin.program)
    command = [*linker(tree), program, "--version"]
    if program.endswith(".class"):
        name = str(Path(pin.program).relative_to("classes").with_suffix("")).replace("/", ".")
        command = [*java_command(tree), name]
    if program.endswith(".so"):
        # The unprivileged user may be unable to run this Python.
        user = unprivileged()
        command = [sys.executable, "-X", "utf8", "-I", "-S", "-c", _LOAD, program]
        command += [] if user is None else [str(user.uid), str(user.gid)]
    try:
        done = (
            programs.run(command, timeout_s=_TRIAL_S, foreign=True)
            if program.endswith(".so")
            else run_unprivileged(command, timeout_s=_TRIAL_S)
        )
        problem = done.stderr.strip() or f"exit status {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    else:
        if done.returncode == 0:
            return
    raise RunFailed(
        f"install {pin.engine} {pin.version}",
        f"{pin.program} of {pin.source} does not run here: {problem.splitlines()[-1]}",
        f"install {pin.engine} on the machine, or select one with the engine option 'prefix'",
    )
