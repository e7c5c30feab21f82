"""Progress on stderr for anything over two seconds: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from harness.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_LINE_EVERY_S = 5.0


class Task(Protocol):
    """One running piece of work."""

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        """Add to what is done; ``note`` replaces the text after the description."""


TaskContext: TypeAlias = AbstractContextManager[Task]


class Progress(Protocol):
    """Where work reports how far it is. Safe to call from several threads."""

    def task(self, description: str, total: float | None = None, unit: str = "") -> TaskContext:
        """A context manager that yields a Task.

        ``unit``: ``B`` for bytes, ``s`` for seconds; else what is counted (``rows``), if the
        description does not say it.
        """

    def say(self, text: str) -> None:
        """One line for a person, above the bars."""


@dataclass
class _Amount:
    """What is done of a total, which may be an estimate. Safe to call from several threads."""

    total: float | None
    unit: str
    done: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, amount: float) -> None:
        with self._lock:
            self.done += amount

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


@dataclass
class _BarTask:
    bars: RichProgress
    identity: TaskID
    description: str
    amount: _Amount

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        if note is not None:
            self.bars.update(self.identity, description=f"{self.description}: {note}")
        self.amount.add(amount)
        self.bars.update(self.identity, completed=self.amount.done, count=str(self.amount))


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

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
        amount = _Amount(total, unit)
        identity = self._bars.add_task(description, total=total, count=str(amount))
        try:
            yield _BarTask(self._bars, identity, description, amount)
        finally:
            self._bars.remove_task(identity)

    def say(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)


@dataclass
class _LineTask:
    say: Callable[[str], None]
    description: str
    amount: _Amount
    last: float = field(default_factory=time.monotonic)

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        self.amount.add(amount)
        now = time.monotonic()
        if now - self.last >= _LINE_EVERY_S:
            self.last = now
            self.say(f"{self.description}: {self.amount}{f' ({note})' if note else ''}")


class LineProgress:
    """A line every few seconds, for logs and pipes."""

    def task(self, description: str, total: float | None = None, unit: str = "") -> TaskContext:
        return nullcontext(_LineTask(self.say, description, _Amount(total, unit)))

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
