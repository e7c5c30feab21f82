"""Progress on stderr for anything over two seconds: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from harness.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

_LINE_EVERY_S = 5.0


class Task(Protocol):
    """One running piece of work."""

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        """Add to what is done; ``note`` replaces the text after the description."""


class Progress(Protocol):
    """Where work reports how far it is. Safe to call from several threads."""

    def task(self, description: str, total: float | None = None, unit: str = "") -> TaskContext:
        """A context manager that yields a Task.

        ``unit``: ``B`` for bytes, ``s`` for seconds; else what is counted (``rows``), if the
        description does not say it.
        """

    def say(self, text: str) -> None:
        """One line for a person, above the bars."""


class TaskContext(Protocol):
    """``with progress.task(…) as task``."""

    def __enter__(self) -> Task: ...
    def __exit__(self, *exc: object) -> None: ...


def _count(done: float, total: float | None, unit: str) -> str:
    """``3 of 22``, ``1.2 GiB of 1.9 GiB``, ``3.2 of 5 s`` or ``1,701 of 5,090 rows``.

    A total may be an estimate; more than all of it is never done.
    """
    reached = done if total is None else min(done, total)
    if unit == "B":
        return format_bytes(reached) + (f" of {format_bytes(total)}" if total is not None else "")
    text = f"{reached:,.1f}" if unit == "s" else f"{reached:,.0f}"
    of = f" of {total:,.0f}" if total is not None else ""
    return f"{text}{of}{f' {unit}' if unit else ''}"


class _RichTask:
    def __init__(
        self, bars: RichProgress, description: str, total: float | None, unit: str
    ) -> None:
        self._bars = bars
        self._description = description
        self._total = total
        self._unit = unit
        self._done = 0.0
        self._lock = threading.Lock()
        self._id = bars.add_task(description, total=total, count=_count(0, total, unit))

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        if note is not None:
            self._bars.update(self._id, description=f"{self._description}: {note}")
        with self._lock:
            self._done += amount
            done = self._done
        self._bars.update(self._id, completed=done, count=_count(done, self._total, self._unit))

    def __enter__(self) -> _RichTask:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bars.remove_task(self._id)


class BarProgress:
    """Bars for a terminal."""

    def __init__(self, console: Console) -> None:
        from rich import progress

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[count]}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> BarProgress:
        self._bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bars.stop()

    def task(self, description: str, total: float | None = None, unit: str = "") -> _RichTask:
        return _RichTask(self._bars, description, total, unit)

    def say(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)


class _LineTask:
    def __init__(
        self, parent: LineProgress, description: str, total: float | None, unit: str
    ) -> None:
        self._parent = parent
        self._description = description
        self._total = total
        self._unit = unit
        self._done = 0.0
        self._last = time.monotonic()

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_S:
            self._last = now
            count = _count(self._done, self._total, self._unit)
            self._parent.say(f"{self._description}: {count}{f' ({note})' if note else ''}")

    def __enter__(self) -> _LineTask:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class LineProgress:
    """A line every few seconds, for logs and pipes."""

    def task(self, description: str, total: float | None = None, unit: str = "") -> _LineTask:
        return _LineTask(self, description, total, unit)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class SilentProgress(LineProgress):
    """Nothing at all (tests, ``--quiet``)."""

    def say(self, text: str) -> None:
        return None


@contextmanager
def progress_on_stderr(quiet: bool = False) -> Iterator[Progress]:
    """Bars where stderr is a terminal, lines where it is not, nothing when quiet."""
    if quiet:
        yield SilentProgress()
    elif sys.stderr.isatty():
        from rich.console import Console

        with BarProgress(Console(stderr=True)) as bars:
            yield bars
    else:
        yield LineProgress()
