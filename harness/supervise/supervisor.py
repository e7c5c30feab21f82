"""The harness's side of the supervisor: start processes that cannot outlive us.

::

    with Supervisor() as supervisor:
        server = supervisor.spawn(["postgres", "-D", data], log=log, credentials=unprivileged())
        supervisor.journal.register_directory(Path("/mnt/pmem0/run-data"))
        ...

At the end of the block, or when this process ends in any way at all, everything started
is stopped and every change in the journal undone (see harness.supervise.daemon).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness.errors import RunFailed
from harness.supervise import channel, failures
from harness.supervise.journal import Journal, recover_journal
from harness.supervise.process import ProcessId, process_identity
from harness.supervise.programs import minimal_environment
from harness.supervise.silence import Watch
from harness.supervise.starting import MemoryPolicy, ProcessStarter
from harness.supervise.user_files import Credentials

if TYPE_CHECKING:  # the trace needs numpy, which takes its time to import
    from harness.host.cgroup import MemoryCap
    from harness.iotrace.trace import IoTrace

_DAEMON = Path(__file__).with_name("daemon.py")
#: The supervisor needs 2 s of grace and up to as much again for kills and unmounts;
#: removing large directories may take longer, so this only bounds a hang.
_END_S = 60.0


@dataclass(frozen=True)
class Confinement:
    """How a process gets into the run's memory cap (harness.host.cgroup) and processors.

    ``cgroup_procs``: files it writes itself into before exec. ``argv_prefix`` and
    ``env``: the launcher that does it instead (systemd-run), where we may not.
    ``cpus``: the processors it may run on; empty for all of them. ``trace``: of its file I/O.
    """

    cgroup_procs: tuple[Path, ...] = ()
    argv_prefix: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    cpus: tuple[int, ...] = ()
    trace: IoTrace | None = None


class SupervisedProcess:
    """A direct child of the supervisor (``harness.engine.Process``).

    ``stdin`` and ``stdout``: binary, buffered (flush!), None without ``pipes``;
    ``progress``: its output on descriptor 3, None if not requested.
    """

    def __init__(
        self, supervisor: Supervisor, identity: ProcessId, mark: str, streams: channel.Streams
    ) -> None:
        self.id = identity
        self.pid = identity.pid
        self._status, self.stdin, self.stdout, self.progress = streams.keep()
        self.returncode: int | None = None
        self._supervisor = supervisor
        self._mark = mark
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Exit status (negative: the signal that ended it), None while it runs."""
        return self._await_status(0)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; TimeoutError after ``timeout_s``; RunFailed without a supervisor."""
        code = self._await_status(timeout_s)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout_s} s")
        return code

    def _await_status(self, timeout_s: float | None) -> int | None:
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            if not poller.poll(None if timeout_s is None else max(0, timeout_s * 1000)):
                return None
            text = os.read(self._status, 32)
            if not text:
                self._supervisor.explain_loss()
            os.close(self._status)
            self.returncode = int(text)
            return self.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing where it has ended."""
        self._supervisor.request({"op": "signal", "mark": self._mark, "number": int(number)})

    def kill(self) -> None:
        """SIGKILL it and everything it started, daemons included; returns when all are dead."""
        answer = self._supervisor.request({"op": "kill", "mark": self._mark})
        if answer["survivors"]:
            raise RunFailed(
                f"kill process {self.pid}",
                f"process {answer['survivors'][0]} does not die (stuck in the kernel?)",
            )


