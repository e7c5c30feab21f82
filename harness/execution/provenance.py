"""What made a run: the harness's own revision, and the versions of what it stands on."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

_DISTRIBUTIONS = ("duckdb", "numpy", "psycopg", "tpchgen-cli")


@cache
def revision() -> str | None:
    """The commit of a checkout, ``-dirty`` where it is changed; None of an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


@cache
def tool_versions() -> dict[str, str]:
    """Python and the libraries whose version can change a number."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
