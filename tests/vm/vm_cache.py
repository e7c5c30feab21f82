"""Builds for the test machine, made once and used again: outside the tree, keyed by recipe.

``$HARNESS_VM_CACHE``, else ``tierbench/vm`` in the user's cache folder: several checkouts
share it, and a clean checkout finds what another has built.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def _cache() -> Path:
    if given := os.environ.get("HARNESS_VM_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tierbench" / "vm"


CACHE = _cache()
_UNUSED_S = 7 * 24 * 3600


@contextlib.contextmanager
def lock(kind: str) -> Iterator[None]:
    """One builder of this kind at a time, whoever runs the tests; makes the kind's folder."""
    folder = CACHE / kind
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{kind}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def forget_unused(used: Path) -> None:
    """Remove what lies beside ``used`` and nobody has used for a week."""
    os.utime(used)
    for other in used.parent.iterdir():
        if time.time() - other.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(other, ignore_errors=True)
