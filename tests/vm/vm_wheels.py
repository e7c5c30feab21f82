"""Wheels for the test machine, which has no network: the harness's own, and all it depends on."""

import hashlib
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from vm_cache import CACHE, REPOSITORY, forget_unused, lock

#: Newest C library (glibc's minor release) that each machine has.
_GUEST_GLIBC_MINOR = 36
#: What the harness's wheel is made of.
_SOURCES = (
    *("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"),
    *("harness", "engines", "reports", "profiles", "playbooks", "inventory"),
    *("iotrace", "launch", "loadgen", "microbench", "native"),
)


def dependencies() -> list[str]:
    """Return the harness's requirements at run time, from pyproject.toml."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted: list[str] = project["dependencies"]
    return wanted


def download_wheelhouse(folder: Path, python: str) -> None:
    """Wheels of all that the harness depends on, for the machine's Python, into ``folder``."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(_GUEST_GLIBC_MINOR, 4, -1)]
    platforms += [f"manylinux{year}_x86_64" for year in ("2014", "2010", "1")]
    for_guest = ["--implementation=cp", f"--python-version={python}"]
    for_guest += [f"--platform={platform}" for platform in platforms]
    _pip("download", "--only-binary=:all:", *for_guest, f"--dest={folder}", *dependencies())


def own_wheel() -> Path:
    """The harness's own wheel with its compiled programs, made now if the sources have changed."""
    with lock("wheels"):
        while not (folder := CACHE / "wheels" / (key := _sources_key())).exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
                made = Path(scratch) / "wheel"
                _pip("wheel", "--no-deps", f"--wheel-dir={made}", str(REPOSITORY))
                if _sources_key() == key:  # else somebody works on them, and it is of neither
                    made.rename(folder)
        forget_unused(folder)
        (wheel,) = folder.glob("*.whl")
    return wheel


def _sources_key() -> str:
    digest = hashlib.sha256()
    for file in _source_files():
        digest.update(f"{file.relative_to(REPOSITORY)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _source_files() -> Iterator[Path]:
    for name in _SOURCES:
        place = REPOSITORY / name
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        for file in files:
            parts = file.relative_to(REPOSITORY).parts
            if file.is_file() and "__pycache__" not in parts and "_native" not in parts:
                yield file


def _pip(*argv: str) -> None:
    patient = ["--timeout=120", "--retries=10"]  # of the network, on a busy machine
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *patient]
    done = subprocess.run([*pip, *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(argv)}: exit {done.returncode}\n{done.stderr[-3000:]}")
