"""Files of /proc that are read many times a second while an engine is measured."""

from __future__ import annotations

import os
from collections.abc import Container

from harness.supervise.process import PROC_BYTES, read_proc

#: More are opened for each reading: the harness needs descriptors for other things.
_MOST = 128


class KeptFiles:
    """Keeps files open from one reading to the next: opening costs three times as much as reading.

    A file of a process stays that of this process: a reused pid has another one.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def read(self, path: str) -> str:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _MOST:
                return read_proc(path)
            file = self._open[path] = os.open(path, os.O_RDONLY)
        try:
            return os.pread(file, PROC_BYTES, 0).decode(errors="replace")
        except OSError:
            os.close(self._open.pop(path))
            raise

    def keep(self, paths: Container[str]) -> None:
        for path in [path for path in self._open if path not in paths]:
            os.close(self._open.pop(path))

    def close(self) -> None:
        """Close all; a later reading opens its file again."""
        self.keep(())
