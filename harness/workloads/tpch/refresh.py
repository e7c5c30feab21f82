"""Refresh functions as they are executed: in transactions, timed, and again after a cut.

RF1 puts new orders in, RF2 takes old ones out. Clauses 2.6 and 2.7 give both as loops over
orders; how many go into one transaction is left open, as long as an order and its lines are never
apart (clauses 2.6.3, 2.7.3). The text is standard SQL that every engine takes unchanged: multi-row
``INSERT … VALUES``, ``DELETE … WHERE key IN``, dates as plain strings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Literal

from harness.counters import difference
from harness.engine import Engine, Scalar, SqlConnection
from harness.errors import RunFailed
from harness.store.result import Check
from harness.structs import convert
from harness.workload import Session
from harness.workloads.query_runs import Execution, named_failure
from harness.workloads.resume import ResumeCursor
from harness.workloads.tpch.refresh_checks import base_totals, check_pair, check_tables
from harness.workloads.tpch.refresh_data import (
    RefreshData,
    RefreshPair,
    grouped_rows,
    orders_per_set,
)
from harness.workloads.tpch.statements import TpchStatement
from harness.workloads.tpch.tables import COLUMNS

Function = Literal["RF1", "RF2"]
FUNCTIONS: tuple[Function, ...] = ("RF1", "RF2")
#: Well below what any server takes in one packet by default.
LARGEST_STATEMENT_BYTES = 256 * 1024

#: A row of values by table: text and dates stand in quotes.
_VALUES = {
    table: "("
    + ",".join("'%s'" if kind in ("varchar", "date") else "%s" for kind in columns.values())
    + ")"
    for table, columns in COLUMNS.items()
}


@dataclass(frozen=True)
class Applied:
    """One refresh function as it was executed.

    From ``submitted_ns``, before its first statement, to ``ended_ns``, after its last
    commit (clause 5.3.7.3), monotonic. Between the two its text is written, too: clause
    5.3.7.10 counts all but the generation of the data. ``commits``: when each COMMIT was
    sent and when it was known to be done.
    """

    function: Function
    pair: int
    submitted_ns: int
    ended_ns: int
    commits: tuple[tuple[int, int], ...]
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.submitted_ns

    @property
    def labels(self) -> dict[str, str]:
        return {"function": self.function, "pair": str(self.pair)}


class RefreshFunctions:
    """The refresh functions of one run, in sessions of their own (clause 5.2.2)."""

    def __init__(
        self, session: Session, engine: Engine, data: RefreshData, batch_orders: int | None
    ) -> None:
        self.data = data
        self._session = session
        self._engine = engine
        self._batch = batch_orders or orders_per_set(data.scale)

    def apply(self, connection: SqlConnection, function: Function, pair: int) -> Applied:
        """Execute it now; RunFailed names it, and its transaction is rolled back."""
        transactions = rf1_statements if function == "RF1" else rf2_statements
        commits = []
        with named_failure(f"TPC-H {function} of pair {pair}"):
            submitted_ns = time.monotonic_ns()
            for statements in transactions(self.data.pair(pair), self._batch):
                commits.append(_transaction(connection, statements))
            ended_ns = time.monotonic_ns()
        return Applied(function, pair, submitted_ns, ended_ns, tuple(commits))

    def timed(self, function: Function, pair: int, cursor: ResumeCursor) -> Applied:
        """Execute it alone, as one step of the run, or recall it from an earlier attempt."""
        step = f"{function.lower()}-{pair}"
        return cursor.step(
            step,
            function,
            partial(self._time, function, pair),
            partial(self.again, [(function, pair)]),
            partial(convert, kind=Applied, source=step),
            changes_data=True,
        )

    def _time(self, function: Function, pair: int) -> Applied:
        with closing(self._engine.connect()) as connection:
            before = dict(self._session.counters("before"))
            applied = self.apply(connection, function, pair)
            counters = difference(before, self._session.counters("after"))
        return replace(applied, counters=counters)

    def again(self, functions: Sequence[tuple[Function, int]]) -> None:
        """Apply the functions of an earlier attempt again, and check the data."""
        with closing(self._engine.connect()) as connection:
            for function, pair in functions:
                self.apply(connection, function, pair)
            execute = partial(_rows, connection)
            last = {pair: function for function, pair in functions}
            for pair, function in last.items():
                files = self.data.pair(pair)
                for check in check_pair(execute, files, deleted=function == "RF2"):
                    if check.status == "failed":
                        raise RunFailed(
                            f"repeat {function} of pair {pair}",
                            check.detail,
                            "start from scratch with --again",
                        )

    def check(self, pairs: Sequence[int]) -> list[Check]:
        """Return whether the data are the base with these pairs applied, and nothing else."""
        base = base_totals(self.data.scale, self._session.source)
        with closing(self._engine.connect()) as connection:
            execute = partial(_rows, connection)
            checks = [c for pair in pairs for c in check_pair(execute, self.data.pair(pair))]
            return checks + check_tables(execute, self.data, base, inserted=pairs, deleted=pairs)


def _rows(connection: SqlConnection, sql: str) -> Sequence[tuple[Scalar, ...]]:
    return connection.execute(sql).rows


def _transaction(connection: SqlConnection, statements: Sequence[str]) -> tuple[int, int]:
    """Execute a transaction; return when its COMMIT was sent, and when it was done."""
    try:
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
        sent_ns = time.monotonic_ns()
        connection.execute("COMMIT")
        return sent_ns, time.monotonic_ns()
    except RunFailed:
        with suppress(RunFailed):
            connection.execute("ROLLBACK")
        raise


def rf1_statements(pair: RefreshPair, batch_orders: int) -> Iterator[list[str]]:
    """The transactions of RF1, each a list of statements without BEGIN and COMMIT.

    Orders before their lines (the foreign key). One transaction at a time is read and
    held: about 3 KB of memory for each of its orders.
    """
    orders = grouped_rows(pair.inserted)
    while batch := list(islice(orders, batch_orders)):
        yield [
            *_inserts("orders", [head for head, _ in batch]),
            *_inserts("lineitem", [line for _, lines in batch for line in lines]),
        ]


def rf2_statements(pair: RefreshPair, batch_orders: int) -> Iterator[list[str]]:
    """The transactions of RF2: lines before their orders (the foreign key)."""
    keys = iter(pair.delete_keys)
    while batch := [str(key) for key in islice(keys, batch_orders)]:
        yield [
            *_deletes("lineitem", "l_orderkey", batch),
            *_deletes("orders", "o_orderkey", batch),
        ]


def _inserts(table: str, lines: Sequence[str]) -> Iterator[str]:
    head = f"INSERT INTO {table} ({', '.join(COLUMNS[table])}) VALUES\n"
    return _statements(head, [_values(table, line) for line in lines], ",\n", "")


def _deletes(table: str, column: str, keys: Sequence[str]) -> Iterator[str]:
    return _statements(f"DELETE FROM {table} WHERE {column} IN (", keys, ",", ")")


def _values(table: str, line: str) -> str:
    """A row of a file as SQL; nearly all that a client does in RF1, so it is kept short."""
    return _VALUES[table] % tuple(line.replace("'", "''").split("|")[:-1])


def _statements(head: str, items: Sequence[str], between: str, foot: str) -> Iterator[str]:
    """Yield ``items`` in as few statements as LARGEST_STATEMENT_BYTES lets."""
    room = LARGEST_STATEMENT_BYTES - len(head) - len(foot)
    start = size = 0
    for position, item in enumerate(items):
        length = len(item) + len(between)
        if size + length > room and position > start:
            yield head + between.join(items[start:position]) + foot
            start, size = position, 0
        size += length
    if start < len(items):
        yield head + between.join(items[start:]) + foot


def seen(
    execution: Execution[TpchStatement], refresh: Sequence[Applied], before: int
) -> tuple[tuple[int, ...], bool]:
    """Return the states of the data that ``execution`` may have seen.

    A state is the number of functions applied so far. The second value: whether it may have seen
    data between two states.

    ``refresh``: the functions that ran in the test, in order, after ``before`` others. A
    statement reads one snapshot, taken after it was submitted and before it ended. Its
    snapshot has every transaction whose commit was done before, and none whose commit
    was not even sent at its end; of those in between it may have any leading part.
    """
    done = sent = transactions = 0
    states = {0: 0}  # functions that are whole after a number of transactions
    for applied in refresh:
        for commit_sent_ns, commit_done_ns in applied.commits:
            done += commit_done_ns <= execution.submitted_ns
            sent += commit_sent_ns <= execution.ended_ns
        transactions += len(applied.commits)
        states[transactions] = len(states)
    possible = range(done, sent + 1)
    whole = tuple(before + states[count] for count in possible if count in states)
    return whole, len(whole) < len(possible)
