"""Selection of the installation of a server to run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

from harness.engine import EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.supervise.credentials import run_unprivileged, unprivileged
from harness.tiers.verify import may_enter

_TIMEOUT_S = 30


Found = TypeVar("Found", bound=EngineVersion)


def first_fitting(
    title: str,
    machine: Iterable[Found],
    private: Iterable[Found],
    options: EngineOptions,
    install: str,
    of_prefix: Callable[[Path], Found],
) -> Found:
    """Return the installation that the engine options select; UsageError if there is none.

    Order: what ``of_prefix`` finds in the folder of the option ``prefix``; the newest of the
    machine's own; the first of the private prefix. With the option ``version`` (a major or a full
    release), the first in that order that matches. ``install``: the command that installs one.
    """
    if named := options.get("prefix"):
        prefix = Path(str(named)).absolute()
        check_reachable(title, prefix)
        return of_prefix(prefix)
    public = sorted(machine, key=lambda i: i.version_tuple, reverse=True)
    version = str(options.get("version", ""))
    rejected: list[Found] = []
    for installation in chain(public, private):
        if not version or installation.is_release(version):
            return installation
        rejected.append(installation)
    listed = ", ".join(f"{i.version} ({i.source})" for i in rejected) or "none"
    raise UsageError(
        f"{title} {version}".strip(),
        f"installations found: {listed}",
        f"{install}, install {title}, or name one with the engine option 'prefix'",
    )


def check_reachable(title: str, prefix: Path) -> None:
    """Raise UsageError if the servers' user cannot enter the folder ``prefix``."""
    if (user := unprivileged()) is None:
        return
    real = prefix.resolve()
    folders = [path for path in (*reversed(real.parents), real) if path.is_dir()]
    if closed := [path for path in folders if not may_enter(path, user)]:
        raise UsageError(
            f"{title} under {prefix}",
            f"it runs as user {user.name}, who cannot enter {closed[0]}",
            f"chmod o+x {closed[0]}, or name another prefix",
        )


def java_of(options: EngineOptions) -> str:
    """Return the program of the engine option ``java``, a folder; by default, that of the PATH."""
    return str(Path(str(options["java"])) / "bin" / "java") if "java" in options else "java"


@lru_cache(maxsize=64)
def output_of(*command: str) -> str:
    """Return what a program prints when the servers' user runs it; empty if it cannot run."""
    try:
        done = run_unprivileged(command, timeout_s=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def workloads_in(sql_folder: Path) -> tuple[str, ...]:
    """Return the workloads that an engine brings SQL for: none without such a folder."""
    return tuple(folder.name for folder in sql_folder.glob("*/"))
