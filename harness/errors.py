"""Errors, sorted by when it can be known.

Every message has three parts: the problem, its context (value found, value expected), the fix.
The command line turns the class into the exit code: what can be known before
anything is touched is 2, what fails under way is 1, Ctrl-C is 130.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar


class HarnessError(Exception):
    """A failure that is explained to the user, without a traceback.

    ``problem``: what cannot be done, or is wrong.
    ``context``: the value found, and the one expected.
    ``hint``: the option or command that fixes it (may be empty).
    ``traceback``: of an exception that no code foresaw (:func:`as_failure`), else empty.
    """

    exit_code: ClassVar[int] = 1
    traceback = ""

    def __init__(self, problem: str, context: str, hint: str = "") -> None:
        self.problem = problem
        self.context = context
        self.hint = hint
        super().__init__(": ".join(part for part in (problem, context) if part))

    def to_json(self) -> dict[str, str]:
        """The error as in run.json and in ``--json`` output."""
        return {
            "type": type(self).__name__,
            "problem": self.problem,
            "context": self.context,
            "hint": self.hint,
        }

    def amended(self, context: str, hint: str) -> RunFailed:
        """The same failure with more in its context, or another hint."""
        failure = RunFailed(self.problem, context, hint)
        failure.traceback = self.traceback
        return failure


class UsageError(HarnessError):
    """Known before anything is started or written: exit code 2."""

    exit_code = 2


class HostLacksError(UsageError):
    """Needs a tier, processors or memory that this host does not have."""

    needs: ClassVar[str] = "hardware"


class NoServerError(HostLacksError):
    """Needs a server of the user's, and none is named."""

    needs = "a server"


class RunFailed(HarnessError):
    """Failed under way (server died, disk full, wrong answer …): exit code 1."""

    exit_code = 1


def as_failure(error: Exception, problem: str, hint: str = "") -> HarnessError:
    """The error itself if it explains itself; a RunFailed with the traceback of any other."""
    if isinstance(error, HarnessError):
        return error
    text = str(error)
    if not isinstance(error, OSError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    failure = RunFailed(problem, text, hint)
    failure.traceback = "".join(traceback.format_exception(error))
    return failure


@contextmanager
def amending(
    explain: Callable[[HarnessError], tuple[str, str] | None], problem: str = "measure"
) -> Iterator[None]:
    """Add to a failure's context what ``explain`` knows of its reason, with another hint.

    ``explain``: None where it knows nothing. ``problem``: of an error that does not explain itself.
    """
    try:
        yield
    except Exception as error:
        if interruption(error) is not None:
            raise
        failure = as_failure(error, problem)
        if (explanation := explain(failure)) is None:
            raise
        reason, hint = explanation
        raise failure.amended(f"{failure.context}; {reason}", hint) from error


@contextmanager
def naming_instance(number: int, instances: int) -> Iterator[None]:
    """Name the instance in a failure, where a run has several."""
    with amending(
        lambda failure: (
            (f"instance {number} of {instances}", failure.hint) if instances > 1 else None
        )
    ):
        yield


#: What DuckDB in this process makes of Ctrl-C during a statement.
_DUCKDB_INTERRUPTED = "Query interrupted"


def interruption(error: BaseException) -> BaseException | None:
    """The Ctrl-C or SIGTERM in whose wake ``error`` was raised, None where there was none.

    A clean-up step that fails because it was interrupted covers up why it ran.
    """
    link: BaseException | None = error
    while link is not None:
        if not isinstance(link, Exception):
            return link
        if isinstance(link, RuntimeError) and str(link) == _DUCKDB_INTERRUPTED:
            return KeyboardInterrupt()
        link = link.__context__
    return None


#: Other words for names of ours.
_SYNONYMS = {
    "log": "wal",
    "redo": "wal",
    "tmp": "temp",
    "fsync": "sync",
    "fdatasync": "sync",
    "flush": "sync",
}


def nearest(name: str, names: list[str] | tuple[str, ...], cutoff: float = 0.6) -> str:
    """``" (did you mean 'x'?)"`` for the closest known name, or an empty string."""
    import difflib

    meant = _SYNONYMS.get(name)
    close = [meant] if meant in names else difflib.get_close_matches(name, names, cutoff=cutoff)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(
    problem: str, context: str, name: str, supported: Iterable[str], hint: str = "known: {}"
) -> UsageError:
    """Error for a name that is not ``supported``, with the nearest name and the list of all.

    ``hint``: with ``{}`` in place of the list.
    """
    names = list(supported)
    listed = hint.format(", ".join(names) or "none")
    return UsageError(problem, f"{context}{nearest(name, names)}", listed)
