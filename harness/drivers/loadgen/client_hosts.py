"""Hosts that drive the load of a server on this host, by ssh (harness.remote_hosts).

The server listens on its private socket: each client process reaches it through a tunnel of its
own ssh connection, from a socket on its host that only its user can open. Where the run has the
server listen on an address, clients reach it there, by TLS and without a tunnel. A process's
spec (with the password) and its result go through ssh.

::

    hosts = ClientHosts(("bench@client1", "client2"))
    hosts.check("postgres")                   # loadgen is there, the clocks agree
    argv = hosts.argv(0, "postgres", remote="/tmp/.s.PGSQL.20001", local="/run/.s.PGSQL.5432")
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Timer
from typing import IO, Any, Self

from harness import jsonfile
from harness.engine import Engine, Tunnel
from harness.errors import UsageError
from harness.native_programs import LOADGEN_INTERFACE
from harness.remote_hosts import agent_argv, environment, remedy
from harness.supervise import programs
from harness.supervise.silence import limit_s

#: How far clocks may be apart: windows begin at one time by them (several._APART_NS).
_APART_NS = 50_000_000
_CLOCK_READINGS = 7


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

    def argv(self, index: int, backend: str, remote: str = "", local: str = "") -> list[str]:
        """The command that is process ``index``. ``remote``, ``local``: sockets of its tunnel."""
        host = self.names[index % len(self.names)]
        if not remote:
            return agent_argv(host, "run", backend)
        return agent_argv(host, "run", backend, remote, options=("-R", f"{remote}:{local}"))


@dataclass(frozen=True)
class Afar:
    """Processes on other hosts, which reach the engine's server through tunnels.

    Or directly, by TLS, where it listens for them.
    """

    hosts: ClientHosts
    engine: Engine

    @classmethod
    def of(cls, hosts: Sequence[str], engine: Engine) -> Self:
        """UsageError where the hosts have no way to the engine's server."""
        if not engine.takes_remote_clients:
            raise UsageError(
                f"client_hosts {','.join(hosts)} on {engine.name}",
                "it has no server of ours with a socket to tunnel to",
                "choose a managed engine (`harness engines list`)",
            )
        return cls(ClientHosts(tuple(hosts)), engine)

    def way(self) -> tuple[Tunnel | None, dict[str, Any]]:
        """A tunnel of its own for one process, where it needs one, and its ``connection``."""
        if there := self.engine.from_elsewhere():
            return None, dict(there)
        tunnel = self.engine.tunnel(str(20_000 + secrets.randbelow(40_000)))
        return tunnel, dict(tunnel.connection)


@lru_cache
def _hello(host: str, backend: str) -> Clock:
    problem = f"drive the load from {host}"
    if shutil.which("ssh") is None:
        raise UsageError(problem, "there is no ssh on this host", "install openssh-client")
    pipe = subprocess.PIPE
    argv = agent_argv(host, "hello", backend)
    process = programs.start(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment())
    assert process.stdin is not None and process.stdout is not None
    limit = Timer(limit_s("hello"), process.kill)
    limit.start()
    try:
        first = process.stdout.readline()
        if not first:
            _, said = process.communicate()
            lines = said.decode(errors="replace").strip().splitlines()
            words = (lines or ["ssh ended without a word"])[-1]
            if limit.finished.is_set():
                words = f"no answer within {limit.interval:g} s"
            raise UsageError(problem, words, remedy(host, "hello", backend))
        _check_answer(problem, jsonfile.parse(first))
        clock = _clock(process.stdin, process.stdout)
    except (BrokenPipeError, ValueError) as error:  # it ended in the middle of an answer
        raise UsageError(
            problem, f"its answer breaks off: {error}", remedy(host, "hello", backend)
        ) from error
    finally:
        limit.cancel()
        process.kill()
        process.communicate()
    if clock.worst_ns > _APART_NS:
        raise UsageError(
            problem,
            f"its clock is {clock.ahead_ns / 1e6:+.1f} ms from this host's "
            f"(give or take {clock.error_ns / 1e6:.1f} ms)",
            "synchronise both (chrony, ptp4l): windows begin together by the clock",
        )
    return clock


def _check_answer(problem: str, answer: dict[str, object]) -> None:
    if answer["interface"] != LOADGEN_INTERFACE:
        raise UsageError(
            problem,
            f"its harness is another (interface {answer['interface']}, here {LOADGEN_INTERFACE})",
            "install the same on both (run-experiment.yml does)",
        )
    error = answer["error"]
    if isinstance(error, dict):
        raise UsageError(problem, f"{error['problem']}: {error['context']}", str(error["hint"]))


def _clock(questions: IO[bytes], answers: IO[bytes]) -> Clock:
    """The answer that came fastest says most: its clock was read within that time."""
    found = []
    for _ in range(_CLOCK_READINGS):
        before = time.time_ns()
        questions.write(b"\n")
        questions.flush()
        there = int(answers.readline())
        after = time.time_ns()
        found.append(Clock(there - (before + after) // 2, (after - before) // 2))
    return min(found, key=lambda clock: clock.error_ns)
