"""Releases of engines that have passed ``harness engines verify`` here.

``<data>/verified/<engine>-<version>.json`` notes that an engine has passed. An engine that could
not be tried when it was written warns with each run until there is one (``engine-untested``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import jsonfile, paths
from harness.engine import EngineVersion
from harness.store import rescue
from harness.store.documents import json_bytes
from harness.supervise.own_files import make_passable


def _file(engine: str, version: EngineVersion) -> Path:
    release = version.version.replace("/", "_")
    return paths.data_root() / "verified" / f"{engine}-{release}.json"


def record_verified(engine: str, version: EngineVersion, checks: Sequence[dict[str, Any]]) -> None:
    """Store that all checks of this release have passed, or do not apply."""
    file = _file(engine, version)
    document = {
        "engine": engine,
        "version": version.version,
        "build": version.build,
        "source": version.source,
        "verified_unix_ns": time.time_ns(),
        "checks": list(checks),
    }
    with suppress(OSError):
        make_passable(file.parent)
    rescue.write_result(file, json_bytes(document), f"checks of {engine} {version.version}")


def verified(engine: str, version: EngineVersion) -> bool:
    """Return whether this build has passed."""
    try:
        document = jsonfile.parse(jsonfile.read_bytes(_file(engine, version)))
    except (OSError, ValueError):
        return False
    return bool(document.get("build") == version.build)
