"""Tools of the host that the harness or its user needs, with their versions."""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

#: Program → arguments that make it print its version.
_TOOLS = {
    "fio": ["--version"],
    "ioping": ["-v"],
    "numactl": ["--version"],
    "perf": ["--version"],
    "ndctl": ["--version"],
    "daxctl": ["--version"],
    "ipmctl": ["version"],
    "mkfs.ext4": ["-V"],
    "mkfs.xfs": ["-V"],
    "cpupower": ["--version"],
    "systemd-run": ["--version"],
    "gcc": ["--version"],
    "java": ["-version"],
    "mvn": ["--version"],
}
_TIMEOUT_S = 10
_VERSION = re.compile(r"\b\d+\.\d[\w.\-+]*|\b\d+\b")


def tool_versions() -> dict[str, str | None]:
    """Version by program; None: not installed, ``?``: installed, of unknown version."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(_TOOLS, pool.map(_version, _TOOLS), strict=True))


def _version(program: str) -> str | None:
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *_TOOLS[program]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    match = _VERSION.search(done.stdout) or _VERSION.search(done.stderr)
    return match.group(0) if match else "?"
