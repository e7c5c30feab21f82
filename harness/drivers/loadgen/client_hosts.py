"""Hosts that drive the load of a server of this one, by ssh.

The server listens where it always does, on a socket of its own: each client process reaches it
through a tunnel of its own ssh connection, from a socket on its host that only its user can open.
Where the run has the server listen on an address, they reach it there, by TLS and without a
tunnel. What a process is told (the password in it) and what it answers goes through ssh.

::

    afar = ClientHosts(("bench@client1", "client2"))
    afar.check("postgres")                    # loadgen is there, the clocks agree
    argv = afar.argv(0, "postgres", remote="/tmp/.s.PGSQL.20001", local="/run/.s.PGSQL.5432")

``ssh`` is the user's own, with its configuration, keys and agent; it asks for nothing.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

from harness.errors import UsageError
from harness.native_programs import LOADGEN_INTERFACE

#: Where the playbooks put the harness (role harness); another place by this variable.
_PYTHON = "/opt/tierbench/current/venv/bin/python"
_PYTHON_VARIABLE = "HARNESS_CLIENT_PYTHON"
#: Further arguments of ssh, such as ``-F FILE``: separated by spaces.
_SSH_VARIABLE = "HARNESS_SSH_OPTIONS"
_OPTIONS = (
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ExitOnForwardFailure=yes",
    "-o",
    "ServerAliveInterval=15",
)
#: How far clocks may be apart: windows are told to begin at one time (see loadgen._APART_NS).
_APART_NS = 50_000_000
_CLOCK_ASKED = 7
_ADDRESS_S = 60


@dataclass(frozen=True)
class Clock:
    """How far a host's clock is ahead of ours, and by how much that may be wrong."""

    ahead_ns: int
    error_ns: int

    @property
    def worst_ns(self) -> int:
        """How far they may be apart."""
        return abs(self.ahead_ns) + self.error_ns


@dataclass(frozen=True)
class ClientHosts:
    """``names``: as ssh takes them. Process i goes to the i-th, and round again."""

    names: tuple[str, ...]

    def check(self, backend: str) -> dict[str, Clock]:
        """Each host's clock; UsageError where one cannot be reached, or lacks what it needs."""
        return {name: _hello(name, backend) for name in dict.fromkeys(self.names)}

    def addresses(self, towards: str) -> tuple[str, ...]:
        """Those by which they reach the address ``towards`` of this host, each once.

        UsageError where a host cannot be reached, or does not reach that address.
        """
        return tuple(dict.fromkeys(_address(name, towards) for name in self.names))

    def argv(self, index: int, backend: str, remote: str = "", local: str = "") -> list[str]:
        """The command that is process ``index``. ``remote``, ``local``: sockets of its tunnel."""
        host = self.names[index % len(self.names)]
        command = f"exec {_python()} -m harness.remote_agent run {backend}"
        if not remote:
            return [*_ssh(), host, command]
        return [*_ssh(), "-R", f"{remote}:{local}", host, f"{command} {remote}"]

    @staticmethod
    def environment() -> dict[str, str]:
        """What ssh needs of the user's: the agent, and the home with its configuration."""
        names = ("HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME")
        return {name: os.environ[name] for name in names if name in os.environ}


def _python() -> str:
    return os.environ.get(_PYTHON_VARIABLE, _PYTHON)


def _ssh() -> list[str]:
    return ["ssh", *_OPTIONS, *os.environ.get(_SSH_VARIABLE, "").split()]


@lru_cache
def _address(host: str, towards: str) -> str:
    asked = f"let {host} connect to {towards}"
    command = f"exec {_python()} -m harness.remote_agent address {towards}"
    try:
        done = subprocess.run(
            [*_ssh(), host, command],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ADDRESS_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            asked, str(error), "install openssh-client, and see that it answers"
        ) from error
    try:
        return str(ipaddress.ip_address(done.stdout.strip()))
    except ValueError:
        found = (done.stderr.strip().splitlines() or ["it prints no address"])[-1]
        raise UsageError(
            asked,
            found,
            f"see that `ssh -o BatchMode=yes {host} {_python()} -m harness.remote_agent "
            f"address {towards}` prints its address (run-experiment.yml installs it)",
        ) from None


@lru_cache
def _hello(host: str, backend: str) -> Clock:
    asked = f"drive the load from {host}"
    if shutil.which("ssh") is None:
        raise UsageError(asked, "there is no ssh on this host", "install openssh-client")
    process = subprocess.Popen(
        [*_ssh(), host, f"exec {_python()} -m harness.remote_agent hello {backend}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        first = process.stdout.readline()
        if not first:
            _, said = process.communicate()
            raise UsageError(
                asked,
                (said.strip().splitlines() or ["ssh ended without a word"])[-1],
                f"see that `ssh -o BatchMode=yes {host} {_python()} -m harness.remote_agent hello "
                f"{backend}` answers (run-experiment.yml installs it; ${_PYTHON_VARIABLE}, "
                f"${_SSH_VARIABLE})",
            )
        _judge(asked, json.loads(first))
        clock = _clock(process.stdin, process.stdout)
    finally:
        process.kill()
        process.communicate()
    if clock.worst_ns > _APART_NS:
        raise UsageError(
            asked,
            f"its clock is {clock.ahead_ns / 1e6:+.1f} ms from this host's "
            f"(give or take {clock.error_ns / 1e6:.1f} ms)",
            "synchronise both (chrony, ptp4l): windows begin together by the clock",
        )
    return clock


def _judge(asked: str, told: dict[str, object]) -> None:
    if told["interface"] != LOADGEN_INTERFACE:
        raise UsageError(
            asked,
            f"its harness is another (interface {told['interface']}, here {LOADGEN_INTERFACE})",
            "install the same on both (run-experiment.yml does)",
        )
    error = told["error"]
    if isinstance(error, dict):
        raise UsageError(asked, f"{error['problem']}: {error['context']}", str(error["hint"]))


def _clock(questions: IO[str], answers: IO[str]) -> Clock:
    """The answer that came fastest says most: its clock was read within that time."""
    found = []
    for _ in range(_CLOCK_ASKED):
        before = time.time_ns()
        questions.write("\n")
        questions.flush()
        there = int(answers.readline())
        after = time.time_ns()
        found.append(Clock(there - (before + after) // 2, (after - before) // 2))
    return min(found, key=lambda clock: clock.error_ns)
