"""Hosts that drive the load of a server on this host, by ssh (harness.remote_hosts).

The server listens on its private socket: each client process reaches it through a tunnel of its
own ssh connection, from a socket on its host that only its user can open. Where the run has the
server listen on an address, clients reach it there, by TLS and without a tunnel. A process's
spec (with the password) and its result go through ssh.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Timer
from typing import IO, Any

from harness import jsonfile
from harness.engine import Engine
from harness.errors import UsageError
from harness.native_programs import LOADGEN_INTERFACE
from harness.remote_hosts import agent_argv, environment, remedy
from harness.supervise import programs
from harness.supervise.silence import limit_s

#: How far clocks may be apart: windows begin at one time by them (result._APART_NS).
_APART_NS = 50_000_000
_CLOCK_READINGS = 7


@dataclass(frozen=True)
class ClockOffset:
    """A host's clock: how far it is ahead of ours, and the error of that difference."""

    ahead_ns: int
    error_ns: int

    @property
    def worst_ns(self) -> int:
        """The largest possible difference of the two clocks."""
        return abs(self.ahead_ns) + self.error_ns


@dataclass(frozen=True)
class RemoteClients:
    """Client processes on other hosts; ``hosts``: their names, as ssh takes them.

    UsageError where clients on other hosts cannot reach the engine's server.
    """

    hosts: tuple[str, ...]
    engine: Engine

    def __post_init__(self) -> None:
        if not self.engine.takes_remote_clients:
            raise UsageError(
                f"client_hosts {','.join(self.hosts)} on {self.engine.name}",
                "it has no server of ours with a socket to tunnel to",
                "choose a managed engine (`harness engines list`)",
            )

    def check(self) -> dict[str, ClockOffset]:
        """Return each host's clock; UsageError for a host that lacks loadgen or an answer."""
        backend = self.engine.native_backend
        return {host: _hello(host, backend) for host in dict.fromkeys(self.hosts)}

    def route(self, index: int, hold: Callable[[Path], str]) -> tuple[list[str], dict[str, Any]]:
        """Return the command that is process ``index``, and its ``connection`` to the server.

        ``hold``: returns a path of the server's socket that ssh can use with our rights.
        """
        host, backend = self.hosts[index % len(self.hosts)], self.engine.native_backend
        if there := self.engine.from_elsewhere():
            return agent_argv(host, "run", backend), dict(there)
        tunnel = self.engine.tunnel(str(20_000 + secrets.randbelow(40_000)))
        forward = ("-R", f"{tunnel.remote}:{hold(tunnel.local)}")
        argv = agent_argv(host, "run", backend, tunnel.remote, options=forward)
        return argv, dict(tunnel.connection)


@lru_cache
def _hello(host: str, backend: str) -> ClockOffset:
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
        programs.end(process)
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


def _clock(questions: IO[bytes], answers: IO[bytes]) -> ClockOffset:
    """Return the clock by the fastest answer: the host read its clock within that time."""
    clocks = []
    for _ in range(_CLOCK_READINGS):
        before = time.time_ns()
        questions.write(b"\n")
        questions.flush()
        there = int(answers.readline())
        after = time.time_ns()
        clocks.append(ClockOffset(there - (before + after) // 2, (after - before) // 2))
    return min(clocks, key=lambda clock: clock.error_ns)
