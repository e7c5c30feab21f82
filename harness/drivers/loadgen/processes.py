"""The native client: one or several ``loadgen`` processes as one driver.

::

    run = drive(split(spec, processes=2), clients, WindowCallbacks(on_measuring=…))
    run.operations, run.client_cpu_ns, …

A process reads its spec (with the password in it) on stdin, reports its phases on descriptor
3, and prints its result on stdout. It keeps its connections until its stdin ends, after
``on_measured`` has returned: the counters of a server's process end with it. All callbacks
are called in the caller's thread. Whatever happens, no process is left when a function returns.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import jsonfile, remote_hosts, structs
from harness.counters import summed
from harness.drivers.client_program import private_folder
from harness.drivers.loadgen.remote_clients import RemoteClients
from harness.drivers.loadgen.spec import LoadgenResult, LoadgenSpec, merged, split
from harness.drivers.result import SERIES_NS, Second, WindowCallbacks, intervals_per_histogram
from harness.engine import Credentials, Process
from harness.errors import RunFailed, UsageError, naming_instance
from harness.native_programs import loadgen_for
from harness.progress import Task
from harness.sequences import grouped
from harness.supervise.failures import ending, log_tail
from harness.supervise.silence import limit_s
from harness.supervise.user_files import hold_socket
from harness.units import NS_PER_S
from harness.workload import Clients, Session
from harness.workloads.parameters import Outline

#: Time for all processes to connect: they start together at a time set beforehand, and a busy
#: host may stall for seconds until then.
_TOGETHER_S = 6.0
_TOGETHER_PER_CONNECTION_S = 0.03
#: Additional time for ssh.
_REMOTE_S = 6.0
#: A client reports every second, and ends soon after its phases. What each connection adds to
#: the delay after which it counts as stuck.
_CONNECTING_S = 0.1
#: How long clients wait after the window for operations that began in it.
_OFFER_DRAIN_NS = 10_000_000_000
_PROBLEM = "drive the load with loadgen"
#: Keys of ``connection`` that are set in every session, however it connects.
_OF_SESSION = frozenset({"isolation"})


class StalledError(RunFailed):
    """The server answered no call for the spec's ``stall_timeout_ns``."""


@dataclass(frozen=True)
class OfferedSpecs:
    """The specs of the processes that offer the load of one database, and how they start."""

    specs: Sequence[LoadgenSpec]
    clients: Clients


@dataclass(frozen=True)
class Driven:
    """The merged result of one database's processes, and their counts from their beginning on."""

    result: LoadgenResult
    counts: Mapping[str, int]


