"""pgbench as driver: its own scripts or the user's, in its own language, on PostgreSQL.

    pgbench --client 8 --time 360 --file 0.sql@10 --file 1.sql@1 --protocol prepared --log …

Its log has the time of each transaction. The window is those that ended between two moments of
the monotonic clock, at which the caller's counters are read: pgbench stamps them with that clock,
plus what the wall clock was ahead of it when pgbench started. After the window SIGALRM ends it,
the signal by which it ends itself after ``--time``.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness.drivers.client_program import (
    ClientJob,
    OfferedLoad,
    Script,
    Window,
    histogram,
    measured,
    offered,
    run,
    unreadable,
    working,
)
from harness.drivers.result import (
    SERIES_NS,
    DriverResult,
    Operation,
    WindowCallbacks,
    intervals_per_histogram,
    latency_percentiles,
)
from harness.errors import RunFailed
from harness.later import np
from harness.progress import Progress
from harness.store.artifacts import LatencyPoint, SeriesPoint
from harness.store.spec import JsonObject
from harness.supervise.silence import limit_s
from harness.supervise.user_files import Credentials, acting_as, open_regular
from harness.units import NS_PER_US, format_ns
from harness.workload import Clients

_PASSWORDS, _LOG = "pgpass", "log"
_BLOCK = 1 << 24
#: Words in place of a duration, by the column's value here.
_WORDS = {b"serialization": b"-1", b"deadlock": b"-2"}
_FAILED = {-1: "40001", -2: "40P01"}
#: Printed every second, the first one once all users are connected.
_PROGRESS = re.compile("progress: ")
#: Printed while rows are made.
_TUPLES = re.compile(r"\d+ of \d+ tuples")
_ERROR = re.compile("pgbench: error: ")
#: A correction of the wall clock between two readings that is no step: it may be slewed.
_SLEWED_NS, _SLEWED_SHARE = 10_000_000, 0.001
_RATE = re.compile(r"tps = ([\d.]+) \((?:without initial connection time|excluding)")
_DONE = re.compile(r"number of transactions actually processed: (\d+)")
_LATENCY = re.compile(r"latency average = ([\d.]+) ms")


@dataclass(frozen=True)
class PgbenchSummary:
    """Summary that pgbench prints of all its transactions, those of the ramp-up among them."""

    done: int
    per_second: float
    latency_ms: float


@dataclass
class Times:
    """Transactions of a log, column by column. ``script``: its number.

    ``duration_ns``: below zero of one that failed (:data:`_FAILED`); ``ended_ns``: by the
    monotonic clock; ``lag_ns``: from the intended start to the real one, where a rate is set;
    ``retries``: attempts that were undone.
    """

    script: Any
    duration_ns: Any
    ended_ns: Any
    lag_ns: Any
    retries: Any

    def between(self, begin_ns: int, end_ns: int) -> Times:
        """Transactions that ended after the one moment and no later than the other."""
        inside = (self.ended_ns > begin_ns) & (self.ended_ns <= end_ns)
        return Times(*(getattr(self, column.name)[inside] for column in fields(self)))


def prepare(
    program: Path,
    version: str,
    connection: JsonObject,
    scale: int,
    clients: Clients,
    progress: Progress,
) -> None:
    """Make pgbench's own tables, 100,000 accounts for each of ``scale``; RunFailed."""
    job = _job(f"{version}: make tables of scale {scale}", connection, {}, _TUPLES)
    # Without `v`: all tables are vacuumed and analysed when they are complete.
    argv = [str(program), "--initialize", "--init-steps=dtgp", f"--scale={scale}"]
    with working(clients, job) as folder:
        run(clients, job, folder, [*argv, *_server(connection)], "pgbench --initialize", progress)


def drive(
    program: Path,
    version: str,
    connection: JsonObject,
    scripts: Sequence[Script],
    load: OfferedLoad,
    scale: int | None,
    clients: Clients,
    progress: Progress,
    drives: WindowCallbacks,
) -> DriverResult:
    """Run the scripts; RunFailed with pgbench's last lines.

    ``scale``: the value of ``:scale``; None for pgbench's default, which is 1.
    """
    what = f"{version}: {load.users} users, {', '.join(script.name for script in scripts)}"
    texts = {f"{number}.sql": script.text for number, script in enumerate(scripts) if script.text}
    job = _job(what, connection, texts, _PROGRESS)
    argv = [*_argv(program, scripts, load, scale), *_server(connection)]
    ahead_ns, ahead_at_ns = wall_clock_ahead_ns(), time.monotonic_ns()

    def begins(line: str) -> int | None:
        if not _PROGRESS.match(line):
            return None
        check_not_stepped(what, wall_clock_ahead_ns() - ahead_ns, time.monotonic_ns() - ahead_at_ns)
        return load.ramp_up_ns

    with working(clients, job) as folder:
        window = measured(
            clients, job, folder, argv, load, begins, drives, progress, signal.SIGALRM
        )
        summary = read_summary(what, window.lines)
        times = _read_window(what, folder, clients.credentials, load, ahead_ns, window, summary)
    return _result(version, scripts, load, scale, window, summary, times)


