"""The finished steps of a run that has no result yet: what survives a cut, and who holds it.

``steps.jsonl`` lies in the run's directory, one JSON document a line, in this order::

    {"sitting": {...}}                     a process begins to measure: when, under what
    {"step": "q14", "document": ..., ...}  what a step gave, for good
    {"step": "q2",  "document": ..., ...}
    {"sitting": {...}}                     it was cut off; another process goes on
    ...

A line counts when it is whole: it is fsync'd before the next step begins, and a last line
that a kill or a full disk has torn is cut away before anything is added. Whoever writes
holds the file's lock, which the kernel lets go of when its process ends, however it ends:
a file that can be locked belongs to nobody alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import RunFailed
from harness.store import schemas

FILE = "steps.jsonl"
#: ``under_way`` holds the lock for a moment, which is no reason to give up.
_LOOKS, _LOOK_S = 10, 0.01


class Steps:
    """The steps of one run, locked for as long as this is open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lines, self._end = _read(descriptor)

    @classmethod
    def create(cls, directory: Path) -> Steps:
        """The empty steps of a new run; OSError where they cannot be."""
        steps = cls.open(directory, create=True)
        if steps is None:
            raise FileExistsError(f"{directory / FILE} is another's")
        return steps

    @classmethod
    def open(cls, directory: Path, create: bool = False) -> Steps | None:
        """The steps of a run that nobody holds; None where somebody does, or there are none."""
        path = directory / FILE
        try:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            descriptor = os.open(path, flags, 0o644)
        except OSError:
            if create:
                raise
            return None
        try:
            _lock(descriptor)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise FileNotFoundError(path)  # its owner finished while we waited
            return cls(path, descriptor)
        except (OSError, ValueError):
            os.close(descriptor)
            return None

    @property
    def names(self) -> list[str]:
        """The steps that are finished, in their order."""
        return [line["step"] for line in self._lines if "step" in line]

    @property
    def sittings(self) -> list[dict[str, Any]]:
        """When and under what each process began to measure, and what was ``kept`` then."""
        found: list[dict[str, Any]] = []
        kept: list[str] = []
        for line in self._lines:
            if "step" in line:
                kept.append(line["step"])
            else:
                found.append({**line["sitting"], "kept": list(kept)})
        return found

    def collected(self, name: str) -> list[Any]:
        """The entries of all lines' lists of that name (``residency``, ``not_cold``)."""
        return [entry for line in self._lines for entry in line.get(name, ())]

    def document(self, step: str) -> Any | None:
        """What a finished step gave, None where it is not finished."""
        found = [line for line in self._lines if line.get("step") == step]
        return found[-1]["document"] if found else None

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line for good; RunFailed, and the file as before, where that cannot be."""
        schemas.validate(line, "run-step", source=f"step of {self.path.parent.name}")
        text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
        data = text.encode()
        try:
            _write(self._descriptor, data, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise RunFailed(
                f"write {FILE} into {self.path.parent}",
                error.strerror or str(error),
                "make room there; finished steps are kept, and the same command goes on",
            ) from error
        self._end += len(data)
        self._lines.append(json.loads(text))

    def move(self, directory: Path) -> None:
        """From the run that had them to the one that goes on; the lock goes with them."""
        self.path = self.path.rename(directory / FILE)

    def remove(self) -> None:
        """They are in the result now."""
        with suppress(OSError):
            self.path.unlink()
        self.close()

    def close(self) -> None:
        """Let go of the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int) -> None:
    """Take the lock; BlockingIOError where somebody keeps it for longer than a look takes."""
    for _ in range(_LOOKS):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOOK_S)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def under_way(directory: Path) -> bool:
    """Whether a living process works on the run in ``directory``."""
    try:
        descriptor = os.open(directory / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def steps_kept(directory: Path) -> int:
    """How many finished steps lie in ``directory``."""
    try:
        text = (directory / FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return 0
    return sum(line.startswith('{"step"') and line.endswith("\n") for line in text.splitlines(True))


def _read(descriptor: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines, and where they end; what is torn behind them is cut away.

    ValueError for a line that is whole and no step: it is not ours.
    """
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        data = stream.read()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.ftruncate(descriptor, end)
    lines = [json.loads(line) for line in data[:end].splitlines()]
    if not all(
        isinstance(line, dict) and ("step" in line) != ("sitting" in line) for line in lines
    ):
        raise ValueError("not the steps of a run")
    return lines, end


def _write(descriptor: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)
    os.fsync(descriptor)
