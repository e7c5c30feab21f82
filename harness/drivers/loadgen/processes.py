"""The native client: one or several ``loadgen`` processes as one driver.

::

    run = drive(split(spec, processes=2), clients, Watch(on_measuring=…, on_measured=…))
    run["operations"], run["client_cpu_ns"], …     # schema loadgen-result

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
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import remote_hosts
from harness.drivers.client_program import private_folder
from harness.drivers.loadgen.client_hosts import ClientHosts
from harness.drivers.loadgen.protocols import Tunnel, TunnelsNatively
from harness.drivers.loadgen.several import merged, summed
from harness.engine import Credentials, Listens, Process
from harness.errors import RunFailed
from harness.native_programs import loadgen_for
from harness.store import schemas
from harness.supervise.failures import ending, log_tail
from harness.supervise.user_files import acting_as, hold_socket
from harness.workload import Clients

#: Time for all processes to connect: they start together at a time set beforehand, and a busy
#: host may stall for seconds until then.
_TOGETHER_S = 6.0
_TOGETHER_PER_CONNECTION_S = 0.03
#: Additional time for ssh.
_AFAR_S = 6.0
#: A client reports every second, and ends soon after its phases: the delay after which it counts
#: as stuck, and the part of it for each connection.
_MARGIN_S = 300.0
_CONNECTING_S = 0.1
#: A load or a check reports after each package of some megabytes, and a load then waits for the
#: engine's background work.
_PACKAGE_S = 4 * 3600.0
#: The drain phase where the spec does not set it (loadgen/spec.c).
_DRAIN_NS = 5_000_000_000
_PROBLEM = "drive the load with loadgen"
#: Keys of ``connection`` that are set in every session, however it connects.
_OF_SESSION = frozenset({"isolation"})


class StalledError(RunFailed):
    """The server answered no call for the spec's ``stall_timeout_ns``."""


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """Callbacks.

    ``on_measuring`` and ``on_measured``: once, as the measurement window begins and ends,
    however many processes there are. ``on_counts``: about every second, the operations of all
    processes so far, by name (of a load: rows by table).
    """

    on_measuring: Callable[[], None] = _nothing
    on_measured: Callable[[], None] = _nothing
    on_counts: Callable[[Mapping[str, int]], None] = _nothing


@dataclass(frozen=True)
class Afar:
    """Processes on other hosts, which reach the engine's server through tunnels.

    Or directly, by TLS, where it listens for them.
    """

    hosts: ClientHosts
    engine: TunnelsNatively

    def way(self) -> tuple[Tunnel | None, dict[str, Any]]:
        """A tunnel of its own for one process, where it needs one, and its ``connection``."""
        if isinstance(self.engine, Listens) and (there := self.engine.from_elsewhere()):
            return None, dict(there)
        tunnel = self.engine.tunnel(str(20_000 + secrets.randbelow(40_000)))
        return tunnel, dict(tunnel.connection)


def drive(
    specs: Sequence[Mapping[str, Any]],
    clients: Clients,
    watch: Watch | None = None,
    afar: Afar | None = None,
) -> dict[str, Any]:
    """Run all specs at once; one result (schema loadgen-result) of all of them.

    ``afar``: on those hosts in turn, not on this one. RunFailed with loadgen's message where
    one fails; the others are killed.
    """
    with _together(specs, clients, afar) as whole:
        return merged(_run(whole, clients, watch or Watch(), afar))


@contextmanager
def _together(
    specs: Sequence[Mapping[str, Any]], clients: Clients, afar: Afar | None
) -> Iterator[list[dict[str, Any]]]:
    """The specs with one start by the wall clock; processes of one host share a file, too."""
    if afar is None and len(specs) == 1:
        yield [dict(specs[0])]
        return
    most = max(spec["connections"] for spec in specs)
    ahead_s = _TOGETHER_S + _TOGETHER_PER_CONNECTION_S * most + (_AFAR_S if afar else 0)
    start = {"start_at_realtime_ns": time.time_ns() + int(ahead_s * 1e9)}
    if afar is not None:
        yield [{**spec, **start} for spec in specs]
        return
    shared = clients.scratch / f"shared-{uuid.uuid4().hex}"
    try:
        yield [{**spec, **start, "shared": str(shared)} for spec in specs]
    finally:
        with acting_as(clients.credentials):
            shared.unlink(missing_ok=True)


