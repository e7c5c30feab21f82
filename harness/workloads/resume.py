"""An interrupted run resumes where it was.

What it had measured is kept; what that had *left* — changed data, warm caches — is not, since the
data are restored and the server is another one. So before the first piece of work of an attempt,
what was skipped is caught up with, untimed:

==============  =====================================================================
cold-per-query  what changes data; every query starts cold anyway
cold-per-run    what changes data; then a cold start, and what came after the last one
warm            everything, in order
==============  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.engine import Engine, SqlConnection
from harness.store.documents import as_json
from harness.workload import Session
from harness.workloads.parameters import CacheMode

T = TypeVar("T")


@dataclass(frozen=True)
class _Skipped:
    """Work of an earlier attempt, and how it is done again without being timed."""

    again: Callable[[], object]
    changes_data: bool
    query: bool


class ResumeCursor:
    """The state of data, caches and connection of this attempt.

    ::

        cursor.cold_point("run")               # where the run's caches begin
        for every piece of work in order:
            result = cursor.step("q6", "Q6", do, again, read)   # stored, or done now

    ``queries``: number of queries of the run, for the message on resuming.
    """

    def __init__(self, session: Session, engine: Engine, cache: CacheMode, queries: int) -> None:
        self._session = session
        self._engine = engine
        self._cache = cache
        self._queries = queries
        self._skipped: list[_Skipped] = []
        self._cold: str | None = None
        self._since_cold = 0
        self._connection: SqlConnection | None = None

    def cold_point(self, label: str) -> None:
        """Note that caches are cold from here on, in a run that is cold once (``cold-per-run``)."""
        if self._cache == "cold-per-run":
            self._cold = label
            self._since_cold = len(self._skipped)

    def step(
        self,
        step: str,
        name: str,
        do: Callable[[], T],
        again: Callable[[], object] | None,
        read: Callable[[Any], T],
        *,
        changes_data: bool = False,
        query: bool = False,
    ) -> T:
        """The result of this work: of an earlier attempt, or of ``do`` now, which is stored.

        ``name``: for a person. ``again``: does it without timing; None: it left nothing.
        ``read``: makes the result of its document, of ``do``'s too, so that no
        resumed run reads what others do not. ``query``: it is a timed query.
        """
        document = self._session.recalled(step)
        if document is None:
            self.ready(step, name)
            document = as_json(do())
            self._session.remember(step, document)
        elif again is not None:
            self.skip(again, changes_data=changes_data, query=query)
        return read(document)

    def skip(
        self, again: Callable[[], object], *, changes_data: bool = False, query: bool = False
    ) -> None:
        """Note that this work was done in an earlier attempt."""
        self._skipped.append(_Skipped(again, changes_data, query))

    def ready(self, label: str, name: str) -> None:
        """Bring data and caches to where they were before this work; cold, if it is to be.

        ``label``: of its cold start; ``name``: for a person.
        """
        self._catch_up(name)
        if self._cache == "cold-per-query":
            self._cold_start(label)

    def data_ready(self, name: str) -> None:
        """Bring the data to where they are now, whatever the caches hold."""
        self._cold = None
        self._catch_up(name, data_only=True)

    def connection(self) -> SqlConnection:
        """The session's connection, opened on first use."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def close(self) -> None:
        """End the session; the next connection is another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _catch_up(self, name: str, data_only: bool = False) -> None:
        skipped, self._skipped = self._skipped, []
        cold, self._cold = self._cold, None
        before, after = skipped[: self._since_cold], skipped[self._since_cold :]
        self._since_cold = 0
        if data_only or (cold is None and self._cache != "warm"):
            before, after = skipped, []
        if skipped:
            changes = any(work.changes_data for work in skipped)
            self._say(name, sum(work.query for work in skipped), bool(after), changes)
        for work in before:
            if work.changes_data:
                work.again()
        if cold is not None:
            self._cold_start(f"{cold}-resumed" if after else cold)
        for work in after:
            work.again()

    def _say(self, name: str, retained: int, caches: bool, changes: bool) -> None:
        again = "what filled the caches" if caches else "what changed the data"
        how = f"; {again} is done again, untimed" if caches or changes else ""
        self._session.progress.say(
            f"resuming at {name}: {retained} of {self._queries} queries kept{how}"
        )

    def _cold_start(self, label: str) -> None:
        self.close()
        self._session.cold_start(label)
