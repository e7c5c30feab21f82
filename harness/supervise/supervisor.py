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
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import RunFailed
from harness.supervise import channel, failures
from harness.supervise.journal import Journal, recover_journal
from harness.supervise.lifeline import Lifeline
from harness.supervise.process import ProcessId, process_identity
from harness.supervise.programs import minimal_environment
from harness.supervise.silence import limit_s
from harness.supervise.starting import MemoryPolicy, Process, refuse_static
from harness.supervise.user_files import Credentials
from harness.supervise.watch import Watch

if TYPE_CHECKING:  # the trace needs numpy, which takes its time to import
    from harness.iotrace.page import IoTrace

_DAEMON = Path(__file__).with_name("daemon.py")
#: The supervisor needs 2 s of grace and up to as much again for kills and unmounts;
#: removing large directories may take longer, so this only bounds a hang.
_END_S = 60.0


@dataclass(frozen=True)
class Confinement:
    """Way in which a process gets into the run's memory cap (harness.host.cgroup) and processors.

    ``cgroup_procs``: files it writes itself into before exec. ``argv_prefix`` and
    ``env``: the launcher that does it instead (systemd-run), where we may not.
    ``cpus``: the processors it may run on; empty for all of them. ``trace``: of its file I/O.
    ``engine_env``: added to the environment of the engine's processes, those that are traced.
    """

    cgroup_procs: tuple[Path, ...] = ()
    argv_prefix: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    cpus: tuple[int, ...] = ()
    trace: IoTrace | None = None
    engine_env: Mapping[str, str] = field(default_factory=dict)


class ProcessStarter:
    """Starts processes that cannot outlive the harness (see harness.supervise).

    ``confinement``: what ``capped`` means.
    """

    def __init__(self, supervisor: Supervisor, confinement: Confinement) -> None:
        self._supervisor, self._confinement = supervisor, confinement

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
        listens: Collection[int] = (),
    ) -> Process:
        """Start ``argv`` in its own session.

        ``env`` is added to a minimal environment (PATH, C.UTF-8, UTC, HOME = ``cwd``).
        ``log`` takes stdout and stderr (stderr only with ``pipes``, which connects
        stdin and stdout to the caller); ``log_owner``, in whose directory it lies, opens it for
        appending (default: ``credentials``); without it the output is dropped. With ``progress``
        (and ``pipes``) its descriptor 3 is a pipe to the caller too, as the native programs write
        their progress. ``capped`` puts it into the run's memory cgroup and on its processors, if
        there are such; ``traced``: its file I/O is traced, if the run has a trace.
        ``stop_signal`` is what the supervisor sends first when the harness has died
        (SIGKILL follows after 2 s): for a server, which then ends in order. What else runs has
        nothing to finish, and may leave shared memory if it dies of another signal.
        ``network``: OWN_NETWORK (the host's where we may not make one), or the path of another
        process's (``/proc/PID/ns/net``). ``listens``: TCP ports of the host's network that it may
        listen on; at another one, the run fails (harness.supervise.listeners). RunFailed says which
        step before exec failed.
        """
        confinement = self._confinement if capped else Confinement()
        home = cwd or Path("/")
        supervisor = self._supervisor
        mark = supervisor.next_mark()
        trace = confinement.trace if traced and confinement.trace and confinement.trace.on else None
        #: After the standard streams and the one for progress.
        preload = trace.environment(4 if progress else 3) if trace else {}
        if memory is not None and memory.library is not None:
            refuse_static(argv[0], memory)
            preload = {**memory.environment, **preload}
        added = dict(confinement.engine_env) if traced else {}
        if clash := sorted({*added} & ({*minimal_environment(home)} | {*(env or {})})):
            raise RunFailed(
                f"start {argv[0]}",
                f"the harness itself sets {', '.join(clash)} of its environment",
                f"leave --env {clash[0]} out",
            )
        libraries = [of["LD_PRELOAD"] for of in (preload, added) if "LD_PRELOAD" in of]
        if libraries:  # ours come first: nothing is between the trace and Linux
            preload["LD_PRELOAD"] = ":".join(libraries)
        request = {
            "op": "spawn",
            "argv": [*confinement.argv_prefix, *map(str, argv)],
            "cwd": str(home),
            "env": minimal_environment(home)
            | dict(confinement.env or {})
            | added
            | preload
            | dict(env or {}),
            "mark": mark,
            "credentials": [credentials.uid, credentials.gid, credentials.name]
            if credentials and os.geteuid() == 0
            else None,
            "memory": [memory.of_process, list(memory.nodes)] if memory else None,
            "cgroup_procs": [str(path) for path in confinement.cgroup_procs],
            "cpus": list(confinement.cpus),
            "stop_signal": int(stop_signal),
            "network": network,
            "exec_s": limit_s("exec"),
        }
        try:
            opened = channel.Streams(log, pipes, progress, log_owner or credentials)
        except OSError as error:
            context = f"its log cannot be written: {error.strerror}: {log}"
            raise RunFailed(f"start {argv[0]}", context) from error
        with opened as streams:
            inherited = [trace.page.descriptor] if trace else []
            answer = supervisor.lifeline.request(request, [*streams.theirs, *inherited])
            if "failed" in answer:
                raise failures.spawn_failure(argv, credentials, answer["failed"])
            identity = ProcessId(answer["pid"], answer["start_ticks"])
            process = Process(supervisor.lifeline, identity, mark, streams, listens)
            supervisor.add(process)
            return process


