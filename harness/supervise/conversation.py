"""Send a program its input and read its output, to its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from harness.engine import Process


def converse(
    process: Process, sent: str, on_progress: Callable[[bytes], None] | None = None
) -> tuple[int, bytes]:
    """Its exit status and what it printed; it is dead when this returns, however it returns.

    ``on_progress``: receives each line of its progress descriptor. All of its outputs are read at
    once: a full pipe would stop it.
    """
    printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: printed.put(process.stdout.read()), daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError):  # it has ended already: its exit status says why
            process.stdin.write(sent.encode())
            process.stdin.flush()
            process.stdin.close()
        if on_progress is not None:
            for line in process.progress:
                on_progress(line)
        code = process.wait()
        reader.join()
        return code, printed.get()
    finally:
        process.kill()
        process.wait()
        reader.join()
        for stream in (process.stdin, process.stdout, process.progress):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
