"""A connection that runs T-SQL text and times it.

The client ends a statement at its limit by closing the connection, which has the server stop it and
roll back; another connection takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import pytds

from harness.engine import QueryTimeout, SqlConnection, SqlResult, checksum
from harness.errors import RunFailed
from harness.query_plan import PLANNING, ExecutedPlan, Operator, OperatorKind
from harness.sql_script import head
from harness.supervise.silence import limit_s

#: What any statement of TDS may raise.
ERRORS = (pytds.Error, OSError)
_DROPPED_ROWS = 1000


@dataclass(frozen=True)
class SqlServerLogin:
    """A server's address and a user of it; its representation does not contain the password.

    ``ca``: file of the authority that signed the server's certificate; empty: no encryption.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    ca: str = ""

    @property
    def address(self) -> str:
        """Server and database, for messages and records, without user and password."""
        return f"host={self.host} port={self.port} dbname={self.database}"

    def connect(self, database: str = "", timeout_s: float | None = None) -> Any:
        """Open a raw connection in autocommit mode to ``database`` (default: the login's)."""
        return pytds.connect(
            dsn=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            timeout=timeout_s or limit_s("statement"),
            login_timeout=limit_s("connect"),
            appname="harness",
            autocommit=True,
            cafile=self.ca or None,
        )


class SqlServerConnection(SqlConnection):
    """A session in the database of a dataset."""

    def __init__(self, login: SqlServerLogin, database: str) -> None:
        self._login = login
        self._database = database
        self._timeout_s: float | None = None
        self.raw = self._open()

    def _open(self) -> Any:
        try:
            return self._login.connect(self._database, self._timeout_s)
        except ERRORS as error:
            problem = f"connect to SQL Server at {self._login.address}"
            raise RunFailed(problem, str(error)) from error

    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error."""
        if timeout_s != self._timeout_s:  # the client has one limit for all of a connection
            self.close()
            self._timeout_s = timeout_s
            self.raw = self._open()
        started = time.monotonic_ns()
        try:
            with self.raw.cursor() as cursor:
                cursor.execute(sql)
                columns = tuple(column[0] for column in cursor.description or ())
                rows, left_out, total = _fetch(cursor, keep) if columns else ([], 0, 0)
                duration = time.monotonic_ns() - started
        except TimeoutError as error:
            self.close()
            self.raw = self._open()
            if timeout_s is None:
                raise RunFailed(f"SQL Server: {head(sql)}", "no answer") from error
            raise QueryTimeout(f"{head(sql)}: no answer within {timeout_s:g} s") from error
        except ERRORS as error:
            raise RunFailed(f"SQL Server: {head(sql)}", str(error)) from error
        return SqlResult(columns, rows, started, duration, left_out, total)

    def close(self) -> None:
        with suppress(*ERRORS):
            self.raw.close()

    def cancel(self) -> None:
        """Close: the server stops the statement and rolls it back."""
        self.close()


def _fetch(cursor: Any, keep: int | None) -> tuple[list[tuple[Any, ...]], int, int]:
    """All rows, or the first ``keep`` ones; the number of the others and a checksum of all."""
    if keep is None:
        return [tuple(row) for row in cursor.fetchall()], 0, 0
    rows = [tuple(row) for row in cursor.fetchmany(keep)]
    left_out, total = 0, checksum(repr(row).encode() for row in rows)
    while dropped := cursor.fetchmany(_DROPPED_ROWS):
        left_out += len(dropped)
        total += checksum(repr(tuple(row)).encode() for row in dropped)
    return rows, left_out, total


# Actual plans (SET STATISTICS XML) ------------------------------------------------
#
# Times of a row-mode operator contain those of its inputs, times of a batch-mode operator do not.
# Each is the longest of its threads, in ms; an operator's own time is what its inputs leave, and
# not below zero. Operators without times of their own (Compute Scalar) are parts of others.

_NS = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"
_NS_PER_MS = 1_000_000
_NOTE = "own times are wall time in whole ms; in parallel plans of the slowest thread"
_Element = ElementTree.Element


def explain(connection: SqlServerConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` with its plan and translate that."""
    connection.execute("set statistics xml on")
    try:
        with connection.raw.cursor() as cursor:
            started = time.monotonic_ns()
            cursor.execute(sql)
            rows = cursor.fetchall()
            while cursor.nextset():
                rows = cursor.fetchall() or rows
            duration_ns = time.monotonic_ns() - started
    except ERRORS as error:
        raise RunFailed(f"SQL Server: {head(sql)}", str(error)) from error
    finally:
        with suppress(RunFailed):
            connection.execute("set statistics xml off")
    return translate(str(rows[0][0]), duration_ns)


