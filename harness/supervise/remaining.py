"""Kill what a foreign program has left, and end as it did: ``remaining.py CODE``.

``launch`` (launch/launch.c), the process between the harness and such a program, becomes this one
where processes are left. CODE: exit status, or the negative number of the signal. The signals
SIGTERM and SIGCHLD are blocked.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

if __name__ == "__main__":  # -I leaves our package off the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.supervise.process import descendants, kill_all

#: The harness waits twice as long for our end.
_DEATH_S = 5.0
_BY_SIGNAL = 128


def main() -> None:
    """Kill all our descendants; then end."""
    code = int(sys.argv[1])
    try:
        kill_all(lambda: descendants(os.getpid()), _DEATH_S, _reap)
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            with contextlib.suppress(OSError):  # SIGKILL
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
    finally:
        os._exit(code if code >= 0 else _BY_SIGNAL - code)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
