"""Whether a started server really has its parts where the placement says.

A location that a release quietly ignores would make every number of a placement wrong,
so two witnesses are asked: the files that the process has open (the kernel's word), and
the server's own variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engines._innodb.cluster import Cluster
from harness.engines._innodb.installation import Installation
from harness.errors import RunFailed


def verify_locations(pid: int, cluster: Cluster, installation: Installation) -> None:
    """RunFailed where the process has a file of one part open in another's place."""


def verify_variables(raw: Any, cluster: Cluster, settings: Mapping[str, str]) -> None:
    """RunFailed where a variable of the server is not what the option file says."""


def open_files(pid: int) -> list[Path]:
    """The files that a process has open, deleted ones without the kernel's mark."""
    found: list[Path] = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("/"):
            found.append(Path(target.removesuffix(" (deleted)")))
    return found
