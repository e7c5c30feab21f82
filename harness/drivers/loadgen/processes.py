"""The native client: one or several ``loadgen`` processes as one driver.

::

    run = drive(split(spec, processes=2), clients, Watch(on_measuring=…, on_measured=…))
    run["operations"], run["client_cpu_ns"], …     # schema loadgen-result

A process reads its spec (with the password in it) on stdin, tells its phases on
descriptor 3, and prints its result on stdout. It keeps its connections until its stdin
ends, which is when ``on_measured`` has returned: what a server's process has used up is
told only as long as it is there. All callbacks are called in the caller's
thread. Whatever happens, no process is left when a function returns.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import hdr, remote_hosts
from harness.drivers.loadgen.client_hosts import ClientHosts
from harness.drivers.loadgen.protocols import Tunnel, TunnelsNatively
from harness.drivers.private_folder import private_folder
from harness.engine import Credentials, Listens, Process
from harness.errors import RunFailed, UsageError
from harness.native_programs import loadgen_for
from harness.store import schemas
from harness.supervise.failures import log_tail
from harness.supervise.user_files import acting_as, hold_socket
from harness.workload import Clients

#: Until when all processes are connected: they start together at a time set beforehand, and a
#: host may stand still for seconds until then.
_TOGETHER_S = 6.0
_TOGETHER_PER_CONNECTION_S = 0.03
#: What ssh takes to be there, on top.
_AFAR_S = 6.0
#: A client that runs reports each second, and ends soon after its phases: how much later it is
#: taken for stuck, and how much of that its connecting takes.
_MARGIN_S = 300.0
_CONNECTING_S = 0.1
#: Phases that a spec does not name end by themselves (loadgen/spec.c).
_DRAIN_NS = 5_000_000_000
#: How far apart clients may begin that are said to have run together.
_APART_NS = 200_000_000
_ASKED = "drive the load with loadgen"
#: Of ``connection``: what every session is set to, whichever way it comes.
_OF_SESSION = frozenset({"isolation"})


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """What is called under way.

    ``on_measuring`` and ``on_measured``: as the measured window begins and ends, once,
    however many processes there are. ``on_counts``: about each second, what all processes
    have done so far by operation (of a load: rows by table).
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


def split(spec: Mapping[str, Any], processes: int) -> list[dict[str, Any]]:
    """One spec for each of several processes that offer together what ``spec`` asks for.

    Connections, terminals, operations and rate are spread evenly, and the starts of an open
    loop come in turn; each has the spec's threads, and a journal of its own (see
    :func:`journals`). UsageError for more processes than connections or operations.
    """
    connections = spec["connections"]
    operations = spec.get("operations")
    terminals = spec.get("terminals") or connections
    if not 1 <= processes <= connections:
        raise UsageError(
            f"{processes} client processes for {connections} connections",
            "each needs a connection at least",
            "use fewer processes",
        )
    if operations is not None and operations < processes:
        raise UsageError(
            f"{processes} client processes for {operations} operations",
            "each begins one at least",
            "use fewer processes, or more operations",
        )
    first, specs = 0, []
    for index in range(processes):
        mine = _share(connections, processes, index)
        seats = _share(terminals, processes, index)
        one = {
            **spec,
            "connections": mine,
            "threads": min(spec["threads"], mine),
            "terminals": seats,
            "first_terminal": first,
            "all_terminals": terminals,
        }
        first += seats
        if operations is not None:
            one["operations"] = _share(operations, processes, index)
        if spec["mode"]["kind"] == "open":
            rate = spec["mode"]["rate_per_s"] / processes
            turn = {"rate_per_s": rate, "first_start": index / processes}
            one["mode"] = {"kind": "open", **turn}
        if spec.get("journal"):
            one["journal"] = str(journals(Path(spec["journal"]), processes)[index])
        specs.append(one)
    return specs


def journals(journal: Path, processes: int) -> list[Path]:
    """The journals that the specs of :func:`split` name."""
    if processes == 1:
        return [journal]
    return [journal.with_name(f"{journal.name}.{index}") for index in range(processes)]


def _share(of: int, processes: int, index: int) -> int:
    return of // processes + (index < of % processes)


def drive(
    specs: Sequence[Mapping[str, Any]],
    clients: Clients,
    watch: Watch | None = None,
    afar: Afar | None = None,
) -> dict[str, Any]:
    """Run all specs at once; one result (schema loadgen-result) of all of them.

    ``afar``: on those hosts in turn, not on this one. RunFailed with loadgen's own words where
    one of them fails; the others are ended.
    """
    given = [dict(spec) for spec in specs]
    if afar is not None:
        return merged(_run(_together_afar(given), clients, watch or Watch(), afar))
    if len(given) == 1:
        return merged(_run(given, clients, watch or Watch()))
    most = max(spec["connections"] for spec in given)
    ahead_s = _TOGETHER_S + _TOGETHER_PER_CONNECTION_S * most
    shared = clients.scratch / f"shared-{uuid.uuid4().hex}"
    together = {
        "start_at_realtime_ns": time.time_ns() + int(ahead_s * 1e9),
        "shared": str(shared),
    }
    try:
        return merged(_run([{**spec, **together} for spec in given], clients, watch or Watch()))
    finally:
        with acting_as(clients.credentials):
            shared.unlink(missing_ok=True)


