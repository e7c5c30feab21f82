"""The error log of a MySQL or MariaDB that has crashed."""

from __future__ import annotations

from pathlib import Path

from harness.engine import Credentials
from harness.supervise.failures import log_tail

#: How far back errors before a stack trace are looked for, and how many are shown.
_TRACED_LINES, _TRACED_BYTES, _SHOWN_ERRORS = 2000, 1 << 18, 6


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
