"""Tools of the host that the harness or its user needs, with their versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from harness.supervise import programs

#: Program → arguments that make it print its version.
_TOOLS = {
    "fio": ["--version"],
    "ioping": ["-v"],
    "numactl": ["--version"],
    "perf": ["--version"],
    "ndctl": ["--version"],
    "daxctl": ["--version"],
    "cxl": ["--version"],
    "ipmctl": ["version"],
    "mkfs.ext4": ["-V"],
    "mkfs.xfs": ["-V"],
    "cpupower": ["--version"],
    "systemd-run": ["--version"],
    "gcc": ["--version"],
    "java": ["-version"],
    "mvn": ["--version"],
}
#: In place of the version of a program that prints none, such as numactl.
UNKNOWN = "?"
_TIMEOUT_S = 10
#: For programs that query devices.
_DEVICES_TIMEOUT_S = 30
_VERSION = re.compile(r"\b\d+\.\d[\w.\-+]*|\b\d+\b")


def tool_versions() -> dict[str, str | None]:
    """Version by program; None: not installed, :data:`UNKNOWN`: installed."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(_TOOLS, pool.map(_version, _TOOLS), strict=True))


def _version(program: str) -> str | None:
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        return None
    if (done := run_tool(path, *_TOOLS[program])) is None:
        return UNKNOWN
    match = _VERSION.search(done.stdout) or _VERSION.search(done.stderr)
    return match.group(0) if match else UNKNOWN


def run_tool(
    path: str, *arguments: str, timeout_s: float = _TIMEOUT_S
) -> subprocess.CompletedProcess[str] | None:
    """Run a program to its end; None if it cannot run or does not end."""
    try:
        return programs.run([path, *arguments], timeout_s=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return None


def run_as_root(program: str, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program that only root may use; None if it is absent, cannot run or needs root."""
    path = shutil.which(program)
    if path is None or os.geteuid() != 0:
        return None
    return run_tool(path, *arguments, timeout_s=_DEVICES_TIMEOUT_S)
