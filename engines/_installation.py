"""Which installation of a server to run: the order in which those found are asked."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.errors import UsageError

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


def output_of(*command: str) -> str:
    """What a program says on stdout; empty where it cannot be run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
