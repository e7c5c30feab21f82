"""The checkpoint of a run without a result: its finished steps, and the attempts to measure it.

``steps.jsonl`` lies in the run's directory, a checksum and a JSON document a line, in this order::

    … {"attempt": {...}, ...}                a process begins to measure: when, which conditions
    … {"step": "q14", "document": ..., ...}  the result of a finished step
    … {"step": "q2",  "document": ..., ...}
    … {"attempt": {...}, ...}                it was interrupted; another process resumes the run
    ...

A line counts when it is whole, by its checksum: it is fsync'd before the next step begins, and
what follows the last whole line (torn by a kill or a full disk, or damaged later) is cut off
before anything is added. The process that measures
holds the file's lock, which the kernel releases when the process ends, however it ends: a file
that can be locked belongs to no living process. No other user can open the file, and so hold it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from harness import jsonfile, structs
from harness.errors import UsageError
from harness.store.result import Cached, Experiment
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from harness.structs import Struct
from harness.supervise import locks
from harness.warnings import RunWarning, warn

FILE = "steps.jsonl"
#: ``under_way`` holds the lock for a moment.
_LOOKS, _LOOK_S = 10, 0.01

#: That of a stored attempt, and of a run that stands alone.
_NONE = Experiment("", "")


class StoredAttempt(Struct, frozen=True):
    """An attempt as in ``steps.jsonl``."""

    run_id: str
    unix_ns: int
    conditions: Annotated[
        Mapping[str, Any],
        Meta(description="what must be the same for a run to be resumed"),
    ]
    uncontrolled: Annotated[
        tuple[RunWarning, ...], Meta(description="as in run.json, found when it began")
    ]


class AttemptLine(Struct, frozen=True):
    """A line of ``steps.jsonl``: a process begins to measure the run."""

    attempt: StoredAttempt


class StepLine(Struct, frozen=True):
    """A line of ``steps.jsonl``: a finished step of a run without a result."""

    step: str
    document: Annotated[Any, Meta(description="the step's result, as the workload needs it")]
    residency: Annotated[
        tuple[Cached, ...],
        Meta(description="as in run.json, of the cold starts since the previous step"),
    ]
    not_cold: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """A process that measures a run, or resumes it.

    ``conditions``: everything that must be the same for the run to be resumed, and for a complete
    one not to be repeated; None of a run that stands alone. ``finished``: the steps that earlier
    attempts finished. ``experiment``: as in run.json. ``restart``: it resumes nothing.
    ``failed``: the earlier attempt at a run that is tried again.
    """

    run_id: str = ""
    unix_ns: int = 0
    conditions: JsonObject | None = None
    warnings: Sequence[RunWarning] = ()
    finished: Sequence[str] = ()
    experiment: Experiment = _NONE
    restart: bool = False
    failed: StoredRun | None = None

    @property
    def line(self) -> AttemptLine:
        """As in ``steps.jsonl``, where ``finished`` follows from the lines before it."""
        conditions, warnings = self.conditions or {}, tuple(self.warnings)
        return AttemptLine(StoredAttempt(self.run_id, self.unix_ns, conditions, warnings))


class Checkpoint:
    """The checkpoint of one run, locked for as long as this is open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lines, self._end = _read(descriptor)
        #: Lines that could not be written yet.
        self._pending = b""

    @classmethod
    def create(cls, directory: Path) -> Checkpoint:
        """The empty checkpoint of a new run; OSError where it cannot be made."""
        checkpoint = cls.open(directory, create=True)
        if checkpoint is None:
            raise FileExistsError(f"{directory / FILE} belongs to another process")
        return checkpoint

    @classmethod
    def open(cls, directory: Path, create: bool = False) -> Checkpoint | None:
        """The checkpoint of an interrupted run; None where there is none, or it is locked."""
        path = directory / FILE
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            descriptor = os.open(path, flags, 0o600)
        except OSError:
            if create:
                raise
            return None
        try:
            _lock(descriptor)
            status = os.fstat(descriptor)
            if not (os.path.samestat(status, path.stat()) and stat.S_ISREG(status.st_mode)):
                raise FileNotFoundError(path)  # its owner finished while we waited
            return cls(path, descriptor)
        except OSError:
            os.close(descriptor)
            if create:  # the file system may have no locks
                raise
            return None

    @property
    def finished(self) -> list[str]:
        """Names of the finished steps, in their order."""
        return [line.step for line in self._steps]

    @property
    def attempts(self) -> list[Attempt]:
        """Processes that measured the run, in their order."""
        attempts: list[Attempt] = []
        finished: list[str] = []
        for line in self._lines:
            if isinstance(line, StepLine):
                finished.append(line.step)
            else:
                made = line.attempt
                about = (made.run_id, made.unix_ns, made.conditions, made.uncontrolled)
                attempts.append(Attempt(*about, finished=tuple(finished)))
        return attempts

    @property
    def residency(self) -> list[Cached]:
        """Residency at the cold starts of all finished steps."""
        return [entry for line in self._steps for entry in line.residency]

    @property
    def not_cold(self) -> list[str]:
        """Reasons why cold starts of finished steps were not cold."""
        return [reason for line in self._steps for reason in line.not_cold]

    def document(self, step: str) -> Any | None:
        """The result of a step, None where it is not finished."""
        documents = [line.document for line in self._steps if line.step == step]
        return documents[-1] if documents else None

    @property
    def _steps(self) -> list[StepLine]:
        return [line for line in self._lines if isinstance(line, StepLine)]

    def why_not_resumed(self, conditions: JsonObject | None) -> str:
        """Why its run cannot be resumed under these conditions (None: unknown); empty if it can."""
        if not self.finished or not self.attempts:
            return "no step of it is finished"
        if conditions is None:
            return "an external server may have changed since"
        changed = changed_conditions(conditions, self.attempts[0].conditions or {})
        return f"changed since: {', '.join(changed)}" if changed else ""

    def begin(self, attempt: Attempt) -> None:
        self._append(attempt.line)

    def finish(
        self,
        step: str,
        document: Any,
        residency: Sequence[Cached] = (),
        not_cold: Sequence[str] = (),
    ) -> None:
        """Add a finished step, and what was noted of cold starts since the previous one."""
        self._append(StepLine(step, document, tuple(residency), tuple(not_cold)))

    def _append(self, line: StepLine | AttemptLine) -> None:
        """Where the line cannot be written, it is kept in memory, and written with the next one."""
        data = jsonfile.log_line(line.to_json())
        self._lines.append(_parsed(data, f"step of {self.path.parent.name}"))
        self._pending += data
        try:
            _write(self._descriptor, self._pending, self._end)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            warn(
                RunWarning(
                    "steps-not-stored",
                    "finished steps of a run are in memory alone",
                    f"{self.path}: {error.strerror or error}",
                    "free space there: an interrupted run would not resume after them",
                )
            )
        else:
            self._end += len(self._pending)
            self._pending = b""

    def move(self, directory: Path) -> None:
        """Move it, with its lock, to the run that continues an earlier one."""
        self.path = self.path.rename(directory / FILE)

    def remove(self) -> None:
        """Remove it: the run has a result."""
        with suppress(OSError):
            self.path.unlink()
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def changed_conditions(now: JsonObject, then: JsonObject) -> list[str]:
    """Names of the conditions that are not the same; either may have been stored."""
    now, then = (jsonfile.parse(json.dumps(conditions)) for conditions in (now, then))
    return [name for name in now if now[name] != then.get(name)]