def load(spec: Mapping[str, Any], clients: Clients, watch: Watch | None = None) -> dict[str, Any]:
    """Run one spec of task ``load``: its result, with the rows stored by table."""
    (result,) = _run([{**spec, "task": "load"}], clients, watch or Watch())
    return result


def verify(spec: Mapping[str, Any], clients: Clients, watch: Watch | None = None) -> dict[str, Any]:
    """Run one spec of task ``verify``: its result, with counts as ``verified``.

    Missing or changed records are no failure of the client: the caller checks the counts.
    """
    (result,) = _run([{**spec, "task": "verify"}], clients, watch or Watch())
    return result


# Processes ----------------------------------------------------------------------


@dataclass
class _Client:
    """A running loadgen and its output so far."""

    index: int
    process: Process
    log: Path
    #: The owner of the log's directory.
    user: Credentials | None
    printed: bytes = b""
    #: Its streams that have not ended yet.
    open_streams: int = 0

    def result(self) -> dict[str, Any]:
        """Its document; RunFailed where it did not end complete."""
        try:
            code = self.process.wait(_MARGIN_S)
        except TimeoutError as error:
            raise RunFailed(
                _PROBLEM, f"it has printed its result and does not end: {error}"
            ) from error
        try:
            document: dict[str, Any] = json.loads(self.printed)
        except ValueError:
            document = {}
        status = document.get("status")
        if code != 0 or status != "complete":
            failure = StalledError if status == "stalled" else RunFailed
            raise failure(_PROBLEM, document.get("error") or self._failure(code))
        schemas.validate(document, "loadgen-result", "loadgen's result")
        return document

    def release(self) -> None:
        """Let it end: it keeps its connections until its stdin ends."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _failure(self, code: int) -> str:
        return f"it {ending(code)}: {log_tail(self.log, self.user)}"


#: (client, event) from its descriptor 3; (client, None) when one of its streams has ended.
_Events = queue.SimpleQueue[tuple[_Client, dict[str, Any] | None]]


def _run(
    specs: Sequence[Mapping[str, Any]], clients: Clients, watch: Watch, afar: Afar | None = None
) -> list[dict[str, Any]]:
    events: _Events = queue.SimpleQueue()
    with (
        # In the scratch directory, which goes however the harness ends.
        private_folder(clients, "logs-") as logs,
        _started(specs, clients, logs, events, afar) as running,
    ):
        # Where operations bound the window, the slowest client ends it.
        enders = len(specs) if specs[0].get("operations") else 1
        return _process_events(running, events, watch, enders, _Timeouts.of(specs))


@contextmanager
def _started(
    specs: Sequence[Mapping[str, Any]],
    clients: Clients,
    logs: Path,
    events: _Events,
    afar: Afar | None,
) -> Iterator[list[_Client]]:
    running: list[_Client] = []
    threads: list[threading.Thread] = []
    sockets: list[int] = []
    try:
        for index, spec in enumerate(specs):
            client = _start(index, spec, clients, logs / f"{index}.log", afar, sockets)
            running.append(client)
            readers = (_read_progress, _read_result) if afar is None else (_read_lines,)
            client.open_streams = len(readers)
            for read in readers:
                thread = threading.Thread(target=read, args=(client, events), daemon=True)
                thread.start()
                threads.append(thread)
        yield running
    finally:
        for client in running:
            client.process.kill()
        for thread in threads:  # their pipes end with the processes
            thread.join()
        for client in running:
            client.release()
            client.process.stdout.close()
            if client.process.progress is not None:
                client.process.progress.close()
            client.process.wait()
        for socket in sockets:
            os.close(socket)


def _start(
    index: int,
    spec: Mapping[str, Any],
    clients: Clients,
    log: Path,
    afar: Afar | None,
    sockets: list[int],
) -> _Client:
    """``sockets``: descriptors that tunnels need as long as the client runs are added."""
    if afar is not None:
        tunnel, connection = afar.way()
        kept = {key: spec["connection"][key] for key in _OF_SESSION & spec["connection"].keys()}
        spec = {**spec, "connection": {**connection, **kept}}
    if afar is not None:  # as the harness's own user, whose keys and agent ssh needs
        ends: tuple[str, ...] = ()
        if tunnel is not None:
            # ssh has our rights, and the server's user may replace the socket by a link.
            try:
                sockets.append(hold_socket(tunnel.local, clients.credentials))
            except OSError as error:
                raise RunFailed(_PROBLEM, f"no tunnel to the server's socket: {error}") from error
            ends = (tunnel.remote, f"/proc/{os.getpid()}/fd/{sockets[-1]}")
        argv = afar.hosts.argv(index, spec["backend"], *ends)
        environment = remote_hosts.environment()
        process = clients.processes.spawn(
            argv, env=environment, log=log, log_owner=clients.credentials, pipes=True, capped=False
        )
    else:
        program = loadgen_for(spec["backend"], clients.credentials, clients.scratch)
        process = clients.start_driver(
            [str(program), "-"], cwd=clients.scratch, log=log, pipes=True, progress=True
        )
    client = _Client(index, process, log, clients.credentials)
    with suppress(BrokenPipeError):  # it has ended already: its exit status says why
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.flush()
    if spec.get("task", "run") != "run":
        client.release()
    return client


def _read_progress(client: _Client, events: _Events) -> None:
    for line in client.process.progress:
        events.put((client, json.loads(line)))
    events.put((client, None))


def _read_result(client: _Client, events: _Events) -> None:
    client.printed = client.process.stdout.read()
    events.put((client, None))


def _read_lines(client: _Client, events: _Events) -> None:
    """Read a remote process: its events and, last, the result, in lines of one stream."""
    for line in client.process.stdout:
        try:
            document = json.loads(line)
        except ValueError:
            document = {}
        if "event" in document:
            events.put((client, document))
        else:
            client.printed += line
    events.put((client, None))


@dataclass(frozen=True)
class _Timeouts:
    """When clients count as stuck.

    ``silence_s``: without an event of any of them; ``end_s``: by the monotonic clock.
    """

    silence_s: float
    end_s: float = math.inf

    @classmethod
    def of(cls, specs: Sequence[Mapping[str, Any]]) -> _Timeouts:
        """The duration of a load, a check or a number of operations is unknown."""
        first = specs[0]
        if first.get("task", "run") != "run":
            return cls(_PACKAGE_S)
        at_ns = first.get("start_at_realtime_ns")
        ahead_s = max(0.0, (at_ns - time.time_ns()) / 1e9) if at_ns else 0.0
        connecting_s = _CONNECTING_S * max(spec["connections"] for spec in specs)
        silence_s = _MARGIN_S + ahead_s + connecting_s
        if first.get("duration_ns") is None:
            return cls(silence_s)
        phases_ns = (
            first["ramp_up_ns"] + first["duration_ns"] + (first.get("drain_ns") or _DRAIN_NS)
        )
        return cls(silence_s, time.monotonic() + silence_s + phases_ns / 1e9)

    def next(self, events: _Events) -> tuple[_Client, dict[str, Any] | None]:
        """The next event; RunFailed where none comes."""
        wait_s = min(self.silence_s, max(0.0, self.end_s - time.monotonic()))
        try:
            return events.get(timeout=wait_s)
        except queue.Empty:
            late = wait_s != self.silence_s
            since = "its phases should have ended" if late else "its last event"
            after_s = _MARGIN_S if late else self.silence_s
            raise RunFailed(
                _PROBLEM,
                f"a client hangs: it runs {after_s:.0f} s or more after {since}, and was killed",
                "run again; if it happens again, look for what stops the client's process",
            ) from None


def _process_events(
    running: Sequence[_Client], events: _Events, watch: Watch, enders: int, timeouts: _Timeouts
) -> list[dict[str, Any]]:
    """Process events until all clients have ended, or one has failed.

    ``enders``: the number of clients that must have ended their window before it counts as
    ended. Until then all keep their connections, so that server processes can be read.
    """
    once = {"measuring": watch.on_measuring}
    ended: list[_Client] = []
    counts: dict[int, Mapping[str, int]] = {}
    results: dict[int, dict[str, Any]] = {}
    while len(results) < len(running):
        client, event = timeouts.next(events)
        if event is None:
            client.open_streams -= 1
            if client.open_streams == 0:  # its last counts have been read, too
                results[client.index] = client.result()
            continue
        once.pop(event["event"], _nothing)()
        if event["event"] == "draining":
            ended.append(client)
            if len(ended) == enders:
                watch.on_measured()
            if len(ended) >= enders:
                for one in ended:
                    one.release()
        if "counts" in event:
            counts[client.index] = event["counts"]
            watch.on_counts(summed(counts.values()))
    return [results[client.index] for client in running]
