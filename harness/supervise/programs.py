"""Programs that the harness runs itself, next to what the supervisor starts.

All go through :func:`run` and :func:`start`: a program dies with the harness (kill -9 included), is
away from its terminal, and sees a small environment with a fixed locale, so that its numbers have
decimal points. What starts processes of its own, or belongs to a run, is the supervisor's.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from harness.supervise import linux
from harness.supervise.user_files import Credentials

#: Variables by which users reach package registries, in capitals or not, and beginnings of names.
_NETWORK = frozenset(
    {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "ssl_cert_file", "ssl_cert_dir"}
    | {"curl_ca_bundle", "requests_ca_bundle", "java_home", "home"}
)
_NETWORK_PREFIXES = ("PIP_", "UV_", "MAVEN_", "APT_", "NIX_SSL_")


def minimal_environment(home: Path) -> dict[str, str]:
    """PATH and fixed locale and time zone: nothing secret, and the same on every host."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(home),
    }


def inherited(names: Iterable[str]) -> dict[str, str]:
    """These variables of the harness, those that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def network_environment() -> dict[str, str]:
    """What a client of a package registry needs of the user's environment."""
    return inherited(
        name
        for name in os.environ
        if name.lower() in _NETWORK or name.startswith(_NETWORK_PREFIXES)
    )


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float | None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
    user: Credentials | None = None,
    descriptors: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; OSError and subprocess.TimeoutExpired as of ``subprocess.run``.

    At the timeout, its whole process group is killed. ``env`` is added to the minimal environment.
    ``user``: it runs as that one (root only).
    """
    words = [str(word) for word in command]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        **_common(env, cwd, user, descriptors),
    ) as process:
        try:
            output, errors = process.communicate(stdin, timeout_s)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def start(
    command: Sequence[str | Path],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program that the caller ends.

    It dies with the thread that calls, too, which must live as long as it.
    """
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        **_common(env, cwd, None, descriptors),
    )


def _common(
    env: Mapping[str, str] | None, cwd: Path, user: Credentials | None, descriptors: Sequence[int]
) -> dict[str, Any]:
    return {
        "env": minimal_environment(cwd) | dict(env or {}),
        "cwd": cwd,
        "pass_fds": descriptors,
        "start_new_session": True,  # away from our terminal
        "user": user.uid if user else None,
        "group": user.gid if user else None,
        "extra_groups": [] if user else None,
        "preexec_fn": dying_with(os.getpid()),  # called after setuid, which would clear it
    }


def dying_with(parent: int) -> Callable[[], None]:
    """What a forked child calls to be killed at its parent's death."""

    def request() -> None:
        linux.die_with_parent(parent, signal.SIGKILL)

    return request
