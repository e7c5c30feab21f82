"""The supervisor process: starts everything, and ends it when the harness is gone.

It is started as ``python -I -S daemon.py`` with one end of a socket pair. That socket
is the lifeline: the kernel closes the harness's end however the harness dies, kill -9
included. A pidfd of the harness is watched besides, because a fork of the harness
would keep the socket open.

It keeps its privileges, and each child drops them before exec: what must be undone at
the end (control groups, directories of the unprivileged user) needs
root, and root cannot be had back. It runs no code but its own, reads nothing but its
socket, and its children have no descriptor of it.

As the subreaper of its descendants it becomes the parent of whatever a server
daemonises, so nothing it started is out of its sight. Should it be killed itself, its
children get SIGKILL from the kernel (PR_SET_PDEATHSIG) and the harness cleans up.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

if __name__ == "__main__":  # -I leaves our package off the path
    _HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from harness.supervise import channel, linux, locks, process, undo
from harness.supervise.child import reported_failure, run_child, unfinished
from harness.supervise.segments import Segments

GRACE_S = 2.0
#: Giving back gigabytes of memory takes a killed server its time on a busy host.
_KILL_S = 15.0
_POLL_S = 0.01
#: A signal that ends us is seen so soon.
_LOOK_MS = 200
_REPORT_BYTES = 4096
#: stdin, stdout, stderr of the child, the pipe its exit status is written to, its descriptor 3
#: where it reports its progress, and the page where its file I/O is traced.
_DESCRIPTORS = 6


@dataclass
class Child:
    """A direct child; ``status_fd`` is None once it has been reaped."""

    pid: int
    mark: str
    stop_signal: int
    status_fd: int | None


class Daemon:
    """The event loop: requests from the harness, deaths of children, the lifeline's end."""

    def __init__(self, connection: socket.socket, journal_path: str, harness_pid: int) -> None:
        self._connection = connection
        self._journal_path = journal_path
        self._pid = os.getpid()
        self._children: list[Child] = []
        #: Descriptors of locks of the harness, by device and inode.
        self._locks: dict[tuple[int, int], int] = {}
        # A server killed by another process has no mappings when it is found dead.
        self._seen = Segments()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wakeup, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        linux.become_subreaper()
        # Readable too: NFS takes a shared lock on nothing else.
        self._journal_fd = os.open(journal_path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        # Shared with the harness: a journal that can be locked exclusively has no owner.
        if not locks.try_lock(self._journal_fd, shared=True):
            raise FileNotFoundError(journal_path)  # the harness is dead: another recovers it
        entry = {"kind": "supervisor", **asdict(process.own_identity())}
        undo.append_entry(self._journal_fd, entry, sync=False)
        try:
            self._harness_pidfd = os.pidfd_open(harness_pid)
            self._ended = os.getppid() != harness_pid
        except ProcessLookupError:  # it died while we started
            self._harness_pidfd = self._wakeup
            self._ended = True

    def _on_term(self, *_: object) -> None:
        self._ended = True

    def serve(self) -> None:
        """Work until the lifeline ends, then end everything."""
        poller = select.poll()
        for descriptor in (self._connection.fileno(), self._wakeup, self._harness_pidfd):
            poller.register(descriptor, select.POLLIN)
        self._reply({"ready": True})
        while not self._ended:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
                self._reap()
            if self._harness_pidfd in ready:
                self._ended = True
            elif self._connection.fileno() in ready:
                self._serve_request()
        self._end_everything()

    def _serve_request(self) -> None:
        try:
            request, descriptors = channel.receive_with_descriptors(self._connection, _DESCRIPTORS)
        except (EOFError, ConnectionError):
            self._ended = True
            return
        try:
            answer = self._handle(request, descriptors)
        except Exception as error:  # a request must not end the supervisor
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._reply(answer)

    def _reply(self, answer: dict[str, Any]) -> None:
        try:
            channel.send(self._connection, answer)
        except ConnectionError:
            self._ended = True

    def _handle(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if request["op"] == "spawn":
            return self._spawn(request, descriptors)
        if request["op"] == "hold":
            return self._hold(*descriptors)
        child = next((c for c in self._children if c.mark == request["mark"]), None)
        if child is None:
            return {"error": f"no process {request['mark']}"}
        if request["op"] == "signal":
            # Not reaped, so its pid cannot have been given to another process.
            if child.status_fd is not None:
                os.kill(child.pid, request["number"])
            return {}
        return self._kill(child)

    def _hold(self, descriptor: int) -> dict[str, Any]:
        """Keep it open to the end, in place of an earlier one of the same file."""
        facts = os.fstat(descriptor)
        earlier = self._locks.pop((facts.st_dev, facts.st_ino), None)
        if earlier is not None:
            os.close(earlier)
        self._locks[facts.st_dev, facts.st_ino] = descriptor
        return {}

    def _spawn(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._seen.note(process.descendants(self._pid))
        stdin, stdout, stderr, status_fd, *further = descriptors
        streams = (stdin, stdout, stderr, *further)
        error_read, error_write = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            run_child(request, streams, self._journal_fd, error_write, self._pid)
        for descriptor in (*streams, error_write):
            os.close(descriptor)
        started = process.process_identity(pid)
        assert started is not None  # not reaped yet, so /proc still has it
        child = Child(pid, request["mark"], request["stop_signal"], status_fd)
        self._children.append(child)
        report, ended = self._until_exec(error_read, request["exec_s"])
        failure = reported_failure(report) if ended else None
        if not ended:
            failure = unfinished(report, request["exec_s"], request)
            os.kill(pid, signal.SIGKILL)  # not reaped: nothing else does it meanwhile
        if failure is not None:
            return {"failed": failure}
        return {"pid": pid, "start_ticks": started.start_ticks}

    def _until_exec(self, errors: int, limit_s: float) -> tuple[bytes, bool]:
        """Return what a child reports before exec, which closes its end, and whether exec has come.

        The harness waits for our answer: if its end of the connection shows anything, it is gone.
        """
        poller = select.poll()
        for descriptor in (errors, self._connection.fileno(), self._harness_pidfd):
            poller.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + limit_s
        report = b""
        with open(errors, "rb", buffering=0) as pipe:
            while not self._ended and time.monotonic() < deadline:
                ready = {descriptor for descriptor, _ in poller.poll(_LOOK_MS)}
                if errors in ready:
                    if not (piece := pipe.read(_REPORT_BYTES)):
                        return report, True
                    report += piece
                elif ready:
                    self._ended = True
        return report, False

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid and child.status_fd is not None:
                    self._report_exit(child, os.waitstatus_to_exitcode(status))

    def _report_exit(self, child: Child, code: int) -> None:
        assert child.status_fd is not None
        with contextlib.suppress(BrokenPipeError):  # no process waits for it any more
            os.write(child.status_fd, str(code).encode())
        os.close(child.status_fd)
        child.status_fd = None

    def _kill(self, child: Child) -> dict[str, Any]:
        survivors = self._kill_all(lambda: self._family(child))
        return {"survivors": [survivor.pid for survivor in survivors]}

    def _kill_all(self, find: Callable[[], list[process.ProcessStat]]) -> list[process.ProcessId]:
        """Kill what is found and remove its segments; the survivors."""
        segments = Segments()
        survivors = process.kill_all(lambda: segments.note(find()), _KILL_S, self._reap)
        segments.remove()
        self._seen.remove()
        return survivors

    def _family(self, child: Child) -> list[process.ProcessStat]:
        """The child, its descendants, and what it daemonised (known by its mark)."""
        ours = process.descendants(self._pid)
        below: set[int] = set()
        if child.status_fd is not None:
            below = {child.pid} | {s.id.pid for s in process.descendants(child.pid)}
        return [
            stat
            for stat in ours
            if stat.id.pid in below or process.mark_of(stat.id.pid) == child.mark
        ]

    def _end_everything(self) -> None:
        self._connection.close()
        for child in self._children:
            if child.status_fd is None:
                continue
            if child.stop_signal == signal.SIGKILL:
                self._kill(child)
            else:
                os.killpg(child.pid, child.stop_signal)
        deadline = time.monotonic() + GRACE_S
        self._reap()
        while time.monotonic() < deadline and (
            any(c.status_fd is not None for c in self._children) or self._of_the_harness()
        ):
            time.sleep(_POLL_S)
            self._reap()
        survivors = self._kill_all(lambda: process.descendants(self._pid))
        survivors += process.kill_all(self._of_the_harness, _KILL_S)
        failures = [f"process {survivor.pid} cannot be killed" for survivor in survivors]
        if os.path.exists(self._journal_path):  # else recovered before we held our lock
            failures += undo.undo_journal(self._journal_path)
        for failure in failures:
            with contextlib.suppress(OSError):  # its reader may have left
                os.write(2, f"harness supervisor: not undone: {failure}\n".encode())

    def _of_the_harness(self) -> list[process.ProcessStat]:
        """Living processes that the harness started without us, with its mark: Ansible's."""
        ours = {stat.id for stat in process.descendants(self._pid)}
        marked = process.marked_processes(undo.owner_of(self._journal_path))
        return [stat for stat in marked if not stat.dead and stat.id not in ours]


def main() -> None:
    """Serve one harness: ``daemon.py SOCKET_FD JOURNAL HARNESS_PID``."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    try:
        daemon = Daemon(connection, sys.argv[2], int(sys.argv[3]))
    except FileNotFoundError:  # the harness died at once, and another has recovered its journal
        return
    daemon.serve()


if __name__ == "__main__":
    main()
