"""What Linux would do for modelled devices outside of the calling threads, as a program does it.

The kernel's threads and interrupts take processors from an engine, and are not of its processor
time. On a modelled tier, the I/O trace has the program kernel-work use that time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import RunFailed
from harness.iotrace.page import Page
from harness.supervise import programs
from harness.supervise.user_files import Credentials

#: As installed (harness.native_programs).
PROGRAM = "kernel-work"
#: Of what precedes everything else that runs on its processor; the program's other threads have 0.
_HIGHEST_PRIORITY = -20


@contextmanager
def kernel_work(
    program: Path, page: Page, user: Credentials | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program for calls of processes that have the page, as ``user``, who can write there.

    RunFailed where it ends before the block.
    """
    command = [str(program), str(page.descriptor)]
    process = programs.start(
        command, user=user, descriptors=(page.descriptor,), priority=_HIGHEST_PRIORITY
    )
    try:
        yield process
        if (status := process.poll()) is not None:
            context = f"{PROGRAM} ended with status {status} while the engine ran"
            raise RunFailed("model a device", context, "run again; end no process of a run")
    finally:
        programs.end(process, foreign=user is not None)
