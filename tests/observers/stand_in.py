"""Functions of the stand-ins for observers' programs; installed next to each of them."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

HERE = Path(sys.argv[0]).parent


def fail(text: str, status: int = 1) -> NoReturn:
    """End like a program that refuses its command line, or lacks a right."""
    print(text, file=sys.stderr, flush=True)
    sys.exit(status)


def may_observe() -> bool:
    """Return whether the program has its rights, and no other user may enter its folder."""
    private = not Path(tempfile.gettempdir()).stat().st_mode & 0o077
    return private and not (HERE / "no-rights").exists()


def operations() -> int:
    """Return the number of the toy workload's operations so far: what the program counts."""
    counter = HERE / "operations"
    return counter.stat().st_size if counter.exists() else 0


def until_interrupted() -> None:
    """Wait for SIGINT, as for Ctrl-C."""
    signal.sigwait([signal.SIGINT])


def hold_interrupts() -> None:
    """SIGINT ends the wait, not the program; before it reports that it collects."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
