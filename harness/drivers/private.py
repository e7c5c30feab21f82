"""A folder for one client program: its script or settings, what it writes, gone at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.workload import Clients


@contextmanager
def private_folder(clients: Clients, prefix: str) -> Iterator[Path]:
    """A new folder of the clients' user, in their scratch directory."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=clients.scratch))
    try:
        _give(folder, clients)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_secret(path: Path, text: str, clients: Clients) -> None:
    """A new file that nobody but the clients' user reads: passwords may stand in it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as to:
        to.write(text)
    _give(path, clients)


def _give(path: Path, clients: Clients) -> None:
    if (user := clients.credentials) is not None and os.geteuid() == 0:
        os.chown(path, user.uid, user.gid)
