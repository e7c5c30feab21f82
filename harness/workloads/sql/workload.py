"""The user's own queries as a workload: what is read of the folder, the measured phase, checks.

Times, counters, waits and plans are those of TPC-H (harness.workloads.query_runs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine import Engine, Scalar
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.sql_script import encode, split
from harness.store.result import Check, CheckStatus
from harness.store.spec import NATIVE, canonical_json
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads import query_runs
from harness.workloads.query_runs import (
    Execution,
    QueryRuns,
    ResumeCursor,
    finished_checks,
    plan_artifacts,
    query_metrics,
    query_warnings,
    timeline,
    total_metrics,
)
from harness.workloads.sql import clients, data
from harness.workloads.sql.answers import compare_rows, read_answer
from harness.workloads.sql.folder import ANSWERS, CHECK, QUERIES, SqlFolder, read_folder
from harness.workloads.sql.params import SqlParams

#: Rows of an answer that are stored with the run.
_STORED_ROWS = 1000
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|`[^`]*`""", re.DOTALL)
_READS = re.compile(r"[\s(]*(select|with|values|table|from)\b", re.IGNORECASE)
_WRITES = re.compile(
    r"\binto\b|\bdelete\s+from\b|\bmerge\s+into\b|\bupdate\s+\S+\s+(?:\S+\s+)?set\b"
    r"|\bfor\s+(?:no\s+key\s+)?(?:update|share)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Query(query_runs.Statement):
    """One query: a file of the folder ``queries/``."""

    query: str
    sql: str

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

    def check_engine(
        self, params: SqlParams, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """UsageError for a folder that has changed, or that the engine cannot load or query."""
        if params.script:
            clients.driver_of(params, driver).check(engine, settings)
        elif driver != NATIVE:
            raise UsageError(f"driver {driver}", "it runs scripts, none is named", "add --script")
        if not params.folder:
            if driver != "sysbench":
                raise UsageError(f"driver {driver}", "no folder has its data", "add --folder shop/")
            return
        folder = read_folder(Path(params.folder))
        if folder.content != params.content:
            raise UsageError(
                f"folder {params.folder}", "its files are not those of the run", "start a new run"
            )
        data.check_loadable(folder, engine)
        if not params.script:
            _queries(params, folder, engine)
        for name, text in folder.answers.items():
            read_answer(f"{folder.path}/{ANSWERS}/{name}.csv", text)
        check = f"{folder.path}/{CHECK}"
        for statement in split(folder.check, engine.backslash_escapes, check):
            _check_reads(check, statement)

    def data_key(self, params: SqlParams, driver: str) -> dict[str, Any]:
        """The content of ``tables.sql`` and ``load/``; the name is for `harness data list`."""
        if not params.folder:
            return dict(clients.SysbenchDriver(params).key())
        return {"folder": Path(params.folder).name, "digest": params.data_digest}

    def estimate_bytes(self, params: SqlParams, engine_format: str) -> dict[Part, int]:
        if not params.folder:
            return data.estimate_bytes(clients.SysbenchDriver(params).estimate_bytes())
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
            return clients.SysbenchDriver(params).load(loading)
        data.load(loading.source, loading.engine, loading.progress)
        return self.data_key(params, loading.driver)

    def spends_data(self, params: SqlParams) -> bool:
        """Return whether scripts run, which may write."""
        return bool(params.script)

    def measure(self, params: SqlParams, session: Session) -> Outcome:
        """Run the queries, then their plans, then check answers and data."""
        if params.script and not params.folder:
            return clients.measure(params, session, lambda: ())
        folder, engine = read_folder(Path(params.folder)), session.engine
        if folder.content != params.content:
            raise RunFailed(f"folder {folder.path}", "its files changed meanwhile", "run again")
        if params.script:
            return clients.measure(params, session, lambda: _check_data(folder, engine))
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
                *_check_answers(folder, executions),
                *_check_data(folder, engine),
            ]
        metrics = query_metrics(executions, params.query_timeout_s) + total_metrics(executions)
        metrics += [metric for plan in plans for metric in plan.metrics]
        artifacts = {
            "queries": {one.query: {"sql": one.sql} for one in todo},
            "answers": {e.statement.query: _stored(e.rows) for e in executions if e.finished},
            "timeline": timeline(executions),
            **plan_artifacts(plans, runs.unexplained),
        }
        return Outcome(metrics, checks, artifacts, list(query_warnings(engine, executions)))


def _queries(params: SqlParams, folder: SqlFolder, engine: Engine) -> list[Query]:
    """Return the queries to run; UsageError for a file that is not one statement that reads."""
    if not folder.queries:
        raise UsageError(
            f"folder {folder.path}",
            f"{QUERIES}/ has no files",
            f"write each query into a file {QUERIES}/NAME.sql",
        )
    found = []
    for name, text in params.chosen(dict(folder.queries)).items():
        problem = f"{folder.path}/{QUERIES}/{name}.sql"
        statements = split(text, engine.backslash_escapes, problem)
        if len(statements) != 1:
            raise UsageError(
                problem,
                f"{len(statements)} statements" if statements else "no statement",
                "write each query into a file of its own",
            )
        _check_reads(problem, statements[0])
        found.append(Query(name, statements[0]))
    return found


def _check_reads(problem: str, statement: str) -> None:
    """UsageError for a statement that does not only read: it is executed several times."""
    bare = _QUOTED.sub("''", statement)
    writes = _WRITES.search(bare)
    if not _READS.match(bare) or writes:
        first = " ".join((writes[0] if writes else bare).split())[:40]
        raise UsageError(
            problem,
            f"not a query that only reads: {first}",
            "a query begins with SELECT, WITH, VALUES, TABLE or FROM and changes or locks no rows; "
            "for statements that write use --driver pgbench or sysbench",
        )


def _check_answers(folder: SqlFolder, executions: Sequence[Execution[Query]]) -> Iterator[Check]:
    """Compare each answer with its file; those without one are not compared, which is unknown."""
    missing = []
    for execution in executions:
        name = execution.statement.query
        if not execution.finished:
            continue
        if name not in folder.answers:
            missing.append(name)
            continue
        expected = read_answer(f"{ANSWERS}/{name}.csv", folder.answers[name])
        agreement = compare_rows(expected, execution.rows)
        status: CheckStatus = "passed" if agreement.agrees else "failed"
        yield Check("answer", status, agreement.detail, execution.statement.labels)
    if missing:
        reason = f"not compared: {ANSWERS}/ has no file of {', '.join(missing)}"
        yield Check("answers-compared", "unknown", reason)


def _check_data(folder: SqlFolder, engine: Engine) -> Iterator[Check]:
    """Run ``check.sql``: a row of any statement in it is a failure."""
    for number, statement in enumerate(split(folder.check, engine.backslash_escapes), 1):
        labels = {"statement": str(number)}
        try:
            with closing(engine.connect()) as connection:
                rows = connection.execute(statement).rows
        except RunFailed as error:  # it has checked nothing
            yield Check(CHECK, "unknown", f"{error.problem}: {error.context}", labels)
            continue
        detail = f"{len(rows)} rows, the first: {_shown(rows[0])}" if rows else "no rows"
        yield Check(CHECK, "failed" if rows else "passed", detail, labels)


def _stored(rows: Sequence[Sequence[Scalar]]) -> dict[str, Any]:
    """Rows in an order that does not depend on the engine's."""
    kept = sorted(([encode(value) for value in row] for row in rows), key=canonical_json)
    return {"row_count": len(rows), "rows": kept[:_STORED_ROWS]}


def _shown(row: Sequence[Scalar]) -> str:
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"


WORKLOAD = Sql()