def offer(
    spec: LoadgenSpec, session: Session, drives: WindowCallbacks, outline: Outline, noun: str
) -> list[Driven]:
    """Run a spec on client processes of each instance; their results.

    ``spec``: without connections, phases and seed, which ``outline`` and ``session`` have.
    ``noun``: what is offered, for the live view.
    """
    intervals = -(-outline.window_ns // SERIES_NS)
    whole = replace(
        spec,
        connections=outline.connections,
        ramp_up_ns=outline.ramp_up_ns,
        duration_ns=outline.window_ns or None,
        drain_ns=_OFFER_DRAIN_NS,
        series_interval_ns=SERIES_NS,
        intervals_per_histogram=intervals_per_histogram(intervals),
        stall_timeout_ns=outline.stall_timeout_ns or None,
        seed=session.seed,
    )
    hosts = outline.client_hosts
    with session.progress.task("warm-up", outline.ramp_up_ns / NS_PER_S, "s") as task:
        progress = LoadgenProgress(task, drives, outline, noun)
        of_session = {key: spec.connection[key] for key in _OF_SESSION & spec.connection.keys()}
        offers = [
            OfferedSpecs(
                split(
                    replace(
                        whole,
                        connection={**instance.engine.native_connection(), **of_session},
                        seed=instance.seed,
                    ),
                    outline.clients,
                ),
                instance.clients(),
            )
            for instance in session.each
        ]
        remote = RemoteClients(hosts, session.engine) if hosts else None
        return drive_each(offers, progress.callbacks, remote)


class LoadgenProgress:
    """Moves a task on by the seconds of its phases."""

    def __init__(self, task: Task, drives: WindowCallbacks, outline: Outline, noun: str) -> None:
        self._task, self._drives, self._outline, self._noun = task, drives, outline, noun
        self._last_report_s = time.monotonic()
        self.callbacks = WindowCallbacks(
            self._measuring, self._measured, on_second=self._second_passed
        )

    def _measuring(self) -> None:
        self._drives.on_measuring()
        window_ns = self._outline.window_ns
        self._task.enter("measurement", window_ns / NS_PER_S if window_ns else None)
        self._last_report_s = time.monotonic()

    def _measured(self) -> None:
        self._drives.on_measured()
        self._task.enter("waiting for the last answers", None)

    def _second_passed(self, second: Second) -> None:
        now = time.monotonic()
        self._task.advance(now - self._last_report_s, partial(second.text, self._noun))
        self._last_report_s = now


def drive(
    specs: Sequence[LoadgenSpec],
    clients: Clients,
    callbacks: WindowCallbacks | None = None,
    remote: RemoteClients | None = None,
) -> LoadgenResult:
    """Run all specs at once on one database; one result of all of them.

    ``remote``: on those hosts in turn, not on this one. RunFailed with loadgen's message where
    one fails; the others are killed. The caller checks the counts of the task ``verify``.
    """
    (driven,) = drive_each([OfferedSpecs(specs, clients)], callbacks, remote)
    return driven.result


def drive_each(
    offers: Sequence[OfferedSpecs],
    callbacks: WindowCallbacks | None = None,
    remote: RemoteClients | None = None,
) -> list[Driven]:
    """Run the specs of all databases at once, as :func:`drive`; a result of each database."""
    clients = offers[0].clients
    with (
        # In the scratch directory, which goes however the harness ends.
        private_folder(clients, "loadgen-") as folder,
        closing(_Processes(folder, remote, len(offers))) as processes,
    ):
        offers = _together(offers, folder, remote)
        for number, offered in enumerate(offers, 1):
            for spec in offered.specs:
                processes.start(spec, offered.clients, number)
        return processes.results(
            [spec for offered in offers for spec in offered.specs], callbacks or WindowCallbacks()
        )


def _together(
    offers: Sequence[OfferedSpecs], folder: Path, remote: RemoteClients | None
) -> Sequence[OfferedSpecs]:
    """Return the specs with one start by the wall clock.

    Processes of a host and a database share a file.
    """
    specs = [spec for offered in offers for spec in offered.specs]
    if remote is None and len(specs) == 1:
        return offers
    most = max(spec.connections for spec in specs) * len(offers)
    ahead_s = _TOGETHER_S + _TOGETHER_PER_CONNECTION_S * most + (_REMOTE_S if remote else 0)
    start_ns = time.time_ns() + int(ahead_s * 1e9)

    def shared(number: int, offered: OfferedSpecs) -> str | None:
        alone = remote is not None or len(offered.specs) == 1
        return None if alone else str(folder / f"shared-{number}")

    return [
        replace(
            offered,
            specs=[
                replace(spec, start_at_realtime_ns=start_ns, shared=shared(number, offered))
                for spec in offered.specs
            ],
        )
        for number, offered in enumerate(offers, 1)
    ]


# Processes ----------------------------------------------------------------------


@dataclass
class _Client:
    """A running loadgen and its output so far; ``instance``: the number of its database."""

    index: int
    instance: int
    process: Process
    log: Path
    #: The owner of the log's directory.
    user: Credentials | None
    printed: bytes = b""
    #: Its streams that have not ended yet.
    open_streams: int = 0

    def result(self) -> LoadgenResult:
        """Return the client's result; RunFailed where the client did not end complete."""
        try:
            code = self.process.wait(limit_s("measure"))
        except TimeoutError as error:
            raise RunFailed(
                _PROBLEM, f"it has printed its result and does not end: {error}"
            ) from error
        try:
            document: dict[str, Any] = jsonfile.parse(self.printed)
        except ValueError:
            document = {}
        status = document.get("status")
        if code != 0 or status != "complete":
            failure = StalledError if status == "stalled" else RunFailed
            raise failure(
                _PROBLEM,
                document.get("error") or f"it {ending(code)}: {log_tail(self.log, self.user)}",
            )
        return structs.convert(document, LoadgenResult, "loadgen's result")

    def release(self) -> None:
        """Let the client end: it keeps its connections until its stdin ends."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()


@dataclass(frozen=True)
class _ClientReport:
    """Report of a client on its descriptor 3: a phase, or its counts so far."""

    event: str
    monotonic_ns: int = 0
    counts: Mapping[str, int] | None = None
    latency_hdr: str | None = None


#: (client, event); (client, None) when one of its streams has ended.
_Events = queue.SimpleQueue[tuple[_Client, _ClientReport | None]]


@dataclass
class _Processes:
    """The client processes of one driver; ``close`` ends them.

    ``folder``: of their logs. ``instances``: databases that they offer load to.
    """

    folder: Path
    remote: RemoteClients | None
    instances: int
    _running: list[_Client] = field(default_factory=list)
    _events: _Events = field(default_factory=queue.SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)
    #: Descriptors that tunnels need as long as clients run.
    _sockets: list[int] = field(default_factory=list)

    def start(self, spec: LoadgenSpec, clients: Clients, instance: int) -> None:
        """Start a client, and send it its spec."""
        index = len(self._running)
        log = self.folder / f"{index}.log"
        readers: Sequence[Callable[[_Client, _Events], None]]
        if self.remote is None:
            process = self._spawn(spec.backend, clients, log)
            readers = (_read_progress, _read_result)
        else:
            argv, connection = self.remote.route(index, partial(self._hold, clients.credentials))
            session = {key: spec.connection[key] for key in _OF_SESSION & spec.connection.keys()}
            spec = replace(spec, connection={**connection, **session})
            process = self._spawn_ssh(argv, clients, log)
            readers = (_read_lines,)
        client = _Client(
            index, instance, process, log, clients.credentials, open_streams=len(readers)
        )
        self._running.append(client)
        with suppress(BrokenPipeError):  # it has ended already: its exit status says why
            process.stdin.write(json.dumps(spec.to_json()).encode())
            process.stdin.flush()
        if spec.task != "run":
            client.release()
        for read in readers:
            thread = threading.Thread(target=read, args=(client, self._events), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _spawn(self, backend: str, clients: Clients, log: Path) -> Process:
        program = loadgen_for(backend, clients.credentials, clients.scratch)
        return clients.start_driver(
            [str(program), "-"], cwd=clients.scratch, log=log, pipes=True, progress=True
        )

    def _spawn_ssh(self, argv: Sequence[str], clients: Clients, log: Path) -> Process:
        """Start ssh as the harness's own user, whose keys and agent it needs."""
        return clients.processes.spawn(
            argv,
            env=remote_hosts.environment(),
            log=log,
            log_owner=clients.credentials,
            pipes=True,
            capped=False,
        )

    def _hold(self, user: Credentials | None, socket: Path) -> str:
        """Hold the server's socket open: its user may replace the path by a link."""
        try:
            self._sockets.append(hold_socket(socket, user))
        except OSError as error:
            raise RunFailed(_PROBLEM, f"no tunnel to the server's socket: {error}") from error
        return f"/proc/{os.getpid()}/fd/{self._sockets[-1]}"

    def results(self, specs: Sequence[LoadgenSpec], callbacks: WindowCallbacks) -> list[Driven]:
        """Process events until all clients have ended, or one has failed; results by database.

        The window begins and ends with the last client's: only then have all sessions published
        their counters. All clients keep their connections until then, so that server processes
        can be read.
        """
        timeouts = _ClientLimits.of(specs)
        reached = {"measuring": 0, "draining": 0}
        counts: dict[int, Mapping[str, int]] = {}
        rates = _Rates()
        results: dict[int, LoadgenResult] = {}
        while len(results) < len(specs):
            client, event = timeouts.next(self._events)
            if event is None:
                client.open_streams -= 1
                if client.open_streams == 0:  # its last counts have been read, too
                    with naming_instance(client.instance, self.instances):
                        results[client.index] = client.result()
                continue
            if event.event in reached:
                reached[event.event] += 1
                if reached[event.event] == len(specs):
                    self._window_end(event.event, callbacks)
            if event.counts is not None:
                counts[client.index] = event.counts
                callbacks.on_counts(summed(counts.values()))
            if event.event == "second":
                callbacks.on_second(rates.after(client.index, event))
        by_instance = grouped((client.instance, client.index) for client in self._running)
        return [
            Driven(
                merged([results[index] for index in indexes]),
                summed(counts[index] for index in indexes if index in counts),
            )
            for indexes in by_instance.values()
        ]

    def _window_end(self, event: str, callbacks: WindowCallbacks) -> None:
        if event == "measuring":
            callbacks.on_measuring()
            return
        callbacks.on_measured()
        for client in self._running:
            client.release()

    def close(self) -> None:
        """Kill the clients that still run."""
        for client in self._running:
            client.process.kill()
        for thread in self._threads:  # their pipes end with the processes
            thread.join()
        for client in self._running:
            client.release()
            client.process.stdout.close()
            if client.process.progress is not None:
                client.process.progress.close()
            client.process.wait()
        for socket in self._sockets:
            os.close(socket)


@dataclass
class _Rates:
    """The last second of all clients, each by its own clock."""

    _last: dict[int, tuple[int, int]] = field(default_factory=dict)
    _seconds: dict[int, Second] = field(default_factory=dict)

    def after(self, client: int, event: _ClientReport) -> Second:
        """Return the rate of all clients, and their latencies, after a client's event."""
        at_ns, done = event.monotonic_ns, sum((event.counts or {}).values())
        before_ns, before = self._last.get(client, (at_ns - NS_PER_S, 0))
        per_s = (done - before) * NS_PER_S / max(1, at_ns - before_ns)
        self._last[client] = at_ns, done
        latency = () if event.latency_hdr is None else (event.latency_hdr,)
        self._seconds[client] = Second(per_s, latency)
        seconds = self._seconds.values()
        hdrs = [text for second in seconds for text in second.latency_hdrs]
        return Second(sum(second.per_s for second in seconds), hdrs)


def _report(line: str | bytes) -> _ClientReport:
    return structs.convert(jsonfile.parse(line), _ClientReport, "a client's event")


def _read_progress(client: _Client, events: _Events) -> None:
    with suppress(ValueError, UsageError):  # what follows a damaged line is not known either
        for line in client.process.progress:
            events.put((client, _report(line)))
    events.put((client, None))


def _read_result(client: _Client, events: _Events) -> None:
    client.printed = client.process.stdout.read()
    events.put((client, None))


def _read_lines(client: _Client, events: _Events) -> None:
    """Read a remote process: its events and, last, the result, in lines of one stream."""
    for line in client.process.stdout:
        try:
            events.put((client, _report(line)))
        except (ValueError, UsageError):
            client.printed += line
    events.put((client, None))


@dataclass(frozen=True)
class _ClientLimits:
    """The limits after which clients count as stuck.

    ``silence_s``: without an event of any of them; ``end_s``: by the monotonic clock.
    """

    silence_s: float
    end_s: float = math.inf

    @classmethod
    def of(cls, specs: Sequence[LoadgenSpec]) -> _ClientLimits:
        """Return the limits; a load, a check or a number of operations has no known duration."""
        first = specs[0]
        if first.task != "run":
            # It reports after each package of some megabytes, and a load then waits for the
            # engine's background work.
            return cls(limit_s("load"))
        at_ns = first.start_at_realtime_ns
        ahead_s = max(0.0, (at_ns - time.time_ns()) / 1e9) if at_ns else 0.0
        connecting_s = _CONNECTING_S * max(spec.connections for spec in specs)
        silence_s = limit_s("measure") + ahead_s + connecting_s
        if first.duration_ns is None:
            return cls(silence_s)
        phases_ns = first.ramp_up_ns + first.duration_ns + first.drain_ns
        return cls(silence_s, time.monotonic() + silence_s + phases_ns / 1e9)

    def next(self, events: _Events) -> tuple[_Client, _ClientReport | None]:
        """Return the next event; RunFailed where no event comes."""
        wait_s = min(self.silence_s, max(0.0, self.end_s - time.monotonic()))
        try:
            return events.get(timeout=wait_s)
        except queue.Empty:
            late = wait_s != self.silence_s
            since = "its phases should have ended" if late else "its last event"
            after_s = limit_s("measure") if late else self.silence_s
            raise RunFailed(
                _PROBLEM,
                f"a client hangs: it runs {after_s:.0f} s or more after {since}, and was killed",
                "run again; if it happens again, look for what stops the client's process",
            ) from None
