"""Engine installations in a private prefix: pinned, checked, unpacked in one step.

An engine that wants one has a ``versions.yml`` beside its ``engine.py``. The archive
comes from its registry through that registry's ordinary client, its SHA-256 is
compared before anything is unpacked, and the finished tree is renamed into place:
a prefix holds whole installations or nothing. Database *services* of the machine
are never touched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.yamlfile import load_yaml

ENGINES = Path(__file__).parent


@dataclass(frozen=True)
class Pinned:
    """One pinned archive: what versions.yml says for this machine's architecture."""

    engine: str
    version: str
    package: str
    package_version: str
    python: str
    abi: str
    platform: str
    file: str
    sha256: str
    keep: tuple[str, ...]
    bin: str

    @property
    def folder(self) -> str:
        """Name of its folder in the prefix (``postgres-18.4``)."""
        return f"{self.engine}-{self.version}"

    @property
    def source(self) -> str:
        """Where it comes from, as recorded with every run."""
        return f"PyPI {self.package} {self.package_version}"


def pinned_engines() -> list[str]:
    """Names of the engines that have a versions.yml."""
    return sorted(path.parent.name for path in ENGINES.glob("*/versions.yml"))


def pinned(engine: str, versions: Path | None = None) -> Pinned:
    """The pinned archive of ``engine`` for this machine; UsageError where there is none."""
    path = versions or ENGINES / engine / "versions.yml"
    if not path.exists():
        raise UsageError(
            f"install {engine}", "the engine has no versions.yml", "install it by its own means"
        )
    document: Mapping[str, Any] = load_yaml(path).value
    archive = document["archives"].get(platform.machine())
    if archive is None:
        raise UsageError(
            f"install {engine} {document['version']}",
            f"no archive is pinned for {platform.machine()}",
            f"install {engine} on the machine, or name one with the engine option 'prefix'",
        )
    source = document["source"]
    return Pinned(
        engine=document["engine"], version=document["version"],
        package=source["package"], package_version=source["version"],
        python=source["python"], abi=source["abi"],
        platform=archive["platform"], file=archive["file"], sha256=archive["sha256"],
        keep=tuple(document["keep"]), bin=document["bin"],
    )  # fmt: skip


def installed(engine: str, prefix: Path) -> list[tuple[Path, str]]:
    """Folders of the prefix with an installation of ``engine``, and where each came from."""
    found = sorted(prefix.glob(f"{engine}-*"), reverse=True)
    return [(folder, f"private prefix, {folder.name}") for folder in found]


def install(engine: str, prefix: Path, progress: Progress, versions: Path | None = None) -> Path:
    """Put the pinned build of ``engine`` into ``prefix`` and return its folder; idempotent.

    RunFailed when the download fails or the checksum differs; nothing is left then.
    """
    pin = pinned(engine, versions)
    target = prefix / pin.folder
    if target.is_dir():
        return target
    prefix.mkdir(parents=True, exist_ok=True)
    with _work_directory(prefix, pin) as work:
        with progress.task(f"installing {engine} {pin.version}", total=3) as task:
            archive = _download(pin, work)
            task.advance(note="downloaded")
            _verify(pin, archive)
            task.advance(note="verified")
            tree = work / "tree"
            _unpack(pin, archive, tree)
            task.advance(note="unpacked")
        _publish(tree, target)
    return target


@contextmanager
def _work_directory(prefix: Path, pin: Pinned) -> Iterator[Path]:
    """A directory to install in, gone at the end; those that killed installs left go first.

    Its owner holds a lock on it, which a kill ends; the prefix is locked meanwhile, so
    that none is taken for left behind before it is locked.
    """
    with _locked(prefix):
        for left in prefix.glob(f".{pin.folder}.*"):
            with suppress(OSError), _locked(left, fcntl.LOCK_NB):
                shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{pin.folder}.", dir=prefix))
        mine = ExitStack()
        mine.enter_context(_locked(work))
    with mine:
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(directory: Path, flags: int = 0) -> Iterator[None]:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(handle)


def _download(pin: Pinned, folder: Path) -> Path:
    """Fetch the wheel for its own Python tag, whatever Python runs the harness."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary", ":all:", "--platform", pin.platform,
        "--implementation", "cp", "--python-version", pin.python, "--abi", pin.abi,
        "--dest", str(folder), f"{pin.package}=={pin.package_version}",
    ]  # fmt: skip
    # pip's own temporary files go there too: they are removed with it, however this ends.
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    archive = folder / pin.file
    if done.returncode != 0 or not archive.exists():
        lines = done.stderr.strip().splitlines()
        raise RunFailed(
            f"download {pin.source}",
            lines[-1] if lines else f"{pin.file} is not what the registry gave",
            "check the network and pip's index settings, then run `make setup` again",
        )
    return archive


def _verify(pin: Pinned, archive: Path) -> None:
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != pin.sha256:
        raise RunFailed(
            f"install {pin.source}",
            f"{pin.file} has SHA-256 {digest}, pinned is {pin.sha256}",
            "do not use this file; find out why your registry gives another one",
        )


def _unpack(pin: Pinned, archive: Path, tree: Path) -> None:
    """Unpack what is kept, with the archive's modes, readable for every user."""
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            if member.is_dir() or not member.filename.startswith(pin.keep):
                continue
            path = Path(zipped.extract(member, tree))
            executable = (member.external_attr >> 16) & 0o111
            path.chmod(0o755 if executable else 0o644)
    for folder in [tree, *(p for p in tree.rglob("*") if p.is_dir())]:
        folder.chmod(0o755)


def _publish(tree: Path, target: Path) -> None:
    try:
        tree.rename(target)
    except OSError:
        if not target.is_dir():  # else another setup was faster: its tree is the same
            raise
