"""Runs inside the test machine with its plain python3: what playbooks change, as JSON.

Read with the machine's own tools and from its files, and from nothing of ours.
"""

import json
import subprocess
from pathlib import Path

_FILES = (
    "/etc/fstab",
    "/etc/harness/host.yml",
    "/etc/daxctl.conf.d/tierbench.conf",
    "/etc/udev/rules.d/60-tierbench-dax.rules",
    "/proc/cmdline",
)


def listed(*argv: str) -> object:
    """ndctl and daxctl print one object, or several as an array, or nothing at all."""
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout or "[]")
    return document if isinstance(document, list) else [document]


def text(path: str) -> str | None:
    return Path(path).read_text() if Path(path).exists() else None


def mounts() -> list[list[str]]:
    """Device, directory, file system and options of all that is mounted from persistent memory."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted(words[:4] for words in lines if words[0].startswith("/dev/pmem"))


def units() -> list[str]:
    """Return systemd's configuration in addition to the distribution's own."""
    return sorted(str(path) for path in Path("/etc/systemd/system").rglob("*"))


def main() -> None:
    state = {
        "namespaces": listed("ndctl", "list", "-N"),
        "dax_devices": listed("daxctl", "list"),
        "nodes": Path("/sys/devices/system/node/has_memory").read_text().strip(),
        "mounts": mounts(),
        "units": units(),
        **{path: text(path) for path in _FILES},
    }
    print(json.dumps(state))


main()
