"""Progress on stderr for anything over two seconds: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

_LINE_EVERY_S = 5.0


@dataclass
class Task:
    """A running piece of work; the total may be an estimate. Safe to call from several threads.

    ``show``: called after each step with its note, which replaces the text after the description.
    """

    description: str
    total: float | None
    unit: str
    show: Callable[[Task, str | None], None]
    done: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        """Add to what is done."""
        with self._lock:
            self.done += amount
        self.show(self, note)

    def __str__(self) -> str:
        """``3 of 22``, ``1.2 GiB of 1.9 GiB``, ``3.2 of 5 s`` or ``1,701 of 5,090 rows``.

        More than all of the total is never done.
        """
        reached = self.done if self.total is None else min(self.done, self.total)
        if self.unit == "B":
            of = f" of {format_bytes(self.total)}" if self.total is not None else ""
            return format_bytes(reached) + of
        text = f"{reached:,.1f}" if self.unit == "s" else f"{reached:,.0f}"
        of = f" of {self.total:,.0f}" if self.total is not None else ""
        return f"{text}{of} {self.unit}".rstrip()


class Progress:
    """Reports how far work is: here by a line every few seconds, for logs and pipes.

    Safe to call from several threads.
    """

    def task(
        self, description: str, total: float | None = None, unit: str = ""
    ) -> AbstractContextManager[Task]:
        """Return a context manager that yields a Task.

        ``unit``: ``B`` for bytes, ``s`` for seconds; else what is counted (``rows``), if the
        description does not say it.
        """
        last = time.monotonic()

        def show(task: Task, note: str | None) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= _LINE_EVERY_S:
                last = now
                self.say(f"{description}: {task}{f' ({note})' if note else ''}")

        return nullcontext(Task(description, total, unit, show))

    def say(self, text: str) -> None:
        """Print one line for a person, above the bars."""
        print(text, file=sys.stderr, flush=True)


class SilentProgress(Progress):
    """Reports nothing: for tests and ``--quiet``."""

    def say(self, text: str) -> None:
        return None


class BarProgress(Progress):
    """Reports how far work is by bars on a terminal."""

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

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
        def show(task: Task, note: str | None) -> None:
            if note is not None:
                self._bars.update(bar, description=f"{description}: {note}")
            self._bars.update(bar, completed=task.done, count=str(task))

        task = Task(description, total, unit, show)
        bar = self._bars.add_task(description, total=total, count=str(task))
        try:
            yield task
        finally:
            self._bars.remove_task(bar)

    def say(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)


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
        yield Progress()
