"""The end of a program that a monitor runs next to the engine."""

from __future__ import annotations

import signal
import subprocess
from typing import Any


def interrupt(process: subprocess.Popen[Any], patience_s: float) -> int | None:
    """SIGINT, at which it prints its last figures; the status if it had ended before."""
    ended = process.poll()
    process.send_signal(signal.SIGINT)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return ended