def _lock(descriptor: int) -> None:
    """Take the lock; BlockingIOError where a process holds it for longer than a test takes."""
    for _ in range(_LOOKS):
        if locks.try_lock(descriptor):
            return
        time.sleep(_LOOK_S)
    raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))


def under_way(directory: Path) -> bool:
    """Return whether a living process works on the run in ``directory``."""
    path = directory / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return locks.holder(path) is not None
    except OSError:
        return False
    try:
        return not locks.try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def is_of_another_host(directory: Path, host_id: object) -> bool:
    """Return whether the run in ``directory`` was begun on another host; False if not known.

    Hosts may share a results directory on a file system without locks between hosts. Therefore, a
    checkpoint is not opened before this is known: opening cuts off what is not whole.
    """
    try:
        lines = jsonfile.read_bytes(directory / FILE).splitlines(keepends=True)
    except (OSError, ValueError):
        return False
    line = _whole(lines[0]) if lines else None
    if host_id is None or not isinstance(line, AttemptLine):
        return False
    return bool(line.attempt.conditions.get("host", host_id) != host_id)


def steps_kept(directory: Path) -> int:
    """The number of finished steps of the run in ``directory``."""
    try:
        content = jsonfile.read_bytes(directory / FILE)
    except (OSError, ValueError):
        return 0
    lines = content.splitlines(keepends=True)
    return sum(line[9:].startswith(b'{"step"') and line.endswith(b"\n") for line in lines)


def _read(descriptor: int) -> tuple[list[StepLine | AttemptLine], int]:
    """The whole lines, and where they end; everything after them is cut off."""
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        data = stream.read()
    lines: list[StepLine | AttemptLine] = []
    end = 0
    for text in data.splitlines(keepends=True):
        line = _whole(text)
        if line is None:
            os.ftruncate(descriptor, end)
            break
        lines.append(line)
        end += len(text)
    return lines, end


def _whole(text: bytes) -> StepLine | AttemptLine | None:
    """The line as it was written; None for anything else."""
    try:
        line = _parsed(text, FILE)
    except (ValueError, UsageError):
        return None
    return line if text.endswith(b"\n") else None


def _parsed(text: bytes, source: str) -> StepLine | AttemptLine:
    document = jsonfile.parse_log_line(text)
    if isinstance(document, dict) and "attempt" in document:
        return structs.convert(document, AttemptLine, source)
    return structs.convert(document, StepLine, source)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)
    os.fsync(descriptor)
