"""sysbench as driver: its bundled scripts, or the user's Lua, on PostgreSQL, MySQL and MariaDB.

    sysbench --config-file=config --threads=8 --time=240 --report-checkpoints=60 --histogram …

At the checkpoint, the end of the ramp-up, it sets all that it reports back to zero, so that its
summary is the window's. Its histogram has about forty intervals for each tenfold duration, so
percentiles are within 2 %. It does not report when a transaction ended, but each second's rate. A
script of the user's is run by a script of ours, without its report hooks: reports in another form
could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from harness.drivers.result import SERIES_NS, DriverResult, Operation, WindowCallbacks
from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.store.artifacts import SeriesPoint
from harness.store.spec import JsonObject
from harness.supervise.user_files import read_text
from harness.workload import Clients

CONFIG, MAIN = "config", "tierbench.lua"
#: Runs the user's script, whose reports would be in place of those that are read.
_MAIN = """dofile("{file}")
sysbench.hooks.report_intermediate = nil
sysbench.hooks.report_cumulative = nil
"""
#: A file that a script reads: the last text of the argument, after the folder of the script.
_READS = re.compile(
    r"""\b(?P<call>require|dofile|loadfile)\s*\(?\s*(?:[\w.]+\s*\.\.\s*)?(["'])(?P<name>[^"'\n]+)\2"""
)
#: Options that are parameters of the harness, or connect.
OWN_OPTIONS = re.compile(
    r"(mysql|pgsql|db)-(?!storage-engine|table-options|variant|schema).*|config-file|threads|num-threads|time|max-time|events|max-requests|rate"
    r"|tx-rate|report-.*|histogram|percentile|rand-seed|forced-shutdown|luajit-cmd|verbosity"
)
_BUCKET = re.compile(r"^\s*([\d.]+) \|\**\s+(\d+)$")
_REPORT = re.compile(r"\[ \d+s \] (thds|queue)")
_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([\d.]+)")
_TRANSACTIONS = re.compile(r"^\s*transactions:\s+(\d+)\s", re.MULTILINE)
_EVENTS = re.compile(r"^\s*total number of events:\s+(\d+)", re.MULTILINE)
_TOTAL = re.compile(r"^\s*total time:\s+([\d.]+)s", re.MULTILINE)
_IGNORED = re.compile(r"^\s*ignored errors:\s+(\d+)\s", re.MULTILINE)
_QUEUE = re.compile(r"^\[ (\d+)s \] queue length: (\d+)")
_AVERAGE = re.compile(r"^\s*avg:\s+([\d.]+)", re.MULTILINE)
_STARTED, _CHECKPOINT = "Threads started!", re.compile(r"\[ \d+s \] Checkpoint report:")


@dataclass(frozen=True)
class SysbenchSummary:
    """Sysbench's summary of the window: ``events`` in ``seconds``, ignored errors, mean latency.

    ``waiting``: due and not begun at the window's beginning and end, where a rate is set.
    ``buckets``: (milliseconds, count). ``rates``: (second of the window, transactions per second).
    """

    events: int
    seconds: float
    ignored: int
    average_ms: float
    waiting: tuple[int, int]
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
        run(clients, job, folder, argv, f"{script.name} prepare", progress)


def drive(
    program: Path,
    version: str,
    dialect: str,
    connection: JsonObject,
    script: Script,
    load: OfferedLoad,
    clients: Clients,
    progress: Progress,
    drives: WindowCallbacks,
) -> DriverResult:
    """Run the script; RunFailed with sysbench's last lines."""
    what = f"{version}: {load.users} threads, {script.name}"
    job = _job(what, dialect, connection, script)
    ramp_up_s = load.ramp_up_ns // 10**9
    options = {
        **load.variables,
        "threads": str(load.users),
        "time": str(ramp_up_s + load.duration_ns // 10**9),
        "report-interval": "1",
        "rand-seed": str(load.seed),
        "db-ps-mode": "disable" if load.protocol == "simple" else "auto",
    }
    if ramp_up_s:
        options["report-checkpoints"] = str(ramp_up_s)
    if load.rate_per_s is not None:
        options["rate"] = f"{load.rate_per_s:g}"

    def begins(line: str) -> int | None:
        return 0 if (_CHECKPOINT.match(line) if ramp_up_s else line == _STARTED) else None

    argv = _argv(program, script, options, "run", "--histogram")
    with working(clients, job) as folder:
        window = measured(clients, job, folder, argv, load, begins, drives, progress)
    return _result(version, script, load, window, read_summary(what, window.lines, ramp_up_s))


def _job(what: str, dialect: str, connection: JsonObject, script: Script) -> ClientJob:
    """The password is in a file: arguments can be read by every user."""
    names = {"host": "host", "port": "port", "socket": "socket", "user": "user"}
    names |= {"password": "password", "database": "db"}
    lines = [f"db-driver={dialect}"]
    for name, option in names.items():
        if connection.get(name) and not (dialect == "pgsql" and name == "socket"):
            lines.append(f"{dialect}-{option}={connection[name]}")
    files: dict[str, str] = {}
    if script.text:
        file = _file(script)
        files = {**script.files, file: script.text, MAIN: _MAIN.format(file=file)}
    files[CONFIG] = "\n".join([*lines, ""])
    return ClientJob(
        what, files, {"PGOPTIONS": str(connection.get("options") or "")},
        str(connection["password"]), _REPORT,
    )  # fmt: skip


def _argv(
    program: Path, script: Script, options: Mapping[str, str], command: str, *flags: str
) -> list[str]:
    given = [f"--{name}={value}" for name, value in options.items()]
    file = f"./{MAIN}" if script.text else script.name
    return [str(program), f"--config-file={CONFIG}", *given, *flags, file, command]


def _file(script: Script) -> str:
    return re.sub(r"[^\w.-]", "_", f"{script.name}.lua")


def files_of(script: Path, text: str) -> dict[str, str]:
    """Texts of the files that a script reads by ``require`` and ``dofile``, and these in turn.

    By their path from the script's folder. What is not there is sysbench's own, or Lua's.
    UsageError for a file elsewhere.
    """
    files: dict[str, str] = {}
    texts = [text]
    while texts:
        for match in _READS.finditer(texts.pop()):
            name = match["name"]
            if match["call"] == "require":
                stem = name.replace(".", "/")
                names = [f"{stem}.lua", f"{stem}/init.lua"]
            else:
                names = [name.removeprefix("./")]
            if any(name.startswith("/") or ".." in Path(name).parts for name in names):
                raise UsageError(
                    f"script {script}",
                    f"{match['call']} of {name}: the run would not have the file's text",
                    "copy the file next to the script, and name it without a folder",
                )
            for name in names:
                if name not in files and (script.parent / name).is_file():
                    try:
                        files[name] = read_text(script.parent / name, None)
                    except OSError as error:
                        context = error.strerror or str(error)
                        raise UsageError(f"{script.parent / name}", context, "copy it") from error
                    texts.append(files[name])
    return files


def read_summary(what: str, lines: Sequence[str], ramp_up_s: int) -> SysbenchSummary:
    """Read the reports; RunFailed for a run without its figures, or without a transaction.

    The last ones are the window's; but total times are since the beginning.
    """
    text = "\n".join(lines)
    events, totals, averages = (pattern.findall(text) for pattern in (_EVENTS, _TOTAL, _AVERAGE))
    reports = 2 if ramp_up_s else 1
    if (len(events), len(totals), len(averages)) != (reports,) * 3:
        raise unreadable(what, "sysbench", lines)
    ignored, transactions = _IGNORED.findall(text), _TRANSACTIONS.findall(text)
    if int(events[-1]) == 0:
        raise RunFailed(
            what, "not one transaction was done in the measured window", "raise --duration"
        )
    queues = {int(m[1]): int(m[2]) for line in lines if (m := _QUEUE.match(line))}
    rates = {int(m[1]): float(m[2]) for line in lines if (m := _SECOND.match(line))}
    return SysbenchSummary(
        int((transactions if transactions and int(transactions[-1]) else events)[-1]),
        float(totals[-1]) - (float(totals[0]) if ramp_up_s else 0),
        int(ignored[-1]) if ignored else 0,
        float(averages[-1]),
        (queues.get(ramp_up_s, 0), queues[max(queues)] if queues else 0),
        [(float(m[1]), int(m[2])) for line in lines if (m := _BUCKET.match(line))],
        [(second - ramp_up_s, rate) for second, rate in rates.items() if second > ramp_up_s],
    )


def _result(
    version: str, script: Script, load: OfferedLoad, window: Window, summary: SysbenchSummary
) -> DriverResult:
    window_ns = round(summary.seconds * 1e9)
    values = [round(ms * 1e6) for ms, _ in summary.buckets]
    times = histogram(values, [count for _, count in summary.buckets])
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
        client_cpu_ns=window.cpu_ns,
        client_threads=load.users,
        **offered(load, window_ns, summary.waiting),
        series=[
            SeriesPoint(window.begin_ns + (second - 1) * SERIES_NS, {script.name: round(rate)})
            for second, rate in summary.rates
        ],
        notes={
            "own_transactions_per_second": summary.events / summary.seconds,
            "own_latency_average_ms": summary.average_ms,
        },
    )
