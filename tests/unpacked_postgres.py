"""PostgreSQL with TLS where the machine has none: its release's own, unpacked.

Tests hand it over by the engine's option ``prefix``. The libraries that it links are those that
``scripts/setup.sh dev`` brings for other things (libpq, Chromium).
"""

import shutil
import subprocess
from pathlib import Path

from unpacked_debs import unpacked

from engines.postgres.configuration import check_tls
from engines.postgres.installation import NEEDED, choose
from harness import paths
from harness.errors import UsageError
from harness.host.listen_address import Address
from harness.install.debs import Apt


def options_with_tls() -> dict[str, str]:
    """Options of the engine for a server that can listen: none where a run's own choice can."""
    try:
        check_tls(choose({}, paths.engines_prefix()), Address("127.0.0.1"))
    except UsageError:
        return {"prefix": str(_folder(unpacked("postgresql", _packages, _finish)))}
    return {}


def _packages(apt: Apt) -> list[str]:
    major = apt.versions(["postgresql"])["postgresql"][0].split("+")[0]
    return [f"postgresql-{major}"]


def _finish(tree: Path) -> None:
    """Remove what its programs can do without, and try them with the machine's libraries."""
    folder = _folder(tree)
    # Compiling of expressions, which needs LLVM: without this file the server does without it.
    (folder / "lib" / "llvmjit.so").unlink(missing_ok=True)
    shutil.rmtree(folder / "lib" / "bitcode", ignore_errors=True)
    for name in NEEDED:
        done = subprocess.run(
            [folder / "bin" / name, "--version"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stderr.strip()}: run `make setup-dev`"


def _folder(tree: Path) -> Path:
    (folder,) = tree.glob("usr/lib/postgresql/*")
    return folder
