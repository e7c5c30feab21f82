"""A recorded load of the user's, replayed on the data of the folder.

================================== =====================================================
metric                             what it is
================================== =====================================================
operations_per_second              statements of the window, as fast as possible
statement_duration_ns              histogram of all statements, at a set speed: from the
                                   intended time to the last row
operation_duration_ns              histogram by ``operation``, a class of statements
operation_count                    by ``operation``: those that ended well
operation_failed_count             by ``operation``: those that failed
replay_lag_ns                      histogram by ``class``: from the intended time until
                                   it was sent, at a set speed
replayed_statements_per_second     those of the window, at a set speed
recorded_statements_per_second     the same statements in the record
replay_speed                       time that they took in the record, in windows
================================== =====================================================
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness import hdr
from harness.capture.replay_file import REPLAY, Header
from harness.drivers.client_program import STDERR, ClientProgram, private_folder
from harness.drivers.replay.protocol import ReplayFailure, ReplayReport, ReplayRequest, ReplayResult
from harness.drivers.result import DriverResult, Operation, WindowCallbacks, WindowCounters
from harness.drivers.validity import Nouns
from harness.engine import Engine
from harness.errors import RunFailed, UsageError
from harness.progress import Task
from harness.store.result import Check, Metric
from harness.store.spec import JsonObject
from harness.supervise.failures import ending
from harness.supervise.silence import limit_s
from harness.units import NS_PER_S, format_ns
from harness.warnings import RunWarning
from harness.workload import Outcome, Session
from harness.workloads.sql.folder import CHECK, SqlFolder, opened_file, read_folder
from harness.workloads.sql.params import SqlParams
from harness.workloads.window import Driver, rates_per_second, window_outcome

#: Classes with figures of their own, the longest in total; the others are ``other``.
_LABELLED = 40
_OTHER = "other"
_DIALECTS = {"postgres": "pgsql", "mysql": "mysql"}
#: Share of statements sent more than 10 ms late above which the replay does not keep up.
_LATE = 0.01
#: Share of statements that may fail in the replay alone.
_FAILED = 0.01
_SATURATED = 0.9
_BLOCK = 1 << 20
_NOUNS = Nouns("operation", "session", "--speed", ("count", "failed_count"))


@dataclass(frozen=True)
class ReplayDriver(Driver):
    """Our own client, a process of its own (harness.drivers.replay.client)."""

    params: SqlParams

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        header = self.header()
        if engine.sysbench_driver != _DIALECTS[header.dialect]:
            raise UsageError(
                f"replay on {engine.name}",
                f"the record is of {header.dialect}",
                "choose an engine that speaks its protocol: postgres, or mysql and mariadb",
            )
        most = settings.get("max_connections", "")
        if most.isdigit() and int(most) < header.most_sessions:
            raise UsageError(
                f"max_connections {most}",
                f"the record has {header.most_sessions} sessions at a time",
                f"raise it: --set max_connections={header.most_sessions + 10}",
            )

    def header(self) -> Header:
        return replay_header(read_folder(Path(self.params.folder)))

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        return self.replay(session, drives)[0]

    def replay(
        self, session: Session, drives: WindowCallbacks
    ) -> tuple[DriverResult, ReplayResult]:
        """Replay the record; RunFailed where the client or the server fails."""
        header, params = self.header(), self.params
        labels = labels_of(header)
        clients, folder = session.clients(), Path(params.folder)
        user = clients.credentials
        request = ReplayRequest(
            session.engine.native_connection(),
            params.speed,
            params.ramp_up.ns if params.ramp_up else 0,
            params.duration.ns if params.duration else None,
            labels,
            limit_s("measure"),
            None if user is None else (user.uid, user.gid),
        )
        pace = f"at {params.speed:g} times its speed" if params.speed else "as fast as possible"
        what = f"replay {folder.name} {pace}"
        with private_folder(clients, "replay-") as scratch:
            process = clients.start_driver(
                [sys.executable, "-X", "utf8", "-m", "harness.drivers.replay.client"],
                credentials=None,  # that user may be unable to enter the installation
                log=scratch / STDERR,
                log_owner=user,
                pipes=True,
            )
            pipes = {"stdout": process.stdout}
            secret = str(request.connection["password"])
            program = ClientProgram(process, scratch, user, what, pipes, secret)
            sender = threading.Thread(
                target=_send, args=(folder, request, process.stdin), daemon=True
            )
            with (
                session.progress.task(what, header.duration_us / 1e6, "s") as task,
                program.running(),
            ):
                sender.start()
                result = _listen(program, header, task, drives)
            sender.join()
        return _driven(header, labels, result), result


def replay_header(folder: SqlFolder) -> Header:
    """The header of the folder's record; UsageError without a record."""
    if folder.replay is None:
        raise UsageError(
            f"replay {folder.path}",
            f"the folder has no {REPLAY}",
            f"record a load: harness workload capture {folder.path} --log FILE --engine ENGINE",
        )
    return folder.replay