def translate(text: str, duration_ns: int) -> ExecutedPlan:
    """An ExecutedPlan from a showplan document; ``duration_ns`` is the client's."""
    plan = ElementTree.fromstring(text).find(f".//{_NS}QueryPlan")
    root = None if plan is None else plan.find(f"{_NS}RelOp")
    times = None if plan is None else plan.find(f"{_NS}QueryTimeStats")
    if plan is None or root is None or times is None:
        raise RunFailed(
            "read SQL Server's query plan", f"it has no operators with times: {head(text)}"
        )
    elapsed_ns, cpu_ns = (_NS_PER_MS * int(times.get(n, "0")) for n in ("ElapsedTime", "CpuTime"))
    operators, inclusive_ns = _operator(root)
    rest_ns = max(0, duration_ns - max(elapsed_ns, inclusive_ns))
    # A plan from the cache has the time that it took once.
    planning_ns = min(rest_ns, _NS_PER_MS * int(plan.get("CompileTime", "0")))
    return ExecutedPlan(
        operators=operators,
        duration_ns=duration_ns,
        raw=text,
        raw_format="text",
        note=_NOTE,
        extra={"engine_duration_ns": elapsed_ns, "cpu_ns": cpu_ns},
        outside_ns={
            PLANNING: planning_ns,
            "executor": max(0, elapsed_ns - inclusive_ns),
            "client": rest_ns - planning_ns,
        },
    )


def _operator(node: _Element) -> tuple[Operator, int]:
    """The operator, and its time with that of its inputs."""
    inputs = [_operator(child) for child in _below(node, "RelOp")]
    inputs_ns = sum(inclusive_ns for _, inclusive_ns in inputs)
    threads = node.findall(f"{_NS}RunTimeInformation/{_NS}RunTimeCountersPerThread")
    reported_ns = (
        max((_number(thread, "ActualElapsedms") for thread in threads), default=0) * _NS_PER_MS
    )
    if any(thread.get("ActualExecutionMode") == "Batch" for thread in threads):
        own_ns = reported_ns
    else:
        own_ns = max(0, reported_ns - inputs_ns)
    physical, logical = node.get("PhysicalOp", ""), node.get("LogicalOp", "")
    seeks = "Seek" in physical
    return (
        Operator(
            kind=_kind(physical, logical),
            name=physical if logical in ("", physical) else f"{physical} ({logical})",
            rows=sum(_number(thread, "ActualRows") for thread in threads)
            if threads
            else sum(child.rows for child, _ in inputs[:1]),
            time_ns=own_ns,
            relation=next((table(element) for element in _below(node, "Object")), None),
            children=tuple(child for child, _ in inputs),
            lookups=sum(_number(thread, "ActualExecutions") for thread in threads) if seeks else 0,
        ),
        own_ns + inputs_ns,
    )


def table(node: _Element) -> str | None:
    """Return the name of an object's table, without its brackets."""
    return (node.get("Table") or "").strip("[]") or None


def _number(node: _Element, name: str) -> int:
    return int(node.get(name, "0"))


def _below(node: _Element, name: str) -> Iterator[_Element]:
    """Elements of that name in an operator, not in those below it."""
    for child in node:
        if child.tag == f"{_NS}{name}":
            yield child
        elif child.tag != f"{_NS}RelOp":
            yield from _below(child, name)


def _kind(physical: str, logical: str) -> OperatorKind:
    if physical.endswith(("Scan", "Seek", "Lookup")) and not physical.startswith("Constant"):
        return "scan"
    if "Join" in logical or physical == "Nested Loops":
        return "join"
    if "Aggregate" in logical or physical in ("Segment", "Sequence Project", "Window Spool"):
        return "aggregate"
    return "sort" if physical == "Sort" else "other"