class Supervisor:
    """Owns the supervisor process and the journal (``harness.engine.ProcessStarter``).

    Safe to call from several threads. One per harness process is enough.
    """

    def __init__(self, state_dir: Path | None = None) -> None:
        self._state_dir = state_dir
        self._lock = threading.Lock()
        self._spawned = 0
        self._broken = False
        #: Those that may still run.
        self._running: list[SupervisedProcess] = []
        #: Of the supervisor and its processes.
        self.silence: Watch

    def __enter__(self) -> Supervisor:
        self.journal = Journal(self._state_dir)
        self._begin()
        return self

    def _begin(self) -> None:
        """Start the supervisor process, and look at it and at what it will start."""
        self._socket, far_end = socket.socketpair()
        command = [sys.executable, "-X", "utf8", "-I", "-S", str(_DAEMON), str(far_end.fileno())]
        command += [str(self.journal.path), str(os.getpid())]
        with far_end:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=minimal_environment(Path("/")),
                pass_fds=[far_end.fileno()],
                start_new_session=True,
            )
        identity = process_identity(self._process.pid)
        assert identity is not None  # not waited for yet
        self.silence = Watch(identity, self._alive)
        try:
            self.silence.start()
            channel.receive(self._socket)  # {"ready": true}
        except BaseException as error:
            left = "; ".join(self._end())
            if isinstance(error, (EOFError, OSError)):
                raise RunFailed("start the supervisor process", left or str(error)) from error
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        left = self._end()
        if not left:
            return
        if error is None:
            raise RunFailed("clean up", "; ".join(left), "undo it manually, or start harness again")
        error.add_note(f"not undone: {'; '.join(left)}")

    def renew(self) -> None:
        """Start another supervisor process where this one was killed; to be called between runs.

        RunFailed where a process of the last run does not die: the next one would be measured next
        to it.
        """
        if self._broken:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        if self._process.poll() != -signal.SIGKILL:
            return
        self.silence.stop()
        self._socket.close()
        self.journal.kill_processes()
        self._broken, self._running = False, []
        self._begin()

    @property
    def pid(self) -> int:
        """The supervisor's own process, not to be counted to any engine."""
        return self._process.pid

    def _end(self) -> list[str]:
        """Let the lifeline go, wait for the supervisor; do its work where it was killed."""
        self._socket.close()
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return [f"supervisor {self._process.pid} still cleans up after {_END_S:.0f} s"]
        finally:
            self.silence.stop()
            self.journal.close()
        result = recover_journal(self.journal.path)
        left = list(result.failures) if result else []
        if code not in (0, -signal.SIGKILL):
            left.append(f"the supervisor ended with status {code}")
        return left

    def hold(self, descriptor: int) -> None:
        """Keep the open file open until everything is cleaned up, however this process ends."""
        self.request({"op": "hold"}, [descriptor])

    def capped_by(
        self, cap: MemoryCap | None, cpus: tuple[int, ...] = (), trace: IoTrace | None = None
    ) -> ProcessStarter:
        """A starter whose ``capped`` processes go into this memory cap and on these processors.

        Those that are ``traced``, too, get the trace.
        """
        confinement = cap.confinement if cap else Confinement()
        return _CappedStarter(self, replace(confinement, cpus=cpus, trace=trace))

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        log_owner: Credentials | None = None,
        credentials: Credentials | None = None,
        memory: MemoryPolicy | None = None,
        capped: bool = True,
        traced: bool = False,
        pipes: bool = False,
        progress: bool = False,
        stop_signal: int = signal.SIGKILL,
        network: str = "",
        confinement: Confinement | None = None,
    ) -> SupervisedProcess:
        """Start ``argv`` in its own session; see ``harness.engine.ProcessStarter``.

        ``env`` is added to a minimal environment (PATH, C.UTF-8, UTC, HOME = ``cwd``).
        ``log`` is opened for appending as ``log_owner`` (default: ``credentials``); without it
        the output is dropped. ``confinement``: what ``capped`` means here
        (see :meth:`capped_by`). RunFailed says which step before exec failed.
        """
        confinement = (confinement if capped else None) or Confinement()
        home = cwd or Path("/")
        with self._lock:
            self._spawned += 1
            mark = f"{self.journal.owner}.{self._spawned}"
        trace = confinement.trace if traced and confinement.trace and confinement.trace.on else None
        #: After the standard streams and the one for progress.
        preload = trace.environment(4 if progress else 3) if trace else {}
        request = {
            "op": "spawn",
            "argv": [*confinement.argv_prefix, *map(str, argv)],
            "cwd": str(home),
            "env": minimal_environment(home)
            | dict(confinement.env or {})
            | preload
            | dict(env or {}),
            "mark": mark,
            "credentials": [credentials.uid, credentials.gid, credentials.name]
            if credentials and os.geteuid() == 0
            else None,
            "memory": [memory.mode, list(memory.nodes)] if memory else None,
            "cgroup_procs": [str(path) for path in confinement.cgroup_procs],
            "cpus": list(confinement.cpus),
            "stop_signal": int(stop_signal),
            "network": network,
        }
        try:
            opened = channel.Streams(log, pipes, progress, log_owner or credentials)
        except OSError as error:
            context = f"its log cannot be written: {error.strerror}: {log}"
            raise RunFailed(f"start {argv[0]}", context) from error
        with opened as streams:
            inherited = [trace.page.descriptor] if trace else []
            answer = self.request(request, [*streams.theirs, *inherited])
            if "failed" in answer:
                raise failures.spawn_failure(argv, credentials, answer["failed"])
            identity = ProcessId(answer["pid"], answer["start_ticks"])
            process = SupervisedProcess(self, identity, mark, streams)
            self._running = [*self._alive(), process]
            return process

    def _alive(self) -> list[SupervisedProcess]:
        return [process for process in self._running if process.returncode is None]

    def request(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """One question to the supervisor and its answer; RunFailed where it is gone."""
        with self._lock:
            if self._broken:
                self.explain_loss()
            try:
                with _signals_held():
                    channel.send(self._socket, message, descriptors)
                    answer = channel.receive(self._socket)
            except BaseException as error:
                # Half a conversation cannot be continued: end it, and with it all processes.
                self._broken = True
                self._socket.close()
                if isinstance(error, (OSError, EOFError)):
                    self.explain_loss()
                raise
        if "error" in answer:
            raise RunFailed(f"supervisor: {message['op']}", str(answer["error"]))
        return answer

    def explain_loss(self) -> NoReturn:
        """RunFailed: the supervisor is gone, and how it ended."""
        self._broken = True
        deadline = time.monotonic() + 1.0
        while (code := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        how = "no longer answers" if code is None else failures.ending(code)
        raise RunFailed(
            "supervise the run's processes",
            f"the supervisor process {self._process.pid} {how}; its processes ended with it",
            "run again with --resume; if the kernel's OOM killer did it, lower the memory use",
        )


class _CappedStarter:
    """``ProcessStarter`` of one memory cap and choice of processors."""

    def __init__(self, supervisor: Supervisor, confinement: Confinement) -> None:
        self._supervisor = supervisor
        self._confinement = confinement

    def spawn(self, argv: Sequence[str], **options: Any) -> SupervisedProcess:
        return self._supervisor.spawn(argv, confinement=self._confinement, **options)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C waits the milliseconds that a request takes, so the stream stays whole."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