def labels_of(header: Header) -> tuple[str, ...]:
    """Labels of the classes in results: names of the first ones, then one for all others."""
    names = tuple(of.name for of in header.classes)
    return names if len(names) <= _LABELLED else (*names[:_LABELLED], _OTHER)


def _send(folder: Path, request: ReplayRequest, stdin: object) -> None:
    """Send the request and the record, as the client reads them."""
    with suppress(OSError, ValueError):  # the client has ended; its status says why
        assert hasattr(stdin, "write") and hasattr(stdin, "close")
        with opened_file(folder, REPLAY) as stream:
            stdin.write(msgspec.json.encode(request) + b"\n")
            while block := stream.read(_BLOCK):
                stdin.write(block)
        stdin.close()


def _listen(
    program: ClientProgram, header: Header, task: Task, drives: WindowCallbacks
) -> ReplayResult:
    silence_s = 2 * limit_s("measure")
    while not program.over:
        read = program.next_line()
        if read is None:
            if program.silent_s > silence_s:
                raise program.failed(f"it has printed nothing for {silence_s:g} s")
            continue
        line = read[1].encode()
        with suppress(msgspec.ValidationError):
            report = msgspec.json.decode(line, type=ReplayReport)
            if report.event == "measuring":
                drives.on_measuring()
            elif report.event == "measured":
                drives.on_measured()
            elif report.event == "second":
                lag = f", {format_ns(report.lag_ns)} late" if report.lag_ns else ""
                task.advance(1, note=f"{report.done:,} of {header.statements:,} statements{lag}")
            continue
        with suppress(msgspec.ValidationError):
            return msgspec.json.decode(line, type=ReplayResult)
        failure = msgspec.json.decode(line, type=ReplayFailure)
        raise program.failed(failure.error)
    status = program.process.wait()
    raise program.failed(f"it {ending(status)}")


def _driven(header: Header, labels: tuple[str, ...], result: ReplayResult) -> DriverResult:
    if not any(of.count for of in result.classes):
        raise RunFailed(
            "replay", "not one statement ended well in the measured window",
            "look at the run's errors, or raise --duration",
        )  # fmt: skip
    operations = {
        label: Operation(
            count=of.count, failed_count=sum(of.errors.values()), latency_hdr=of.latency_hdr
        )
        for label, of in zip(labels, result.classes, strict=True)
        if of.count or of.errors
    }
    return DriverResult(
        driver="replay",
        version=f"psycopg or PyMySQL, format {header.format}",
        window_ns=result.window_ns,
        operations=operations,
        client_cpu_ns=result.cpu_ns,
        notes={
            "unfinished": result.unfinished,
            "connections_lost": result.lost,
            "peak_bytes": result.peak_bytes,
        },
    )


