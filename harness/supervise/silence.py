"""Limits on silence: how long what a run waits for may give no sign of life.

``LIMITS`` is the one table of them; ``$HARNESS_SILENCE`` changes them::

    HARNESS_SILENCE=statement=7200,stopped=600 harness run …

A long query or load is not silence: a server that works sends nothing for hours. So processes of a
run are watched for states in which they cannot work (harness.supervise.watch). What is not a
process of the run (a user's server, another host) has limits on its answers.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError, nearest

VARIABLE = "HARNESS_SILENCE"

Limited = Literal[
    "stopped",
    "blocked",
    "supervisor",
    "exec",
    "connect",
    "hello",
    "start",
    "stop",
    "statement",
    "load",
    "warm-up",
    "measure",
    "left",
    "lock",
    "download",
]


@dataclass(frozen=True)
class SilenceLimit:
    """``silent``: what is silent. ``option``: what else changes the limit, for a single run."""

    seconds: float
    silent: str
    option: str = ""


#: docs/silence.md has the same table.
LIMITS: Mapping[Limited, SilenceLimit] = {
    "stopped": SilenceLimit(
        30, "a process of the run is stopped (SIGSTOP, a debugger), in any phase"
    ),
    "blocked": SilenceLimit(
        900, "a thread of it, or of the harness, waits for a device without a wake-up, in any phase"
    ),
    "supervisor": SilenceLimit(10, "the supervisor process is stopped"),
    "exec": SilenceLimit(
        60, "a new process does not become its program: user, directory or program hang"
    ),
    "connect": SilenceLimit(60, "a server does not accept a connection and log in"),
    "hello": SilenceLimit(60, "a client host does not answer through ssh"),
    "start": SilenceLimit(300, "a server is not ready", "engine option start_timeout_s"),
    "stop": SilenceLimit(
        900, "a server does not end after the request", "engine option stop_timeout_s"
    ),
    "statement": SilenceLimit(86_400, "a statement has no answer", "--query-timeout (tpch, sql …)"),
    "load": SilenceLimit(14_400, "a client that loads or verifies reports nothing"),
    "warm-up": SilenceLimit(1_800, "a client that opens the engine prints nothing"),
    "measure": SilenceLimit(300, "a client that offers the load reports nothing"),
    "left": SilenceLimit(60, "the supervisor of a dead harness does not finish its clean-up"),
    "lock": SilenceLimit(3_600, "another process has a lock; for all waits of a command together"),
    "download": SilenceLimit(7_200, "a registry's client (apt, pip, Maven) does not end"),
}


def limit_s(name: Limited) -> float:
    """The limit in seconds; UsageError where ``$HARNESS_SILENCE`` is not valid."""
    return changed_limits().get(name, LIMITS[name].seconds)


def changed_limits() -> dict[str, float]:
    """The limits that ``$HARNESS_SILENCE`` sets; UsageError where it is not valid."""
    text = os.environ.get(VARIABLE, "")
    return dict(_setting(word) for word in text.split(",") if word)


def _setting(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    problem = f"${VARIABLE}: {word}"
    if name not in LIMITS:
        raise UsageError(
            problem,
            f"unknown limit {name!r}{nearest(name, list(LIMITS))}",
            f"name one of {', '.join(LIMITS)}",
        )
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:  # false for nan
        raise UsageError(problem, "must be a number of seconds > 0", f"write {name}=60")
    return name, seconds


# Phases ------------------------------------------------------------------------

_phases: list[list[str]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """The run is in this phase, which messages name; phases nest."""
    entry = [name]
    with _lock:
        _phases.append(entry)
    try:
        yield
    finally:
        with _lock:
            _phases[:] = [phase for phase in _phases if phase is not entry]


def enter(name: str) -> None:
    """The innermost phase is over; this one follows."""
    with _lock:
        if _phases:
            _phases[-1][0] = name


def current_phase() -> str:
    """The innermost phase; "prepare" outside all."""
    with _lock:
        return _phases[-1][0] if _phases else "prepare"
