"""A client program that is not ours: its private folder, and the lines that it prints."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from harness.engine import Credentials, Process
from harness.errors import RunFailed
from harness.host.process_counters import read_counters
from harness.supervise.failures import log_tail
from harness.supervise.process import process_identity
from harness.supervise.user_files import acting_as, make_directory, remove_tree
from harness.workload import Clients

STDERR = "stderr.log"
_REPORTED_LINES = 15
_TICK_S = 0.5


@contextmanager
def private_folder(clients: Clients, prefix: str) -> Iterator[Path]:
    """Make a folder of the clients' user in their scratch directory; remove it at the end."""
    folder = clients.scratch / f"{prefix}{secrets.token_hex(8)}"
    make_directory(folder, clients.credentials)
    try:
        yield folder
    finally:
        with acting_as(clients.credentials), suppress(OSError):  # the scratch directory goes too
            remove_tree(folder)


class ClientProgram:
    """A running client program; threads read its ``pipes``, by name.

    ``what``: the problem of its failures. ``secret``: replaced in lines and messages.
    """

    def __init__(
        self,
        process: Process,
        folder: Path,
        user: Credentials | None,
        what: str,
        pipes: Mapping[str, Any],
        secret: str = "",
    ) -> None:
        self.process = process
        self.folder = folder
        self.user = user
        #: Whether all of its pipes have ended.
        self.over = False
        #: The last lines, for messages.
        self.last: deque[str] = deque(maxlen=_REPORTED_LINES)
        self._what = what
        self._secret = secret
        self._line_s = time.monotonic()
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._open = set(pipes)
        for name, pipe in pipes.items():
            threading.Thread(target=self._read, args=(name, pipe), daemon=True).start()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Yield the program; end it at the end."""
        try:
            yield self
        finally:
            self.process.kill()
            self.process.wait()

    @property
    def silent_s(self) -> float:
        """Seconds since its last line."""
        return time.monotonic() - self._line_s

    def next_line(self) -> tuple[str, str] | None:
        """Return the name of the pipe and its next line; None if no line comes soon."""
        try:
            name, line = self._lines.get(timeout=_TICK_S)
        except queue.Empty:
            return None
        self._line_s = time.monotonic()
        if line is None:
            self._open.discard(name)
            self.over = not self._open
            return None
        return name, line

    def cpu_ns(self) -> int | None:
        """Return the program's processor time so far; None if it cannot be read."""
        identity = process_identity(self.process.pid)
        cpu = read_counters([identity]).get("cpu_ns") if identity else None
        return None if cpu is None else int(cpu)

    def failed(self, found: str) -> RunFailed:
        """Return the error with the program's last lines and its stderr."""
        lines = "\n".join(line for line in self.last if line.strip()) or "(it printed nothing)"
        errors = log_tail(self.folder / STDERR, self.user)
        stderr = "" if errors.endswith("is empty)") else f"\nIts stderr:\n{errors}"
        return RunFailed(self._what, self._clean(f"{found}\nIts last lines:\n{lines}{stderr}"))

    def _clean(self, text: str) -> str:
        return text.replace(self._secret, "…") if self._secret else text

    def _read(self, name: str, pipe: Any) -> None:
        for line in pipe:
            text = line.decode(errors="replace").rstrip("\r\n")
            self._lines.put((name, self._clean(text)))
        self._lines.put((name, None))
