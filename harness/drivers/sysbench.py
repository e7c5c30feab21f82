"""sysbench as driver: its bundled scripts, or the user's Lua, on PostgreSQL, MySQL and MariaDB.

    sysbench --config-file=config --threads=8 --time=60 --histogram oltp_read_write run

Its histogram has about forty intervals for each tenfold duration, so percentiles are within 2 %.
It does not report when a transaction ended, but the rate of each second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.drivers.client_program import (
    Ended,
    Job,
    Load,
    Script,
    histogram,
    measured,
    offered,
    run,
    unreadable,
    whole_seconds,
    working,
)
from harness.drivers.result import SERIES_NS, DriverResult, Operation, WindowCallbacks
from harness.errors import RunFailed
from harness.progress import Progress
from harness.store.result import SeriesPoint
from harness.store.spec import JsonObject
from harness.workload import Clients

CONFIG, LUA = "config", "script.lua"
#: Options that are parameters of the harness, or connect.
OWN_OPTIONS = re.compile(
    r"(mysql|pgsql|db)-.*|config-file|threads|num-threads|time|max-time|events|max-requests|rate"
    r"|tx-rate|report-.*|histogram|percentile|rand-seed|forced-shutdown|luajit-cmd|verbosity"
)
_BUCKET = re.compile(r"^\s*([\d.]+) \|\**\s+(\d+)$")
_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([\d.]+)")
_TRANSACTIONS = re.compile(r"^\s*transactions:\s+(\d+)\s", re.MULTILINE)
_EVENTS = re.compile(r"^\s*total number of events:\s+(\d+)", re.MULTILINE)
_TOTAL = re.compile(r"^\s*total time:\s+([\d.]+)s", re.MULTILINE)
_IGNORED = re.compile(r"^\s*ignored errors:\s+(\d+)\s", re.MULTILINE)
_QUEUED = re.compile(r"queue length: (\d+)")
_AVERAGE = re.compile(r"^\s*avg:\s+([\d.]+)", re.MULTILINE)
#: A prepare takes as long as it takes.
_PREPARE_NS = 24 * 3600 * 10**9


@dataclass(frozen=True)
class Summary:
    """What sysbench prints: ``events`` in ``seconds``, errors that it ignored, the mean latency.

    ``waiting``: due and not begun at the end, where a rate is set. ``buckets``: (milliseconds,
    count). ``rates``: (second, transactions per second).
    """

    events: int
    seconds: float
    ignored: int
    average_ms: float
    waiting: int
    buckets: Sequence[tuple[float, int]]
    rates: Sequence[tuple[int, float]]


def prepare(
    program: Path,
    version: str,
    dialect: str,
    connection: JsonObject,
    script: Script,
    variables: Mapping[str, str],
    threads: int,
    clients: Clients,
    progress: Progress,
) -> None:
    """Have the script make its tables; RunFailed with its last lines."""
    what = f"{version}: prepare {script.name}"
    job = _job(what, dialect, connection, script)
    with working(clients, job) as folder:
        argv = _argv(program, script, {**variables, "threads": str(threads)}, "prepare")
        run(clients, job, folder, argv, _PREPARE_NS, f"{script.name} prepare", progress)


def drive(
    program: Path,
    version: str,
    dialect: str,
    connection: JsonObject,
    script: Script,
    load: Load,
    clients: Clients,
    progress: Progress,
    drives: WindowCallbacks,
) -> DriverResult:
    """Run the script; RunFailed with sysbench's last lines."""
    what = f"{version}: {load.users} threads, {script.name}"
    job = _job(what, dialect, connection, script)

    def argv(duration_ns: int) -> list[str]:
        options = {
            **load.variables,
            "threads": str(load.users),
            "time": whole_seconds(duration_ns),
            "report-interval": "1",
            "rand-seed": str(load.seed),
            "db-ps-mode": "disable" if load.protocol == "simple" else "auto",
        }
        if load.rate_per_s is not None:
            options["rate"] = f"{load.rate_per_s:g}"
        return _argv(program, script, options, "run", "--histogram")

    with working(clients, job) as folder:
        ended = measured(clients, job, folder, argv, load, drives, progress)
    return _result(version, script, load, ended, read_summary(what, ended.lines))


def _job(what: str, dialect: str, connection: JsonObject, script: Script) -> Job:
    """The password is in a file: arguments can be read by every user."""
    names = {"host": "host", "port": "port", "socket": "socket", "user": "user"}
    names |= {"password": "password", "database": "db"}
    lines = [f"db-driver={dialect}"]
    for name, option in names.items():
        if connection.get(name) and not (dialect == "pgsql" and name == "socket"):
            lines.append(f"{dialect}-{option}={connection[name]}")
    files = {CONFIG: "\n".join([*lines, ""])}
    if script.text:
        files[LUA] = script.text
    return Job(
        what, files, {"PGOPTIONS": str(connection.get("options") or "")},
        str(connection["password"]),
    )  # fmt: skip


def _argv(
    program: Path, script: Script, options: Mapping[str, str], command: str, *flags: str
) -> list[str]:
    given = [f"--{name}={value}" for name, value in options.items()]
    file = f"./{LUA}" if script.text else script.name
    return [str(program), f"--config-file={CONFIG}", *given, *flags, file, command]


def read_summary(what: str, lines: Sequence[str]) -> Summary:
    """Read the reports; RunFailed for a run without its figures, or without a transaction."""
    text = "\n".join(lines)
    events, total, average = _EVENTS.search(text), _TOTAL.search(text), _AVERAGE.search(text)
    if events is None or total is None or average is None:
        raise unreadable(what, "sysbench", lines)
    ignored, transactions = _IGNORED.search(text), _TRANSACTIONS.search(text)
    if int(events[1]) == 0:
        raise RunFailed(
            what, "not one transaction was done in the measured window", "raise --duration"
        )
    return Summary(
        int((transactions if transactions and int(transactions[1]) else events)[1]),
        float(total[1]),
        int(ignored[1]) if ignored else 0,
        float(average[1]),
        int(queued[-1]) if (queued := _QUEUED.findall(text)) else 0,
        [(float(m[1]), int(m[2])) for line in lines if (m := _BUCKET.match(line))],
        [(int(m[1]), float(m[2])) for line in lines if (m := _SECOND.match(line))],
    )


def _result(
    version: str, script: Script, load: Load, ended: Ended, summary: Summary
) -> DriverResult:
    window_ns = round(summary.seconds * 1e9)
    values = [round(ms * 1e6) for ms, _ in summary.buckets]
    times = histogram(values, [count for _, count in summary.buckets])
    share, first_ns = ended.cpu_share, ended.ended_ns - window_ns
    return DriverResult(
        driver="sysbench",
        version=version,
        window_ns=window_ns,
        operations={
            script.name: Operation(
                count=summary.events,
                retried_count=summary.ignored,
                latency_hdr=times.encode() if summary.buckets else None,
            )
        },
        client_cpu_ns=None if share is None else round(share * window_ns),
        client_threads=load.users,
        **offered(load, window_ns, summary.waiting),
        series=[
            SeriesPoint(first_ns + (second - 1) * SERIES_NS, {script.name: round(rate)})
            for second, rate in summary.rates
        ],
        notes={
            "own_transactions_per_second": summary.events / summary.seconds,
            "own_latency_average_ms": summary.average_ms,
        },
    )