class Supervisor(ProcessStarter):
    """Owns the supervisor process and the journal; starts processes without a memory cap.

    Safe to call from several threads. One per harness process is enough.
    """

    def __init__(self, state_dir: Path | None = None) -> None:
        super().__init__(self, Confinement())
        self._state_dir = state_dir
        self._lock = threading.Lock()
        self._spawned = 0
        #: Those that may still run.
        self._running: list[Process] = []
        self.lifeline: Lifeline
        #: Of the supervisor and its processes.
        self.watch: Watch

    def __enter__(self) -> Supervisor:
        self.journal = Journal(self._state_dir)
        self._begin()
        return self

    def _begin(self) -> None:
        """Start the supervisor process, and look at it and at what it will start."""
        self.lifeline = Lifeline(_DAEMON, self.journal.path)
        identity = process_identity(self.pid)
        assert identity is not None  # not waited for yet
        self.watch = Watch(identity, self._alive, self.lifeline.shut_down)
        try:
            self.watch.start()
            self.lifeline.receive()  # {"ready": true}
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
        if self.lifeline.broken:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.lifeline.process.wait(_END_S)
        if self.lifeline.process.poll() != -signal.SIGKILL:
            return
        self.watch.stop()
        self.lifeline.close()
        self.journal.kill_processes()
        self._running = []
        self._begin()

    @property
    def pid(self) -> int:
        """The supervisor's own process, not to be counted to any engine."""
        return self.lifeline.process.pid

    def _end(self) -> list[str]:
        """Let the lifeline go, wait for the supervisor; do its work where it was killed."""
        self.lifeline.close()
        try:
            code = self.lifeline.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return [f"supervisor {self.pid} still cleans up after {_END_S:.0f} s"]
        finally:
            self.watch.stop()
            self.journal.close()
        result = recover_journal(self.journal.path)
        left = list(result.failures) if result else []
        if code not in (0, -signal.SIGKILL):
            left.append(f"the supervisor ended with status {code}")
        return left

    def hold(self, descriptor: int) -> None:
        """Keep the open file open until everything is cleaned up, however this process ends."""
        self.lifeline.request({"op": "hold"}, [descriptor])

    def next_mark(self) -> str:
        """Return what a process is known by; what it daemonised, too."""
        with self._lock:
            self._spawned += 1
            return f"{self.journal.owner}.{self._spawned}"

    def add(self, process: Process) -> None:
        """Watch a process."""
        self._running = [*self._alive(), process]

    def _alive(self) -> list[Process]:
        return [process for process in self._running if process.returncode is None]
