"""The connection to a supervisor process: it ends everything that it started when this closes."""

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
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import RunFailed
from harness.supervise import channel, failures
from harness.supervise.programs import minimal_environment
from harness.supervise.silence import limit_s

#: The supervisor answers so soon after its own limits, or not at all.
_ANSWER_S = 60.0
#: Ctrl-C waits so long for a process to start, then ends without it.
_PATIENCE_S = 2.0
_LOOK_MS = 100


class Lifeline:
    """A supervisor process: requests to it, its answers, and how it ended.

    Safe to use from several threads. ``broken``: it was closed within a request.
    """

    def __init__(self, daemon: Path, journal: Path) -> None:
        self._lock = threading.Lock()
        self.broken = False
        self._socket, far_end = socket.socketpair()
        self._socket.settimeout(limit_s("exec") + _ANSWER_S)
        command = [sys.executable, "-X", "utf8", "-I", "-S", str(daemon), str(far_end.fileno())]
        with far_end:
            self.process = subprocess.Popen(
                [*command, str(journal), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=minimal_environment(Path("/")),
                pass_fds=[far_end.fileno()],
                start_new_session=True,
            )

    def receive(self) -> Any:
        """Return what the supervisor sends next."""
        return channel.receive(self._socket)

    def shut_down(self) -> None:
        """Let go of it, although another thread may still use it."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end, so that the other side sees its end."""
        self._socket.close()

    def request(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Send a request and return the answer; RunFailed where it is gone."""
        with self._lock:
            if self.broken:
                self.explain_loss()
            try:
                with _signals_held():
                    channel.send(self._socket, message, descriptors)
                    _until_answered(self._socket, interruptible=message["op"] == "spawn")
                    answer = channel.receive(self._socket)
            except BaseException as error:
                # Half a conversation cannot be continued: end it, and with it all processes.
                self.broken = True
                self._socket.close()
                if isinstance(error, (OSError, EOFError)):
                    self.explain_loss()
                raise
        if "error" in answer:
            raise RunFailed(f"supervisor: {message['op']}", str(answer["error"]))
        return answer

    def explain_loss(self) -> NoReturn:
        """Raise RunFailed: the supervisor is gone, and how it ended."""
        self.broken = True
        deadline = time.monotonic() + 1.0
        while (code := self.process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        how = "no longer answers" if code is None else failures.ending(code)
        raise RunFailed(
            "supervise the run's processes",
            f"the supervisor process {self.process.pid} {how}; its processes ended with it",
            "run again with --resume; if the kernel's OOM killer did it, lower the memory use",
        )


def _until_answered(connection: socket.socket, interruptible: bool) -> None:
    """Return when there is an answer; TimeoutError at the limit, or if a signal may interrupt it.

    The signal takes effect as soon as it is no longer held.
    """
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    began = time.monotonic()
    while not poller.poll(_LOOK_MS):
        waited_s = time.monotonic() - began
        interrupted = interruptible and signal.sigpending() & {signal.SIGINT, signal.SIGTERM}
        if waited_s >= (_PATIENCE_S if interrupted else connection.gettimeout() or 0):
            raise TimeoutError(f"no answer within {waited_s:.0f} s")


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C waits the milliseconds that a request takes, so the stream stays whole."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
