"""Which installation of a server to run: the order in which those found are asked."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.supervise.credentials import run_unprivileged, unprivileged
from harness.tiers.verify import may_enter

_TIMEOUT_S = 30


@dataclass(frozen=True)
class FoundInstallation:
    """``version``: its release ("9.7.4"). ``banner``: what its server says of itself.

    ``source``: where it came from, as recorded with a run.
    """

    version: str
    banner: str
    source: str

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """(9, 7, 4) of "9.7.4"."""
        return tuple(int(part) for part in self.version.split("."))


Found = TypeVar("Found", bound=FoundInstallation)


def first_fitting(
    title: str,
    machine: Iterable[Found],
    private: Iterable[Found],
    options: Mapping[str, Any],
    install: str,
) -> Found:
    """The newest of the machine's own, else the first of the private prefix.

    With the option ``version`` (a major or a full release) the first in that order which
    fits it. UsageError where none does; ``install`` says there how to get one.
    """
    own = sorted(machine, key=lambda i: i.version_tuple, reverse=True)
    found = [*own, *private]
    wanted = str(options.get("version", ""))
    for installation in found:
        if not wanted or f"{installation.version}.".startswith(f"{wanted}."):
            return installation
    there = ", ".join(f"{i.version} ({i.source})" for i in found) or "none"
    raise UsageError(
        f"{title} {wanted}".strip(),
        f"installations found: {there}",
        f"{install}, install {title}, or name one with the engine option 'prefix'",
    )


def check_reachable(title: str, prefix: Path) -> None:
    """UsageError where the servers' user cannot enter a folder that was named."""
    if (user := unprivileged()) is None:
        return
    real = prefix.resolve()
    way = [path for path in (*reversed(real.parents), real) if path.is_dir()]
    if closed := [path for path in way if not may_enter(path, user)]:
        raise UsageError(
            f"{title} under {prefix}",
            f"user {user.name}, whom it runs as, cannot enter {closed[0]}",
            f"chmod o+x {closed[0]}, or name another prefix",
        )


def output_of(*command: str) -> str:
    """What a program says on stdout to the servers' user; empty where it cannot be run."""
    try:
        done = run_unprivileged(command, timeout_s=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
