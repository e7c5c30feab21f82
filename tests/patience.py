"""Time limit of tests that wait for what must come, and what they wait for most."""

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

#: A bound on a hang, far above what a busy machine needs; never a measurement.
PATIENCE_S = 300

#: Limits at which what never ends is ended. Where a busy machine has not brought it as far as the
#: test needs until then, the next one is tried.
LIMITS_S = (0.5, 5, 50)


def eventually(condition: Callable[[], object], every_s: float = 0.01) -> bool:
    """Return whether it comes true; ``every_s``: longer where a program is started to look."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(every_s)
    return False


def kill(pid: int) -> None:
    """Kill a process, also of another parent, and return once it holds no file, lock or memory.

    A child of this process is left to be reaped.
    """
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        assert select.select([process], [], [], PATIENCE_S)[0], f"process {pid} does not die"
    finally:
        os.close(process)


def stop(pid: int) -> None:
    """Stop a process by SIGSTOP; return when each of its threads has stopped, which takes a turn
    on a processor.
    """
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")

    def states() -> set[str]:
        return {path.read_text().rpartition(")")[2].split()[0] for path in threads.glob("*/stat")}

    assert eventually(lambda: states() == {"T"}), f"process {pid} does not stop"
