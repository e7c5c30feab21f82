"""The queries: their texts, the order of each stream, and what a window says of their rate.

They are those that CH-benCHmark describes (Cole et al., DBTest 2011): TPC-H's questions over
TPC-C's tables. ``queries/qNN.sql`` has each once, as PostgreSQL, MySQL, MariaDB and DuckDB take
it; an engine's folder ``sql/htap/`` may have a file of the same name in its own dialect. Those with
many rows return the first ones, in an order without ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from pathlib import Path
from statistics import fmean

from harness.sequences import grouped
from harness.sql_script import split
from harness.store.result import Check, Metric
from harness.units import NS_PER_S, counted
from harness.workloads import query_runs
from harness.workloads.query_runs import Execution
from harness.workloads.sql.answers import ExpectedRows, compare_rows, read_answer
from harness.workloads.sql.ordering import Ordering
from harness.workloads.tpch.statements import query_order

_FOLDER = Path(__file__).parent / "queries"
#: Answers over the data of :data:`ANSWERED_FOR`, which several engines agree on.
_ANSWERS = Path(__file__).parent / "answers"
#: Warehouses and seed of the data that the answers are of.
ANSWERED_FOR = (1, 1)
#: Rows of an answer that are compared; those that are recorded have fewer.
_KEPT_ROWS = 1000
_HOUR_NS = 3600 * NS_PER_S


@dataclass(frozen=True)
class HtapQuery(query_runs.Statement):
    """One query of a stream."""

    query: int
    stream: int
    sql: str
    keep: int | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"query": str(self.query)}

    @property
    def name(self) -> str:
        return f"Q{self.query}"

    @property
    def title(self) -> str:
        return f"query {self.query} of stream {self.stream}"

    @property
    def step(self) -> str:
        return f"s{self.stream}-q{self.query}"


def query_sql(query: int, folder: Path | None = None) -> str:
    """Return the text of a query, without comments; ``folder``: an engine's ``sql/htap/``."""
    name = f"q{query:02}.sql"
    dialect = folder / name if folder is not None else None
    file = dialect if dialect is not None and dialect.exists() else _FOLDER / name
    (text,) = split(file.read_text(encoding="utf-8"), False, str(file))
    return text


def stream_queries(queries: Sequence[int], stream: int, folder: Path) -> Iterator[HtapQuery]:
    """Yield the queries of a stream (1 …) again and again, in the order of TPC-H's stream.

    The rows of their first answers are kept, of the others a checksum.
    """
    first = [
        HtapQuery(query, stream, query_sql(query, folder), _KEPT_ROWS)
        for query in query_order(stream)
        if query in queries
    ]
    return chain(first, cycle([replace(query, keep=0) for query in first]))


@dataclass(frozen=True)
class QueryWindow:
    """The queries of a window, by the monotonic clock; ``executions``: also those outside of it."""

    executions: Sequence[Execution[HtapQuery]]
    streams: int
    begin_ns: int
    end_ns: int

    def durations_ns(self) -> dict[int, list[int]]:
        """Return by query the durations of those that began and ended in the window."""
        return grouped(
            (e.statement.query, e.duration_ns)
            for e in self.executions
            if e.duration_ns is not None
            and e.submitted_ns >= self.begin_ns
            and e.ended_ns <= self.end_ns
        )

    def per_hour(self, queries: Sequence[int]) -> float | None:
        """Return the rate of all streams; None where one of the queries did not end.

        It is that of streams in which each query is as frequent as the others, by the mean
        duration of each: a window does not end with a whole set of them.
        """
        durations = self.durations_ns()
        if any(query not in durations for query in queries):
            return None
        set_ns = sum(fmean(durations[query]) for query in queries)
        return self.streams * len(queries) * _HOUR_NS / set_ns

    def missing(self, queries: Sequence[int]) -> list[int]:
        """List the queries of which none began and ended in the window."""
        durations = self.durations_ns()
        return [query for query in queries if query not in durations]

    def metrics(self, phase: str) -> Iterator[Metric]:
        """Yield the durations of each query."""
        for query, durations in sorted(self.durations_ns().items()):
            labels = {"query": str(query), "phase": phase}
            yield Metric("query_duration_ns", "ns", "lower", labels, samples=tuple(durations))


def check_answers(
    executions: Sequence[Execution[HtapQuery]], data: tuple[int, int], folder: Path
) -> Iterator[Check]:
    """Check answers over data that did not change; ``data``: their warehouses and seed.

    Each is compared with the recorded answer, where there is one of these data, and with that of
    the query's first execution.
    """
    for query, of_query in sorted(grouped((e.statement.query, e) for e in executions).items()):
        labels = {"query": str(query)}
        ended = [execution for execution in of_query if execution.finished]
        whole = next((e for e in ended if e.statement.keep and not e.left_out), None)
        if data == ANSWERED_FOR and whole is not None:
            ordering = Ordering.of(query_sql(query, folder), False)
            answer = recorded_answer(query)
            compared = compare_rows(answer, whole.columns, whole.rows, ordering)
            yield Check("answer", compared.status, compared.values or compared.where, labels)
        if ended:
            distinct = len({(execution.row_count, execution.checksum) for execution in ended})
            detail = f"{len(ended)} executions, {counted(distinct, 'answer')}"
            yield Check("repeated", "failed" if distinct > 1 else "passed", detail, labels)


def recorded_answer(query: int) -> ExpectedRows:
    """Return the answer over the data of :data:`ANSWERED_FOR`."""
    file = _ANSWERS / f"q{query:02}.csv"
    return read_answer(file.name, file.read_text(encoding="utf-8"))
