"""The server process of a managed MySQL or MariaDB."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from engines._innodb.cluster import Cluster
from engines._innodb.configuration import SOCKET
from engines._server import ServerProcess
from harness.engine import Credentials
from harness.supervise.failures import log_tail
from harness.supervise.user_files import acting_as

_GREETING_S = 1.0
#: MySQL keeps this number of redo files, and creates missing ones after it accepts connections
#: (manual, "Redo Log"): these writes would be measured with the first query.
_REDO_FILES = 32
#: Without a further file for as long, it makes no more.
_REDO_PAUSE_S = 1.0
_POLL_S = 0.01
#: First byte of the server's greeting after packet length and number: protocol version 10.
_PROTOCOL = 10
#: How far back errors before a stack trace are looked for, and how many are shown.
_TRACED_LINES, _TRACED_BYTES, _SHOWN_ERRORS = 2000, 1 << 18, 6


class Server(ServerProcess[Cluster]):
    """One server on one cluster."""

    @property
    def socket(self) -> Path:
        return self._context.scratch / SOCKET

    def start(self, configuration: Path, verify: Callable[[int], None]) -> None:
        """Start and return when the server greets; otherwise, RunFailed with its last lines.

        ``verify`` is then called with the server's pid; an exception ends the server.
        """
        if self.running:
            return
        self._cluster.clean = False
        process = self._launch(
            [*self._cluster.installation.command, f"--defaults-file={configuration}"],
            ready=lambda _: self._greets(),
            # Only files outlive the server's process, and the supervisor removes them.
            orphaned=signal.SIGKILL,
        )
        self._await_redo_files()
        try:
            verify(process.pid)
        except BaseException:
            self.kill()
            raise

    def _await_redo_files(self) -> None:
        """Return when MySQL makes no more of them; at once for a server that makes none."""
        found, since = -1, time.monotonic()
        while time.monotonic() < since + _REDO_PAUSE_S:
            with acting_as(self._user):
                files = sum(1 for _ in self._cluster.redo.glob("#innodb_redo/#ib_redo*"))
            if files == 0 or files >= _REDO_FILES:
                return
            if files > found:
                found, since = files, time.monotonic()
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Clean shutdown (SIGTERM), every page on its device; RunFailed if it was not clean."""
        status = self._end(signal.SIGTERM)
        if status is None:
            return
        if status != 0 or "hutdown complete" not in log_tail(self.log, self._user):
            raise self._failed("stop", f"exit status {status}")
        self._cluster.clean = True

    def _log_end(self) -> str:
        return before_trace(self.log, self._user) or super()._log_end()

    def _greets(self) -> bool:
        """Whether it answers a connection: the socket exists before it can be used."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_GREETING_S)
            try:
                with acting_as(self._user):
                    client.connect(str(self.socket))
                return client.recv(5)[4:] == bytes([_PROTOCOL])
            except OSError:
                return False


def before_trace(log: Path, user: Credentials | None) -> str | None:
    """The errors before the last stack trace of a log; None if it has no stack trace.

    The last lines after a trace are addresses and advice; the cause is logged before it.
    """
    lines = log_tail(log, user, lines=_TRACED_LINES, max_bytes=_TRACED_BYTES).splitlines()
    signals = [number for number, line in enumerate(lines) if " got signal " in line]
    if not signals:
        return None
    before, signal_line = lines[: signals[-1]], lines[signals[-1]]
    errors = [line for line in before if "[ERROR]" in line or "ssertion failure" in line]
    shown = [*(errors or before)[-_SHOWN_ERRORS:], signal_line]
    return "its log before the stack trace:\n" + "\n".join(shown)
