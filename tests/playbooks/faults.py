"""Kills and failing writes at every place where a run changes the host.

A place is the moment before a command or a change of a file: that of the next one is after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated import Cut, SimulatedHost

_OF_OS = ("replace", "chown")
_OF_PATH = ("mkdir", "rmdir", "unlink")


class Faults:
    """``kill_at``: number of a place; ``fail_at``: that of a write, which fails by ``errno``.

    Files are not really synced, which takes long on a busy disk.
    """

    def __init__(self, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kill_at: int | None = None
        self.fail_at: int | None = None
        self.errno = 0
        self.places = self.writes = 0
        self._root = str(host.root)
        for name in _OF_OS:
            monkeypatch.setattr(os, name, self._around(getattr(os, name)))
        for name in _OF_PATH:
            monkeypatch.setattr(Path, name, self._around(getattr(Path, name)))
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(host, "run", self._around_command(host.run))

    def _place(self) -> None:
        self.places += 1
        if self.places == self.kill_at:
            raise Cut

    def _around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: str | Path, *more: Any, **options: Any) -> Any:
            words = str(path)
            if not words.startswith(self._root) or "/sys/" in words or "/proc/" in words:
                return change(path, *more, **options)  # the simulation's own
            idle = Path(path).exists() == (change.__name__ == "mkdir")
            if not idle or change.__name__ in _OF_OS:
                self._place()
            return change(path, *more, **options)

        return changed

    def _around_command(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def ran(argv: list[str]) -> Any:
            if argv[0] != "blkid" and argv[1] != "list":
                self._place()
            return run(argv)

        return ran

    def _fsync(self, fd: int) -> None:
        self.writes += 1
        if self.writes == self.fail_at:
            raise OSError(self.errno, os.strerror(self.errno))