def wall_clock_ahead_ns() -> int:
    """Return by how much the wall clock is ahead of the monotonic one.

    The greatest of several differences: a thread may lose its processor between two readings.
    """
    return max(time.time_ns() - time.monotonic_ns() for _ in range(10))


def check_not_stepped(what: str, moved_ns: int, elapsed_ns: int) -> None:
    """RunFailed where the wall clock was set while pgbench started: its stamps are shifted.

    A later step does not matter: pgbench reads the wall clock once.
    """
    if abs(moved_ns) > _SLEWED_NS + _SLEWED_SHARE * elapsed_ns:
        raise RunFailed(
            what,
            f"the wall clock was set by {format_ns(abs(moved_ns))} while pgbench started: its "
            "transactions cannot be assigned to the window",
            "run again when the clock is synchronised (chronyc waitsync)",
        )


def _job(
    what: str, connection: JsonObject, texts: Mapping[str, str], reports: re.Pattern[str]
) -> ClientJob:
    return ClientJob(
        what,
        {_PASSWORDS: _password_line(connection), **texts},
        {
            "PGPASSFILE": f"FOLDER/{_PASSWORDS}",
            "PGOPTIONS": str(connection.get("options") or ""),
            "PGAPPNAME": str(connection.get("application_name") or "pgbench"),
            "PGSSLMODE": str(connection.get("sslmode") or "prefer"),
        },
        str(connection["password"]),
        reports,
        _ERROR,
    )


def _argv(
    program: Path, scripts: Sequence[Script], load: OfferedLoad, scale: int | None
) -> list[str]:
    argv = [str(program), "--no-vacuum", "--log", f"--log-prefix={_LOG}"]
    # With progress, its mean latency is that of the transactions, not users by rate.
    argv += ["--progress=1", f"--client={load.users}", f"--jobs={load.threads}"]
    # Its time includes connecting; it is ended after the window.
    seconds = math.ceil((load.ramp_up_ns + load.duration_ns) / 1e9 + 1 + limit_s("measure"))
    argv += [f"--time={seconds}", f"--protocol={load.protocol}"]
    argv += [f"--random-seed={load.seed}", f"--max-tries={load.max_tries}", "--failures-detailed"]
    if load.rate_per_s is not None:
        argv.append(f"--rate={load.rate_per_s:g}")
    if scale is not None:
        argv.append(f"--scale={scale}")
    for number, script in enumerate(scripts):
        if script.text:
            argv += ["--file", f"{number}.sql@{script.weight}"]
        else:
            argv += ["--builtin", f"{script.name}@{script.weight}"]
    for name, value in load.variables.items():
        argv += ["--define", f"{name}={value}"]
    return argv


def _server(connection: JsonObject) -> list[str]:
    argv = ["--host", str(connection["host"]), "--port", str(connection["port"])]
    return [*argv, "--username", str(connection["user"]), str(connection["database"])]


def _password_line(connection: JsonObject) -> str:
    """A line of libpq's password file, for any server: it is read by this client alone."""
    password = re.sub(r"([\\:])", r"\\\1", str(connection["password"]))
    return f"*:*:*:*:{password}\n"


def read_summary(what: str, lines: Sequence[str]) -> PgbenchSummary:
    """Read the summary; RunFailed for one without its figures."""
    text = "\n".join(lines)
    done, rate, latency = _DONE.search(text), _RATE.search(text), _LATENCY.search(text)
    if done is None or rate is None or latency is None:
        raise unreadable(what, "pgbench", lines)
    return PgbenchSummary(int(done[1]), float(rate[1]), float(latency[1]))


