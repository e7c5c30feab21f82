"""A folder for one client program: its script or settings, what it writes, gone at the end."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.supervise.user_files import acting_as, make_directory, remove_tree
from harness.workload import Clients


@contextmanager
def private_folder(clients: Clients, prefix: str) -> Iterator[Path]:
    """A new folder of the clients' user, in their scratch directory."""
    folder = clients.scratch / f"{prefix}{secrets.token_hex(8)}"
    make_directory(folder, clients.credentials)
    try:
        yield folder
    finally:
        with acting_as(clients.credentials), suppress(OSError):  # the scratch directory goes too
            remove_tree(folder)
