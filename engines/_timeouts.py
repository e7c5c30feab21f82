"""Timeouts of a server, as engine options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.engine import (
    EngineOptions,
)
from harness.errors import UsageError
from harness.supervise.silence import LIMITS, limit_s

#: The engine options for timeouts, with their help.
TIMEOUTS: Mapping[str, str] = {
    "start_timeout_s": f"seconds to wait for the server to start [{LIMITS['start'].seconds:g}]",
    "stop_timeout_s": f"seconds to wait for the server to stop [{LIMITS['stop'].seconds:g}]",
}


@dataclass(frozen=True)
class Timeouts:
    """Time that a server may take to start and to stop."""

    start_s: float
    stop_s: float

    @classmethod
    def of(cls, options: EngineOptions) -> Timeouts:
        """Read them from the engine options; UsageError unless they are positive numbers."""
        return cls(
            _seconds(options, "start_timeout_s", limit_s("start")),
            _seconds(options, "stop_timeout_s", limit_s("stop")),
        )


def _seconds(options: EngineOptions, name: str, default: float) -> float:
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
