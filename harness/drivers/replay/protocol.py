"""What the replay's two processes send to one another: a request, events, a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ReplayRequest(msgspec.Struct, frozen=True):
    """The first line of the client's stdin; the replay file follows.

    ``speed``: times the record's; None: as fast as possible. ``labels``: of the classes, the last
    has all further ones. ``duration_ns``: of the window; None: to the end of the record.
    ``silence_s``: longest time without an answer. ``user``: whom the client becomes, by user and
    group; None: it stays who it is.
    """

    connection: Mapping[str, Any]
    speed: float | None
    ramp_up_ns: int
    duration_ns: int | None
    labels: tuple[str, ...]
    silence_s: float
    user: tuple[int, int] | None


class ReplayReport(msgspec.Struct, frozen=True):
    """A line of the client's stdout. ``event``: connected, measuring, second, measured."""

    event: str
    done: int = 0
    lag_ns: int = 0


class ClassResult(msgspec.Struct, frozen=True):
    """Statements of a class that ended in the window.

    ``errors``: by the server's code. ``unexpected``: failed, and did not in the record.
    ``recovered``: the other way round. Histograms: HdrHistogram V2, base64, of those that did not
    fail.
    """

    count: int
    errors: Mapping[str, int]
    unexpected: int
    recovered: int
    recorded_us: int
    latency_hdr: str
    lag_hdr: str


class ReplayResult(msgspec.Struct, frozen=True):
    """The last line of the client's stdout.

    ``covered_us``: of the record, the time from the first statement to the last of the window.
    ``all_hdr``: latencies of all classes. ``last_lag_ns``: median of the last second's lags.
    ``unfinished``: statements without an answer at the end. ``lost``: connections.
    """

    window_ns: int
    covered_us: int
    classes: tuple[ClassResult, ...]
    all_hdr: str
    lag_hdr: str
    last_lag_ns: int
    late_share: float
    unfinished: int
    lost: int
    cpu_ns: int
    peak_bytes: int


class ReplayFailure(msgspec.Struct, frozen=True):
    """The last line of a client that failed."""

    error: str
