"""pgbench as driver: the user's scripts, in its own language, on PostgreSQL.

    pgbench --client 8 --time 60 --file 0.sql@10 --file 1.sql@1 --protocol prepared --log …

Its summary has the counts, its log the time of each transaction. Its rate leaves out the time in
which it connects, and so does the window here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.drivers.client_program import (
    Ended,
    Job,
    Load,
    Script,
    histogram,
    measured,
    offered,
    unreadable,
    whole_seconds,
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
from harness.store.result import LatencyPoint, SeriesPoint
from harness.store.spec import JsonObject
from harness.supervise.user_files import Credentials, acting_as, open_regular
from harness.workload import Clients

_PASSWORDS, _LOG = "pgpass", "log"
_BLOCK = 1 << 24
_NS_PER_US = 1000
#: Words in place of a duration, by the column's value here.
_WORDS = {b"serialization": b"-1", b"deadlock": b"-2"}
_FAILED = {-1: "40001", -2: "40P01"}
_RATE = re.compile(r"tps = ([\d.]+) \((?:without initial connection time|excluding)")
_DONE = re.compile(r"number of transactions actually processed: (\d+)")
_LATENCY = re.compile(r"latency average = ([\d.]+) ms")


@dataclass(frozen=True)
class Summary:
    """What pgbench prints of all its transactions."""

    done: int
    per_second: float
    latency_ms: float


@dataclass
class Times:
    """The transactions of a log, column by column. ``script``: its number.

    ``duration_ns``: below zero of one that failed (:data:`_FAILED`); ``ended_ns``: by the
    wall clock; ``lag_ns``: from the intended start to the real one, where a rate is set;
    ``retries``: attempts that were undone.
    """

    script: Any
    duration_ns: Any
    ended_ns: Any
    lag_ns: Any
    retries: Any


def drive(
    program: Path,
    version: str,
    connection: JsonObject,
    scripts: Sequence[Script],
    load: Load,
    clients: Clients,
    progress: Progress,
    drives: WindowCallbacks,
) -> DriverResult:
    """Run the scripts; RunFailed with pgbench's last lines."""
    what = f"{version}: {load.users} users, {', '.join(one.name for one in scripts)}"
    job = Job(
        what,
        {_PASSWORDS: _password_line(connection)}
        | {f"{number}.sql": one.text for number, one in enumerate(scripts)},
        {
            "PGPASSFILE": f"FOLDER/{_PASSWORDS}",
            "PGOPTIONS": str(connection.get("options") or ""),
            "PGAPPNAME": str(connection.get("application_name") or "pgbench"),
            "PGSSLMODE": str(connection.get("sslmode") or "prefer"),
        },
        str(connection["password"]),
    )
    with working(clients, job) as folder:
        ended = measured(
            clients,
            job,
            folder,
            lambda duration_ns: _argv(program, connection, scripts, load, duration_ns),
            load,
            drives,
            progress,
        )
        summary = read_summary(what, ended.lines)
        times = read_log(folder, clients.credentials, load, _newest(folder, clients.credentials))
    return _result(version, scripts, load, ended, summary, times)


def _argv(
    program: Path,
    connection: JsonObject,
    scripts: Sequence[Script],
    load: Load,
    duration_ns: int,
) -> list[str]:
    argv = [str(program), "--no-vacuum", "--log", f"--log-prefix={_LOG}"]
    # With progress, its mean latency is that of the transactions, not users by rate.
    argv += ["--progress=3600", f"--client={load.users}", f"--jobs={load.threads}"]
    argv += [f"--time={whole_seconds(duration_ns)}", f"--protocol={load.protocol}"]
    argv += [f"--random-seed={load.seed}", f"--max-tries={load.max_tries}", "--failures-detailed"]
    if load.rate_per_s is not None:
        argv.append(f"--rate={load.rate_per_s:g}")
    for number, one in enumerate(scripts):
        argv += ["--file", f"{number}.sql@{one.weight}"]
    for name, value in load.variables.items():
        argv += ["--define", f"{name}={value}"]
    argv += ["--host", str(connection["host"]), "--port", str(connection["port"])]
    return [*argv, "--username", str(connection["user"]), str(connection["database"])]


def _password_line(connection: JsonObject) -> str:
    """A line of libpq's password file, for any server: it is read by this client alone."""
    password = re.sub(r"([\\:])", r"\\\1", str(connection["password"]))
    return f"*:*:*:*:{password}\n"


def read_summary(what: str, lines: Sequence[str]) -> Summary:
    """Read the summary; RunFailed for one without its figures."""
    text = "\n".join(lines)
    done, rate, latency = _DONE.search(text), _RATE.search(text), _LATENCY.search(text)
    if done is None or rate is None or latency is None:
        raise unreadable(what, "pgbench", lines)
    if int(done[1]) == 0:
        raise RunFailed(
            what, "not one transaction was done in the measured window", "raise --duration"
        )
    return Summary(int(done[1]), float(rate[1]), float(latency[1]))


