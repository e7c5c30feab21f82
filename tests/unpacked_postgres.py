"""PostgreSQL with TLS where the machine has none: its release's own, unpacked, never installed.

An installed server package would start a service. What is unpacked lies beside the pinned
engines, where the unprivileged user that servers run as can enter, under a name that no run
looks for: tests hand it over by the engine's option ``prefix``. The libraries that it links
are those that ``scripts/setup.sh dev`` brings for other things (libpq, Chromium).
"""

import fcntl
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engines.postgres.configuration import check_tls
from engines.postgres.installation import NEEDED, choose
from harness import paths
from harness.errors import UsageError
from harness.host.listen_address import Address
from harness.install.debs import Apt
from harness.install.prefix import publish, run_client, work_directory


def options_with_tls() -> dict[str, str]:
    """Options of the engine for a server that can listen: none where a run's own choice can."""
    try:
        check_tls(choose({}, paths.engines_prefix()), Address("127.0.0.1"))
    except UsageError:
        return {"prefix": str(_unpacked(paths.engines_prefix() / "unpacked-for-tests"))}
    return {}


def _unpacked(cache: Path) -> Path:
    """Its folder with ``bin/postgres`` below ``cache``; there as a whole or not at all."""
    release = platform.freedesktop_os_release()
    name = f"postgresql-{release['ID']}-{release['VERSION_ID']}"
    with _locked(cache):
        if not (cache / name).is_dir():
            with work_directory(cache, name) as work:
                tree = work / "tree"
                _unpack(release["VERSION_CODENAME"], work, tree)
                _try(_folder(tree))
                publish(tree, cache / name)
    return _folder(cache / name)


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One downloads, whoever else runs tests waits; makes the folder."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpack(codename: str, work: Path, tree: Path) -> None:
    apt = Apt(work, (codename, f"{codename}-security"), "PostgreSQL of Debian")
    major = apt.versions(["postgresql"])["postgresql"][0].split("+")[0]
    apt.download([f"postgresql-{major}"])
    (package,) = work.glob("*.deb")
    tree.mkdir()
    run_client(f"unpack {package.name}", ["dpkg-deb", "--extract", str(package), str(tree)], work,
               "install dpkg")  # fmt: skip
    # Compiling of expressions, which needs LLVM: without this file the server does without it.
    (_folder(tree) / "lib" / "llvmjit.so").unlink(missing_ok=True)
    shutil.rmtree(_folder(tree) / "lib" / "bitcode", ignore_errors=True)


def _folder(tree: Path) -> Path:
    (folder,) = tree.glob("usr/lib/postgresql/*")
    return folder


def _try(folder: Path) -> None:
    """Its programs with the machine's libraries."""
    for name in NEEDED:
        done = subprocess.run(
            [folder / "bin" / name, "--version"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr.strip()}: run `make setup-dev`"
