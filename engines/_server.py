"""Timeouts of servers, and programs that run once."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine import EngineContext, Process
from harness.errors import RunFailed, UsageError
from harness.supervise.failures import log_tail
from harness.supervise.silence import LIMITS, limit_s

#: The engine options for timeouts, with their help.
TIMEOUTS: Mapping[str, str] = {
    "start_timeout_s": f"seconds to wait for the server to start [{LIMITS['start'].seconds:g}]",
    "stop_timeout_s": f"seconds to wait for the server to stop [{LIMITS['stop'].seconds:g}]",
}


@dataclass(frozen=True)
class Timeouts:
    """How long a server may take to start and to stop."""

    start_s: float
    stop_s: float

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Timeouts:
        """From the engine options; UsageError unless they are positive numbers."""
        return cls(
            _seconds(options, "start_timeout_s", limit_s("start")),
            _seconds(options, "stop_timeout_s", limit_s("stop")),
        )


def run_once(
    context: EngineContext, problem: str, argv: Sequence[str], log: Path, stdin: str = ""
) -> None:
    """Run a program as the server's user until it exits; RunFailed with its last lines.

    It is killed when it takes longer than a start of the server may take.
    """
    process = context.processes.spawn(
        argv,
        cwd=context.scratch,
        log=log,
        credentials=context.credentials,
        pipes=bool(stdin),
    )
    writer = threading.Thread(target=_write_stdin, args=(process, stdin), daemon=True)
    if stdin:
        writer.start()
    limit_s = Timeouts.of(context.options).start_s
    try:
        status = process.wait(limit_s)
    except TimeoutError:
        process.kill()
        raise RunFailed(
            problem,
            f"killed: still running after {limit_s:g} s",
            "if it needs more time, raise the engine option start_timeout_s",
        ) from None
    finally:
        if stdin:
            writer.join()
    if status != 0:
        last = log_tail(log, context.credentials)
        raise RunFailed(problem, f"exit status {status}; its last lines:\n{last}")


def _write_stdin(process: Process, stdin: str) -> None:
    """Runs in a thread, so that a program that reads nothing does not block the caller."""
    with suppress(BrokenPipeError):  # it exited early: its exit status and log say why
        process.stdin.write(stdin.encode())
        process.stdin.close()
    process.stdout.read()


def _seconds(options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name, default)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:  # false for nan
        raise UsageError(
            f"engine option {name}={value}", "must be a number of seconds > 0", f"write {name}=60"
        )
    return seconds
