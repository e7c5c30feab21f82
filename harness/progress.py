"""Progress on stderr: a live view on a terminal; elsewhere lines, one for each run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO, cast

from harness import terminal
from harness.printable import PrintableStream, printable
from harness.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn
    from rich.progress import Task as Bar

_LINE_EVERY_S = 5.0
#: The live view is drawn once per second: more often, it would take processor time from what is
#: measured.
_DRAWN_PER_S = 1.0
_BAR_WIDTH = 12

#: What is shown after a description; where it costs something, a function that only a live view
#: calls.
Note = str | Callable[[], str]


@dataclass
class Task:
    """A running piece of work; the total may be an estimate. Safe to call from several threads.

    ``note``: what is shown after the description. ``show``: called after each step.
    """

    description: str
    total: float | None
    unit: str
    show: Callable[[Task], None]
    done: float = 0.0
    #: What is shown of the time until its end, where that does not follow from the total.
    left: Callable[[], str] | None = None
    note: Note = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def advance(self, amount: float = 1, note: Note | None = None) -> None:
        """Add to what is done."""
        with self._lock:
            self.done += amount
            self.note = self.note if note is None else note
        self.show(self)

    def enter(self, description: str, total: float | None) -> None:
        """Begin its next phase, of which nothing is done yet."""
        with self._lock:
            self.description, self.total, self.done, self.note = description, total, 0.0, ""
        self.show(self)

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

    #: Whether a run is under way, of which only its end is reported.
    _in_run = False

    def task(
        self, description: str, total: float | None = None, unit: str = ""
    ) -> AbstractContextManager[Task]:
        """Return a context manager that yields a Task.

        ``unit``: ``B`` for bytes, ``s`` for seconds; else what is counted (``rows``), if the
        description does not say it.
        """
        last = time.monotonic()

        def show(task: Task) -> None:
            nonlocal last
            if not self._in_run and (now := time.monotonic()) - last >= _LINE_EVERY_S:
                last = now
                note = task.note if isinstance(task.note, str) else task.note()
                self.say(f"{task.description}: {task}{f' ({note})' if note else ''}")

        return nullcontext(Task(description, total, unit, show))

    def command(
        self, description: str, total: float, unit: str, left: Callable[[], str]
    ) -> AbstractContextManager[Task]:
        """Return a context manager that yields the Task of a whole command, of a live view alone.

        ``left``: what is shown of the time until its end.
        """
        return nullcontext(Task(description, total, unit, lambda _: None, left=left))

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        """A run is under way: its tasks and notes are shown by a live view alone."""
        self._in_run = True
        try:
            yield
        finally:
            self._in_run = False

    def note(self, text: str) -> None:
        """Show what the run under way does now."""
        if not self._in_run:
            self.say(text)

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """While this holds, nothing can be done, and ``text`` says why."""
        self.say(text)
        return nullcontext()

    def say(self, text: str) -> None:
        """Print one line for a person, above the bars."""
        terminal.say(text, file=sys.stderr)
        sys.stderr.flush()


class SilentProgress(Progress):
    """Reports nothing: for tests and ``--quiet``."""

    def say(self, text: str) -> None:
        return None


class BarProgress(Progress):
    """Reports how far work is by a live view on a terminal."""

    def __init__(self, console: Console) -> None:
        from rich import progress

        self._bars = progress.Progress(
            *_columns(),
            console=console,
            transient=True,
            expand=True,
            refresh_per_second=_DRAWN_PER_S,
        )
        self._run: Task | None = None

    def __enter__(self) -> BarProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
        def show(task: Task) -> None:
            self._bars.update(bar, total=task.total, completed=task.done)

        if self._run is not None:
            self._run.note = ""  # this is what the run does now
        task = Task(description, total, unit, show)
        bar = self._bars.add_task("", total=total, task=task)
        try:
            yield task
        finally:
            self._bars.remove_task(bar)

    @contextmanager
    def command(
        self, description: str, total: float, unit: str, left: Callable[[], str]
    ) -> Iterator[Task]:
        with self.task(description, total, unit) as task:
            task.left = left
            yield task

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        with self.task(title) as self._run:
            yield
        self._run = None

    def note(self, text: str) -> None:
        if self._run is None:
            self.say(text)
        else:
            self._run.advance(0, text)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        with self.task(text):
            yield

    def say(self, text: str) -> None:
        self._bars.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def _columns() -> list[ProgressColumn]:
    """Return a bar and a text; they read the bar's Task when the view is drawn."""
    from rich.progress import ProgressColumn
    from rich.progress_bar import ProgressBar
    from rich.table import Column
    from rich.text import Text

    class Work(ProgressColumn):
        def render(self, bar: Bar) -> ProgressBar:
            task: Task = bar.fields["task"]
            pulse, now = task.total is None, bar.get_time()
            return ProgressBar(task.total, task.done, _BAR_WIDTH, pulse, animation_time=now)

    class Words(ProgressColumn):
        def render(self, bar: Bar) -> Text:
            return Text(printable(_words(bar)))

    return [Work(), Words(Column(ratio=1, overflow="fold"))]


def _words(bar: Bar) -> str:
    """``measurement 2.0 of 6 s: 1,234 transactions/s, p99 3.21 ms``."""
    task: Task = bar.fields["task"]
    count = f" {task}" if task.total or task.done else ""
    note = task.note if isinstance(task.note, str) else task.note()
    more = ", ".join(text for text in (note, _left(bar)) if text)
    return f"{task.description}{count}{f': {more}' if more else ''}"


def _left(bar: Bar) -> str:
    """``0:06:40 left``; of work without a known end ``0:00:12``, the time that it takes so far."""
    task: Task = bar.fields["task"]
    if task.left is not None:
        return task.left()
    if task.total is None:
        return str(timedelta(seconds=int(bar.elapsed or 0)))
    if task.unit == "s" or bar.time_remaining is None:
        return ""
    return f"{timedelta(seconds=int(bar.time_remaining))} left"


def _with_codes(stream: TextIO) -> TextIO:
    """Return a stream that writes the codes of the live view, whose words are printable."""
    if not isinstance(stream, PrintableStream):
        return stream

    codes = stream.write_codes

    class Codes:
        write = staticmethod(codes)

        def __getattr__(self, name: str) -> Any:
            return getattr(stream, name)

    return cast(TextIO, Codes())


@contextmanager
def progress_on_stderr(quiet: bool = False) -> Iterator[Progress]:
    """A live view where stderr is a terminal, lines where it is not, nothing when quiet."""
    if quiet:
        yield SilentProgress()
    elif sys.stderr.isatty():
        from rich.console import Console

        with BarProgress(Console(file=_with_codes(sys.stderr))) as bars:
            yield bars
    else:
        yield Progress()
