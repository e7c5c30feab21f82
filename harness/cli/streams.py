"""Standard streams that do not end a command: a reader may leave, a disk may be full.

Standard library only, and little of it: also used while the rest is still being imported.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from harness.printable import PrintableStream

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class LossyFile(io.FileIO):
    """A descriptor whose write errors are noted instead of raised; the text is lost."""

    #: The first write error.
    lost: OSError | None = None

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.lost = self.lost or error
            return memoryview(data).nbytes


def keep_streams_writable() -> None:
    """Replace stdout and stderr by streams that lose what cannot be written.

    What servers, logs and imported runs say is printed without control characters.

    A descriptor that the caller has closed becomes /dev/null: else the next file opened would
    take its number, and with it the output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = _lossy(sys.stdout, 1)
    sys.stderr = _lossy(sys.stderr, 2)


def output_error() -> OSError | None:
    """The first error of writing to stdout, after a flush."""
    sys.stdout.flush()
    raw = getattr(sys.stdout.buffer, "raw", None)
    return raw.lost if isinstance(raw, LossyFile) else None


def _lossy(stream: TextIO | None, number: int) -> TextIO:
    if stream is not None:
        stream.flush()
    file = LossyFile(number, "w", closefd=False)
    interactive = number == 2 or file.isatty()
    return PrintableStream(
        io.BufferedWriter(file),
        encoding="utf-8",
        line_buffering=interactive,
    )
