"""Send a program its input and read its output, to its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from harness.supervise import silence
from harness.supervise.starting import Process


def converse(
    process: Process, sent: str, on_progress: Callable[[bytes], bool] | None = None
) -> tuple[int, bytes]:
    """Its exit status and what it printed; it is dead when this returns, however it returns.

    ``on_progress``: receives each line of its progress descriptor; where it returns True, the
    program waits for an empty line as the answer. All of its outputs are read at once: a full pipe
    would stop it.
    """
    printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: printed.put(process.stdout.read()), daemon=True)
    reader.start()
    try:
        with silence.phase("measure"):
            _send(process, sent.encode())
            if on_progress is None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            else:
                for line in process.progress:
                    if on_progress(line):
                        _send(process, b"\n")
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


def _send(process: Process, data: bytes) -> None:
    with suppress(BrokenPipeError):  # it has ended already: its exit status says why
        process.stdin.write(data)
        process.stdin.flush()