def measure(
    params: SqlParams, session: Session, check_data: Callable[[], Iterable[Check]]
) -> Outcome:
    """Replay the record, then check the data."""
    driver = ReplayDriver(params)
    counted = WindowCounters(session)
    driven, result = driver.replay(session, counted.drives())
    header = driver.header()
    unchecked = Check(CHECK, "unknown", "there is none: what was written is not verified")
    classes: JsonObject = {
        label: {
            "text": of.text if label != _OTHER else "",
            "recorded": {"count": of.count, "took_us": of.took_us, "errors": of.errors},
            "errors": dict(measured.errors),
        }
        for label, of, measured in zip(
            labels_of(header), header.classes, result.classes, strict=False
        )
    }
    return window_outcome(
        driver,
        driven,
        counted,
        _NOUNS,
        params.outline(),
        users=header.most_sessions,
        closed=params.speed is None,
        rates=list(_metrics(params, header, driven, result)),
        checks=[_check_errors(header, result), *(list(check_data()) or [unchecked])],
        warnings=list(_warnings(params, result)),
        statement_classes=classes,
    )


def _metrics(
    params: SqlParams, header: Header, driven: DriverResult, result: ReplayResult
) -> Iterator[Metric]:
    done = driven.done_count or 0
    if params.speed is None:
        yield from rates_per_second(driven)
    else:
        yield Metric("statement_duration_ns", "ns", "lower", hdr=result.all_hdr)
        rate = done * NS_PER_S / result.window_ns
        yield Metric("replayed_statements_per_second", "1/s", "none", value=rate)
        for label, of in zip(labels_of(header), result.classes, strict=True):
            if of.count or of.errors:
                yield Metric("replay_lag_ns", "ns", "lower", {"class": label}, hdr=of.lag_hdr)
    if result.covered_us:
        recorded = done * 1e6 / result.covered_us
        yield Metric("recorded_statements_per_second", "1/s", "none", value=recorded)
        speed = result.covered_us * 1000 / result.window_ns
        yield Metric("replay_speed", "1", "none", value=speed)


def _check_errors(header: Header, result: ReplayResult) -> Check:
    """Compare the statements that failed with those that had failed in the record."""
    labels = labels_of(header)
    total = sum(of.count + sum(of.errors.values()) for of in result.classes)
    unexpected = {
        label: of for label, of in zip(labels, result.classes, strict=True) if of.unexpected
    }
    count = sum(of.unexpected for of in unexpected.values())
    recovered = sum(of.recovered for of in result.classes)
    parts = [
        f"{label}: {of.unexpected} ({', '.join(f'{code} × {n}' for code, n in of.errors.items())})"
        for label, of in list(unexpected.items())[:5]
    ]
    detail = f"{count} of {total} statements failed that had not failed in the record"
    if recovered:
        detail += f", {recovered} did not fail that had"
    detail += "".join(f"; {part}" for part in parts)
    if count > _FAILED * total:
        # A log without errors has statements in it that failed.
        return Check("replay-errors", "failed" if header.errors_known else "unknown", detail)
    return Check("replay-errors", "passed", detail)


def _warnings(params: SqlParams, result: ReplayResult) -> Iterator[RunWarning]:
    share = result.cpu_ns / max(1, result.window_ns)
    if share > _SATURATED:
        yield RunWarning(
            code="client-saturated",
            problem="the client, not the server, may be the limit",
            context=f"the replay's process computed for {share:.0%} of the window",
            hint="lower --speed, or record fewer sessions",
        )
    if params.speed is not None and result.late_share > _LATE:
        lags = hdr.decode(result.lag_hdr)
        middle, high = lags.percentiles([50, 99])
        yield RunWarning(
            code="replay-late",
            problem="the replay did not keep up with the record",
            context=f"{result.late_share:.1%} of the statements were sent more than 10 ms after "
            f"their time: {format_ns(middle)} at p50, {format_ns(high)} at p99, "
            f"{format_ns(result.last_lag_ns)} at the end",
            hint="lower --speed, or compare rates: --as-fast-as-possible",
        )