def _read_window(
    what: str,
    folder: Path,
    user: Credentials | None,
    load: OfferedLoad,
    ahead_ns: int,
    window: Window,
    summary: PgbenchSummary,
) -> Times:
    """Read the window's transactions, and those of the second before it.

    RunFailed where the log has other transactions than the summary, or the window has none.
    """
    done, parts = 0, []
    for times in read_log(folder, user, load, ahead_ns):
        done += int((times.duration_ns >= 0).sum())
        parts.append(times.between(window.begin_ns - SERIES_NS, window.end_ns))
    if abs(done - summary.done) > max(1, summary.done // 1000):
        raise RunFailed(
            what,
            f"its log has {done} transactions, its summary {summary.done}",
            "run again; a full disk cuts the log off",
        )
    columns = ([getattr(part, column.name) for part in parts] for column in fields(Times))
    times = Times(*map(np.concatenate, columns))
    if not (times.between(window.begin_ns, window.end_ns).duration_ns >= 0).any():
        raise RunFailed(
            what, "not one transaction was done in the measured window", "raise --duration"
        )
    return times


def read_log(
    folder: Path, user: Credentials | None, load: OfferedLoad, ahead_ns: int
) -> Iterator[Times]:
    """Yield all transactions of the log, some thousands at a time.

    ``ahead_ns``: the wall clock's lead when pgbench started. RunFailed for a file that is cut off.
    """
    columns = 6 + (load.rate_per_s is not None) + (load.max_tries != 1)
    try:
        with acting_as(user):  # a thread's file is log.PID or log.PID.NUMBER
            files = [path for path in folder.iterdir() if path.name.startswith(f"{_LOG}.")]
        for path in files:
            with acting_as(user):
                descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                for block in _blocks(stream):
                    yield _times(_numbers(block, columns), load, ahead_ns)
    except (OSError, ValueError) as error:
        raise RunFailed(
            "read pgbench's log", f"{folder}: {error}", "run again; a full disk cuts it off"
        ) from error


def _times(table: Any, load: OfferedLoad, ahead_ns: int) -> Times:
    none = np.zeros(len(table), dtype=np.int64)
    return Times(
        script=table[:, 3],
        duration_ns=np.where(table[:, 2] >= 0, table[:, 2] * NS_PER_US, table[:, 2]),
        ended_ns=table[:, 4] * 10**9 + table[:, 5] * NS_PER_US - ahead_ns,
        lag_ns=table[:, 6] * NS_PER_US if load.rate_per_s is not None else none,
        retries=table[:, -1] if load.max_tries != 1 else none,
    )


def _blocks(stream: Any) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time."""
    rest = b""
    while block := stream.read(_BLOCK):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield whole
    if rest:
        raise ValueError("its last line is cut off")


def _numbers(block: bytes, columns: int) -> Any:
    for word, number in _WORDS.items():
        block = block.replace(word, number)
    return np.array(block.split(), dtype=np.int64).reshape(-1, columns)


def _result(
    version: str,
    scripts: Sequence[Script],
    load: OfferedLoad,
    scale: int | None,
    window: Window,
    summary: PgbenchSummary,
    logged: Times,
) -> DriverResult:
    """``logged``: the window's transactions, and those of the second before it."""
    window_ns = window.end_ns - window.begin_ns
    before = logged.between(window.begin_ns - SERIES_NS, window.begin_ns)
    times = logged.between(window.begin_ns, window.end_ns)
    done = times.duration_ns >= 0
    operations = {}
    for number, script in enumerate(scripts):
        selected = times.script == number
        operations[script.name] = Operation(
            count=int((selected & done).sum()),
            failed_count=int((selected & ~done).sum()),
            retried_count=int(times.retries[selected].sum()),
            latency_hdr=histogram(times.duration_ns[selected & done]).encode(),
        )
    codes = {code: int((times.duration_ns == word).sum()) for word, code in _FAILED.items()}
    series, latencies = over_time([script.name for script in scripts], times, window)
    return DriverResult(
        driver="pgbench",
        version=version,
        window_ns=window_ns,
        operations=operations,
        client_cpu_ns=window.cpu_ns,
        client_threads=load.threads,
        **offered(load, window_ns, (_waiting(before, load), _waiting(times, load))),
        series=series,
        latencies=latencies,
        notes={
            "whole_run_transactions_per_second": summary.per_second,
            "whole_run_latency_average_ms": summary.latency_ms,
            "failed_by_code": codes,
            **({} if scale is None else {"scale": scale}),
            "scripts": [{"name": script.name, "weight": script.weight} for script in scripts],
        },
    )


def _waiting(times: Times, load: OfferedLoad) -> int:
    """Transactions that were due and had not begun, by how late the last ones began."""
    if not len(times.ended_ns):
        return 0
    late = times.lag_ns[times.ended_ns > times.ended_ns.max() - SERIES_NS]
    return round(float(np.median(late)) / 1e9 * (load.rate_per_s or 0))


def over_time(
    names: Sequence[str], times: Times, window: Window
) -> tuple[list[SeriesPoint], list[LatencyPoint]]:
    """Return the series of counts, and of latencies; see :class:`DriverResult`."""
    done = times.duration_ns >= 0
    place = (times.ended_ns - window.begin_ns - 1) // SERIES_NS
    intervals = -(-(window.end_ns - window.begin_ns) // SERIES_NS)
    counts = [
        np.bincount(place[done & (times.script == number)], minlength=intervals)
        for number in range(len(names))
    ]
    series = [
        SeriesPoint(
            window.begin_ns + index * SERIES_NS,
            {name: int(of[index]) for name, of in zip(names, counts, strict=True)},
        )
        for index in range(intervals)
    ]
    each = intervals_per_histogram(intervals)
    latencies = []
    for begin in range(0, intervals, each):
        inside = done & (place >= begin) & (place < begin + each)
        latencies.append(
            latency_percentiles(
                window.begin_ns + begin * SERIES_NS,
                {
                    name: histogram(times.duration_ns[inside & (times.script == number)])
                    for number, name in enumerate(names)
                },
            )
        )
    return series, latencies
