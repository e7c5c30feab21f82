"""The user's own queries as a workload: what is read of the folder, the measured phase, checks.

Times, counters, waits and plans are those of TPC-H (harness.workloads.query_runs).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine import Engine
from harness.errors import RunFailed, UsageError, nearest
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.sql_script import masked, split
from harness.sql_values import encode
from harness.store.result import Check
from harness.store.spec import NATIVE, canonical_json
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads import query_runs
from harness.workloads.query_runs import (
    Execution,
    QueryRuns,
    finished_checks,
    plan_artifacts,
    query_metrics,
    query_warnings,
    timeline,
    total_metrics,
)
from harness.workloads.resume import ResumeCursor
from harness.workloads.sql import clients, data, replay
from harness.workloads.sql.answers import ExpectedRows, compare_rows, read_answer, shown
from harness.workloads.sql.folder import (
    ANSWERS,
    CHECK,
    LOAD,
    QUERIES,
    TABLES,
    SqlFolder,
    read_folder,
)
from harness.workloads.sql.ordering import Ordering
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.schema import read_schema

#: Rows of an answer that are stored with the run.
_STORED_ROWS = 1000
#: Tables that a warning names.
_NAMED = 5
_READS = re.compile(r"[\s(]*(select|with|values|table|from)\b", re.IGNORECASE)
_WRITES = re.compile(
    r"\binto\b|\bdelete\s+from\b|\bmerge\s+into\b|\bupdate\s+\S+\s+(?:\S+\s+)?set\b"
    r"|\bfor\s+(?:no\s+key\s+)?(?:update|share)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Query(query_runs.Statement):
    """One query: a file of the folder ``queries/``; ``expected``: its file in ``answers/``."""

    query: str
    sql: str
    ordering: Ordering
    expected: ExpectedRows | None = field(repr=False)
    keep: int | None = _STORED_ROWS

    @property
    def labels(self) -> dict[str, str]:
        return {"query": self.query}

    @property
    def name(self) -> str:
        return self.query

    @property
    def title(self) -> str:
        return f"query {self.query}"

    @property
    def step(self) -> str:
        return f"query-{self.query}"


class Sql(Workload[SqlParams]):
    """The queries of a folder over freshly loaded data of it."""

    name = "sql"
    private = True

    def check_engine(
        self, params: SqlParams, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """UsageError for a folder that has changed, or that the engine cannot load or query."""
        if params.script:
            clients.driver_of(params, driver).check(engine, settings)
        elif driver != NATIVE:
            raise UsageError(f"driver {driver}", "it runs scripts, none is named", "add --script")
        if not params.folder:
            return
        folder = read_folder(Path(params.folder))
        if folder.content != params.content:
            raise UsageError(
                f"folder {params.folder}", "its files are not those of the run", "start a new run"
            )
        data.check_loadable(folder, engine)
        if params.replay:
            replay.ReplayDriver(params).check(engine, settings)
            _check_filled(folder, engine)
        elif not params.script:
            _queries(params, folder, engine)
            _check_filled(folder, engine)
        names = _statements(folder, engine) if folder.answers else {}
        for name in folder.answers:
            if name not in names:
                raise UsageError(
                    f"{folder.path}/{ANSWERS}/{name}.csv",
                    f"there is no query {name}{nearest(name, list(names))}",
                    f"name it as a file of {QUERIES}/ (q1, q2 … of a single file), or remove it",
                )
            _expected(folder, name)
        check = f"{folder.path}/{CHECK}"
        for statement in split(folder.check, engine.backslash_escapes, check):
            _check_reads(check, statement, engine.backslash_escapes)

    def tables(self, params: SqlParams, engine: Engine) -> Collection[str]:
        """Return the folder's tables, if only statements CREATE TABLE make any."""
        if not params.folder:
            return ()
        folder = read_folder(Path(params.folder))
        schema = read_schema(folder, engine)
        more = schema.fills or "materialized" in folder.tables_sql.lower()
        return () if more else schema.plain_names

    def data_key(self, params: SqlParams, driver: str) -> dict[str, Any]:
        """The content of ``tables.sql`` and ``load/``; the name is for `harness data list`."""
        if not params.folder:
            return dict(clients.loading_driver(params).key())
        return {"folder": Path(params.folder).name, "digest": params.data_digest}

    def estimate_bytes(self, params: SqlParams, engine_format: str) -> dict[Part, int]:
        if not params.folder:
            return data.estimate_bytes(clients.loading_driver(params).estimate_bytes())
        return data.estimate_bytes(read_folder(Path(params.folder)).load_bytes)

    def source_bytes(self, params: SqlParams, engine_format: str) -> int:
        if not params.folder:
            return 0
        return data.source_bytes(read_folder(Path(params.folder)).load_bytes)

    def source_key(self, params: SqlParams, engine: Engine) -> str:
        if not params.folder:
            return ""
        return data.source_name(params.data_digest, engine)

    def generate(self, params: SqlParams, engine: Engine, folder: Path, progress: Progress) -> None:
        """Copy what the user's folder loads, in the format that the engine loads."""
        data.generate(Path(params.folder), params.data_digest, engine, folder, progress)

    def load(self, params: SqlParams, loading: Loading) -> dict[str, Any]:
        if not params.folder:
            return clients.loading_driver(params).load(loading)
        data.load(loading.source, loading.engine, loading.progress)
        return self.data_key(params, loading.driver)

    def spends_data(self, params: SqlParams) -> bool:
        """Return whether scripts or a record run, which may write."""
        return bool(params.script or params.replay)

    def measure(self, params: SqlParams, session: Session) -> Outcome:
        """Run the queries, then their plans, then check answers and data."""
        if params.script and not params.folder:
            return clients.measure(params, session, lambda: ())
        folder, engine = read_folder(Path(params.folder)), session.engine
        if folder.content != params.content:
            raise RunFailed(f"folder {folder.path}", "its files changed meanwhile", "run again")
        if params.script:
            return clients.measure(params, session, lambda: _check_data(folder, engine, params))
        if params.replay:
            return replay.measure(params, session, lambda: _check_data(folder, engine, params))
        todo = _queries(params, folder, engine)
        with closing(ResumeCursor(session, engine, params.cache, len(todo))) as cursor:
            runs: QueryRuns[Query] = QueryRuns(
                session,
                cursor,
                f"queries of {folder.path.name}",
                cache=params.cache,
                timeout_s=params.query_timeout_s,
                warmups=params.warmups,
            )
            cursor.cold_point("run")
            executions = runs.time(todo)
            cursor.close()
            cursor.cold_point("run-plan")
            plans = runs.explain(executions) if params.plans else []
            cursor.close()
            cursor.data_ready(CHECK)
            checks = [
                *finished_checks(executions, params.query_timeout_s),
                *_check_answers(executions, params),
                *_check_data(folder, engine, params),
            ]
        metrics = query_metrics(executions, params.query_timeout_s) + total_metrics(executions)
        metrics += [metric for plan in plans for metric in plan.metrics]
        artifacts = {
            "queries": {query.query: {"sql": query.sql} for query in todo},
            "timeline": timeline(executions),
            **plan_artifacts(plans, runs.unexplained),
        }
        if params.keep_answers != "none":
            artifacts["answers"] = {
                e.statement.query: _stored(e, params) for e in executions if e.finished
            }
        warnings = [*query_warnings(engine, executions), *_empty_tables(folder, engine)]
        return Outcome(metrics, checks, artifacts, warnings)