def _newest(folder: Path, user: Credentials | None) -> list[Path]:
    """The log files of the last process: ``log.PID``, ``log.PID.1`` …"""
    with acting_as(user):
        files = [path for path in folder.iterdir() if path.name.startswith(f"{_LOG}.")]
        processes = {path.name.split(".")[1] for path in files}
        last = max(processes, key=lambda pid: (folder / f"{_LOG}.{pid}").lstat().st_mtime_ns)
    return [path for path in files if path.name.split(".")[1] == last]


def read_log(folder: Path, user: Credentials | None, load: Load, files: Sequence[Path]) -> Times:
    """Read all transactions of the log; RunFailed for a file that is cut off, or another's."""
    columns = 6 + (load.rate_per_s is not None) + (load.max_tries != 1)
    parts = []
    try:
        for path in files:
            with acting_as(user):
                descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                parts += [_numbers(block, columns) for block in _blocks(stream)]
    except (OSError, ValueError) as error:
        raise RunFailed(
            "read pgbench's log", f"{folder}: {error}", "run again; a full disk cuts it off"
        ) from error
    table = np.concatenate(parts) if parts else np.zeros((0, columns), dtype=np.int64)
    none = np.zeros(len(table), dtype=np.int64)
    return Times(
        script=table[:, 3],
        duration_ns=np.where(table[:, 2] >= 0, table[:, 2] * _NS_PER_US, table[:, 2]),
        ended_ns=table[:, 4] * 10**9 + table[:, 5] * _NS_PER_US,
        lag_ns=table[:, 6] * _NS_PER_US if load.rate_per_s is not None else none,
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
    load: Load,
    ended: Ended,
    summary: Summary,
    times: Times,
) -> DriverResult:
    """Put the summary's counts and the log's times together."""
    window_ns = round(summary.done / summary.per_second * 1e9)
    done = times.duration_ns >= 0
    if abs(int(done.sum()) - summary.done) > max(1, summary.done // 1000):
        raise RunFailed(
            f"{version}: count transactions",
            f"its log has {int(done.sum())}, its summary {summary.done}",
            "run again; a full disk cuts the log off",
        )
    operations = {}
    for number, one in enumerate(scripts):
        own = times.script == number
        operations[one.name] = Operation(
            count=int((own & done).sum()),
            failed_count=int((own & ~done).sum()),
            retried_count=int(times.retries[own].sum()),
            latency_hdr=histogram(times.duration_ns[own & done]).encode(),
        )
    codes = {code: int((times.duration_ns == word).sum()) for word, code in _FAILED.items()}
    series, latencies = over_time([one.name for one in scripts], times, ended.ended_ns, window_ns)
    share = ended.cpu_share
    return DriverResult(
        driver="pgbench",
        version=version,
        window_ns=window_ns,
        operations=operations,
        client_cpu_ns=None if share is None else round(share * window_ns),
        client_threads=load.threads,
        **offered(load, window_ns, _waiting(times, load)),
        series=series,
        latencies=latencies,
        notes={
            "own_transactions_per_second": summary.per_second,
            "own_latency_average_ms": summary.latency_ms,
            "failed_by_code": codes,
            "scripts": [{"name": one.name, "weight": one.weight} for one in scripts],
        },
    )


def _waiting(times: Times, load: Load) -> int:
    """Transactions that were due and had not begun, by how late the last ones began."""
    late = times.lag_ns[times.ended_ns > times.ended_ns.max() - SERIES_NS]
    return round(float(np.median(late)) / 1e9 * (load.rate_per_s or 0))


def over_time(
    names: Sequence[str], times: Times, ended_ns: int, window_ns: int
) -> tuple[list[SeriesPoint], list[LatencyPoint]]:
    """Return the series of counts, and of latencies; see :class:`DriverResult`.

    The log's clock is the wall clock: its last transaction ended as the client did.
    """
    done = times.duration_ns >= 0
    if not done.any():
        return [], []
    last = int(times.ended_ns.max())
    place = (times.ended_ns - (last - window_ns)).clip(0, window_ns - 1) // SERIES_NS
    intervals = -(-window_ns // SERIES_NS)
    first_ns = ended_ns - window_ns
    counts = [
        np.bincount(place[done & (times.script == number)], minlength=intervals)
        for number in range(len(names))
    ]
    series = [
        SeriesPoint(
            first_ns + index * SERIES_NS,
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
                first_ns + begin * SERIES_NS,
                {
                    name: histogram(times.duration_ns[inside & (times.script == number)])
                    for number, name in enumerate(names)
                },
            )
        )
    return series, latencies
