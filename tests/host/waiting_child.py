"""A Python process that waits for lines, and what it has printed by then."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from narrowed import present

from harness.supervise.process import ProcessId, process_identity


@contextmanager
def child(program: str, *arguments: object) -> Iterator[tuple[Any, ProcessId]]:
    """The process, which ends at its last line."""
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        yield process, present(process_identity(process.pid))
        process.communicate("\n")


def resume(process: Any) -> None:
    process.stdin.write("\n")
    process.stdin.flush()