def _check_filled(folder: SqlFolder, engine: Engine) -> None:
    """UsageError where nothing gives the tables a row."""
    if not folder.load and not read_schema(folder, engine).fills:
        raise UsageError(
            f"folder {folder.path}",
            f"{LOAD}/ has no files, and {TABLES} no INSERT: queries would read empty tables",
            f"put the rows into files of {LOAD}/, each named after its table",
        )


def _empty_tables(folder: SqlFolder, engine: Engine) -> Iterator[RunWarning]:
    if names := data.empty_tables(engine, read_schema(folder, engine).tables):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield RunWarning(
            code="tables-empty",
            problem="tables have no rows, so that queries of them show nothing",
            context=f"{', '.join(names[:_NAMED])}{more}",
            hint=f"put their rows into {LOAD}/, or remove them from {TABLES}",
        )


def _queries(params: SqlParams, folder: SqlFolder, engine: Engine) -> list[Query]:
    """Return the queries to run; UsageError for a file that is not one statement that reads."""
    if not folder.queries:
        raise UsageError(
            f"folder {folder.path}",
            f"{QUERIES}/ has no files",
            f"write each query into a file {QUERIES}/NAME.sql",
        )
    queries = []
    for name, (problem, statement) in params.chosen(_statements(folder, engine)).items():
        _check_reads(problem, statement, engine.backslash_escapes)
        ordering = Ordering.of(statement, engine.backslash_escapes)
        expected = _expected(folder, name) if name in folder.answers else None
        keep = max(_STORED_ROWS, len(expected.rows) if expected else 0)
        queries.append(Query(name, statement, ordering, expected, keep))
    return queries