def _together_afar(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With one start by the wall clock, which every host keeps; hosts share no file."""
    most = max(spec["connections"] for spec in specs)
    ahead_s = _AFAR_S + _TOGETHER_S + _TOGETHER_PER_CONNECTION_S * most
    start = time.time_ns() + int(ahead_s * 1e9)
    return [{**spec, "start_at_realtime_ns": start} for spec in specs]


def load(spec: Mapping[str, Any], clients: Clients, watch: Watch | None = None) -> dict[str, Any]:
    """Run one spec of task ``load``: its result, with the rows stored by table."""
    (result,) = _run([{**spec, "task": "load"}], clients, watch or Watch())
    return result


def verify(spec: Mapping[str, Any], clients: Clients, watch: Watch | None = None) -> dict[str, Any]:
    """Run one spec of task ``verify``: its result, with what was found as ``verified``.

    Records that are missing or not as they were written are no failure of the client: the
    caller judges the counts.
    """
    (result,) = _run([{**spec, "task": "verify"}], clients, watch or Watch())
    return result


# Processes ----------------------------------------------------------------------


@dataclass
class _Client:
    """A running loadgen and what it has said so far."""

    index: int
    process: Process
    log: Path
    #: In whose directory the log lies.
    user: Credentials | None
    printed: bytes = b""
    #: Streams of it that have not ended yet.
    open_streams: int = 0

    def result(self) -> dict[str, Any]:
        """Its document; RunFailed where it ended otherwise than complete."""
        try:
            code = self.process.wait(_MARGIN_S)
        except TimeoutError as error:
            raise RunFailed(
                _ASKED, f"it has printed its result and does not end: {error}"
            ) from error
        try:
            document: dict[str, Any] = json.loads(self.printed)
        except ValueError:
            document = {}
        if code != 0 or document.get("status") != "complete":
            raise RunFailed(_ASKED, document.get("error") or self._last_words(code))
        schemas.validate(document, "loadgen-result", "loadgen's result")
        return document

    def let_go(self) -> None:
        """Let it end: it keeps its connections until its stdin does."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _last_words(self, code: int) -> str:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return f"it {how}: {log_tail(self.log, self.user)}"


#: (client, event) from its descriptor 3; (client, None) when one of its streams has ended.
_News = queue.SimpleQueue[tuple[_Client, dict[str, Any] | None]]


def _run(
    specs: Sequence[Mapping[str, Any]], clients: Clients, watch: Watch, afar: Afar | None = None
) -> list[dict[str, Any]]:
    news: _News = queue.SimpleQueue()
    with (
        # In the scratch directory, which goes however the harness ends.
        private_folder(clients, "logs-") as logs,
        _started(specs, clients, logs, news, afar) as running,
    ):
        # Where operations bound the window, the slowest client ends it.
        enders = len(specs) if specs[0].get("operations") else 1
        return _listen(running, news, watch, enders, _Patience.of(specs))


@contextmanager
def _started(
    specs: Sequence[Mapping[str, Any]],
    clients: Clients,
    logs: Path,
    news: _News,
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
                thread = threading.Thread(target=read, args=(client, news), daemon=True)
                thread.start()
                threads.append(thread)
        yield running
    finally:
        for client in running:
            client.process.kill()
        for thread in threads:  # their pipes end with the processes
            thread.join()
        for client in running:
            client.let_go()
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
                raise RunFailed(_ASKED, f"no tunnel to the server's socket: {error}") from error
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
    with suppress(BrokenPipeError):  # it has ended already: its exit status tells why
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.flush()
    if spec.get("task", "run") != "run":
        client.let_go()
    return client


def _read_progress(client: _Client, news: _News) -> None:
    for line in client.process.progress:
        news.put((client, json.loads(line)))
    news.put((client, None))


def _read_result(client: _Client, news: _News) -> None:
    client.printed = client.process.stdout.read()
    news.put((client, None))


def _read_lines(client: _Client, news: _News) -> None:
    """Of a process afar: progress and, last, the result, in lines of one stream."""
    for line in client.process.stdout:
        try:
            told = json.loads(line)
        except ValueError:
            told = {}
        if "event" in told:
            news.put((client, told))
        else:
            client.printed += line
    news.put((client, None))


@dataclass(frozen=True)
class _Patience:
    """When clients are taken for stuck, by the monotonic clock in seconds; None: never.

    ``silence_s``: without a word of any of them; ``end_s``: all of them, at that time.
    """

    silence_s: float | None = None
    end_s: float | None = None

    @classmethod
    def of(cls, specs: Sequence[Mapping[str, Any]]) -> _Patience:
        """Of clients that run their phases. The time of a load or a check is unknown."""
        first = specs[0]
        if first.get("task", "run") != "run":
            return cls()
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

    def next(self, news: _News) -> tuple[_Client, dict[str, Any] | None]:
        """What is reported next; RunFailed where that does not come."""
        waits = [] if self.silence_s is None else [self.silence_s]
        if self.end_s is not None:
            waits.append(max(0.0, self.end_s - time.monotonic()))
        wait_s = min(waits, default=None)
        try:
            return news.get(timeout=wait_s)
        except queue.Empty:
            late = wait_s != self.silence_s
            found = "its phases should have ended" if late else "it reported anything"
            raise RunFailed(
                _ASKED,
                f"a client hangs: it runs {_MARGIN_S:.0f} s or more after {found}, and was killed",
                "run again; if it happens again, look for what stops the client's process",
            ) from None


def _listen(
    running: Sequence[_Client], news: _News, watch: Watch, enders: int, patience: _Patience
) -> list[dict[str, Any]]:
    """Hear them until all have ended; the first that fails ends it.

    ``enders``: of so many the last one ends the measured window. Until then all keep their
    connections, and what serves them can be asked.
    """
    once = {"measuring": watch.on_measuring}
    ended: list[_Client] = []
    counts: dict[int, Mapping[str, int]] = {}
    results: dict[int, dict[str, Any]] = {}
    while len(results) < len(running):
        client, event = patience.next(news)
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
                    one.let_go()
        if "counts" in event:
            counts[client.index] = event["counts"]
            watch.on_counts(_summed(counts.values()))
    return [results[client.index] for client in running]


# Merging ------------------------------------------------------------------------

_OPERATION_COUNTS = (
    "count",
    "not_found",
    "skipped",
    "rolled_back",
    "failed",
    "retried",
    "unfinished",
)


def merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The results of processes that ran together, on one host or on several, as that of one.

    Clock, version, start and notes are the first one's; counts and processor times are
    sums, the memory is that of the largest process. Histograms are merged. Inserts are
    counted by all processes in common: the last one to end has seen them all. RunFailed where
    their windows did not begin together by the hosts' wall clocks.
    """
    first = dict(results[0])
    if len(results) == 1:
        return first
    _check_together(results)
    offered = [result["offered"] for result in results if result["offered"]]
    return first | {
        "measured_ns": max(result["measured_ns"] for result in results),
        "client_cpu_ns": sum(result["client_cpu_ns"] for result in results),
        "threads_cpu_ns": [cpu for result in results for cpu in result["threads_cpu_ns"]],
        "memory_peak_bytes": max(result["memory_peak_bytes"] for result in results),
        "operations": [
            _merged_operation(same)
            for same in zip(*(result["operations"] for result in results), strict=True)
        ],
        "series": _merged_series([result["series"] for result in results]),
        "errors": _summed(result["errors"] for result in results),
        "offered": _summed(offered) if offered else None,
        **_merged_keys(results),
    }


def _merged_series(series: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Interval by interval: one that had done its operations earlier adds nothing any more."""
    merged_ones = []
    for same in zip_longest(*series):
        there = [interval for interval in same if interval is not None]
        counts = _summed(interval["counts"] for interval in there)
        merged_ones.append({"monotonic_ns": there[0]["monotonic_ns"], "counts": counts})
    return merged_ones


def _merged_keys(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of YCSB: inserts in common, fields updated and keys drawn most often by all together."""
    common: dict[str, Any] = {
        name: max(result[name] for result in results)
        for name in ("inserted", "inserts_begun")
        if name in results[0]
    }
    if "updated" in results[0]:  # of each group of fields the highest hash
        common["updated"] = list(map(max, *(result["updated"] for result in results)))
    if "key_counts" not in results[0]:
        return common
    counted: dict[int, dict[str, Any]] = {}  # by number, or by distance from the newest
    for result in results:
        for one in result["key_counts"]:
            place = one["number"] if "number" in one else one["behind_newest"]
            so_far = counted[place]["count"] if place in counted else 0
            counted[place] = {**one, "count": so_far + one["count"]}
    most = max(len(result["key_counts"]) for result in results)
    hottest = sorted(counted, key=lambda place: (-counted[place]["count"], place))[:most]
    return common | {
        "draws": sum(result["draws"] for result in results),
        "key_counts": [counted[place] for place in hottest],
    }


def _check_together(results: Sequence[Mapping[str, Any]]) -> None:
    begins = []
    for result in results:
        clock = result["clock"]
        begins.append(clock["realtime_ns"] - clock["monotonic_ns"] + result["started_monotonic_ns"])
    apart_ns = max(begins) - min(begins)
    if apart_ns > _APART_NS:
        raise RunFailed(
            f"merge the results of {len(results)} clients",
            f"their measured windows began {apart_ns / 1e9:.3f} s apart",
            "give all of them the same start_at_realtime_ns and ramp-up, and keep the hosts' "
            "clocks synchronised",
        )


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def _merged_operation(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    (kind,) = {one["type"] for one in same}
    counts = {name: sum(one[name] for one in same) for name in _OPERATION_COUNTS}
    return {
        "type": kind,
        **counts,
        "latency_hdr": hdr.merge_encoded(one["latency_hdr"] for one in same),
    }