def _statements(folder: SqlFolder, engine: Engine) -> dict[str, tuple[str, str]]:
    """Return where each query is, and its text, by its name: its file's, or q1, q2 … of the
    statements of a single file.
    """
    by_name: dict[str, tuple[str, str]] = {}
    for name, text in folder.queries.items():
        problem = f"{folder.path}/{QUERIES}/{name}.sql"
        texts = split(text, engine.backslash_escapes, problem)
        if len(texts) > 1 and len(folder.queries) == 1:
            return {f"q{n}": (f"{problem}, query q{n}", text) for n, text in enumerate(texts, 1)}
        if len(texts) != 1:
            raise UsageError(
                problem,
                f"{len(texts)} statements" if texts else "no statement",
                "write each query into a file of its own, or all of them into a single file",
            )
        by_name[name] = problem, texts[0]
    return by_name


def _expected(folder: SqlFolder, name: str) -> ExpectedRows:
    return read_answer(f"{folder.path}/{ANSWERS}/{name}.csv", folder.answers[name])


def _check_reads(problem: str, statement: str, backslash: bool) -> None:
    """UsageError for a statement that does not only read: it is executed several times."""
    bare = masked(statement, backslash)
    writes = _WRITES.search(bare)
    if not _READS.match(bare) or writes:
        first = " ".join((writes[0] if writes else bare).split())[:40]
        raise UsageError(
            problem,
            f"not a query that only reads: {first}",
            "a query begins with SELECT, WITH, VALUES, TABLE or FROM and changes or locks no rows; "
            "for statements that write use --driver pgbench or sysbench",
        )


def _check_answers(executions: Sequence[Execution[Query]], params: SqlParams) -> Iterator[Check]:
    """Compare each answer with its file; those without one are not compared, which is unknown."""
    missing = []
    for execution in executions:
        query = execution.statement
        if not execution.finished:
            continue
        if query.expected is None:
            missing.append(query.query)
            continue
        expected, count = query.expected, execution.row_count
        if count != len(expected.rows):
            detail = f"row count: expected {len(expected.rows)}, found {count}"
            yield Check("answer", "failed", detail, query.labels)
            continue
        rows = execution.rows[:count]
        comparison = compare_rows(expected, execution.columns, rows, query.ordering)
        detail = comparison.where if params.keep_answers else comparison.values
        yield Check("answer", comparison.status, detail or comparison.where, query.labels)
    if missing:
        reason = f"not compared: {ANSWERS}/ has no file of {', '.join(missing)}"
        yield Check("answers-compared", "unknown", reason)


def _check_data(folder: SqlFolder, engine: Engine, params: SqlParams) -> Iterator[Check]:
    """Run ``check.sql``: a row of any statement in it is a failure."""
    for number, statement in enumerate(split(folder.check, engine.backslash_escapes), 1):
        labels = {"statement": str(number)}
        try:
            with closing(engine.connect()) as connection:
                result = connection.execute(statement, keep=1)
        except RunFailed as error:  # it has checked nothing
            yield Check(CHECK, "unknown", f"{error.problem}: {error.context}", labels)
            continue
        count = len(result.rows) + result.left_out
        first = "" if params.keep_answers or not count else f", the first: {shown(result.rows[0])}"
        detail = f"{count} rows{first}" if count else "no rows"
        yield Check(CHECK, "failed" if count else "passed", detail, labels)


def _stored(execution: Execution[Query], params: SqlParams) -> dict[str, Any]:
    """The answer as it is stored, its rows in an order that does not depend on the engine's."""
    sums = f"{execution.row_count} {execution.checksum}".encode()
    digest = hashlib.blake2b(sums, digest_size=16).hexdigest()
    answer = {"row_count": execution.row_count, "digest": digest}
    if params.keep_answers == "digest":
        return answer
    rows = [[encode(value) for value in row] for row in execution.rows[:_STORED_ROWS]]
    if not execution.statement.ordering.keys:
        rows.sort(key=canonical_json)
    return {**answer, "columns": list(execution.columns), "rows": rows}


WORKLOAD = Sql()
