"""Common parts of Spark on this host and on a cluster: the driver program, tables and plans."""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from engines._json_worker import Worker, WorkerConnection, WorkerEngine, WorkerError
from engines._loading import verify_counts
from engines.spark.configuration import JAVA_OPTIONS, checked, heap_bytes, installed, recorded
from engines.spark.explain import translate
from harness import jsonfile
from harness.engine import EngineContext, EngineVersion, LoadRequest, MemoryPolicy
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan
from harness.sql_files import statements
from harness.sql_script import head
from harness.supervise.failures import log_tail
from harness.supervise.listeners import ANY_PORT
from harness.supervise.silence import limit_s, phase
from harness.supervise.user_files import write_text
from harness.units import format_ns
from harness.warnings import RunWarning

#: Executed at each start, without tables: else the first query would load Spark's classes and
#: compile its first code, which takes seconds.
_WARM_UP = """
select a.k, count(distinct b.v), sum(b.v * 1.5) from (select id % 7 k from range(100)) a
join (select id % 11 k, id v from range(1000)) b on a.k = b.k
where b.v > (select avg(id) from range(10)) group by a.k order by 2 desc, 1 limit 3
"""
#: The definitions of the tables, next to their folders, and a view of a file that is loaded.
TABLES, _SOURCE = "_tables.json", "tierbench_source"
#: Of one start alone: runs that differ in nothing else are compared.
_OF_A_START = {
    "spark.app.id",
    "spark.app.startTime",
    "spark.app.submitTime",
    "spark.driver.port",
    "spark.sql.warehouse.dir",
}
#: For how long a statement waits once a cluster's executors are all lost. Until the first one has
#: registered, the limit of the start holds.
_WITHOUT_EXECUTORS_S = 60
#: Share of the queries' time during which a task is at work, below which a tier shows little.
_LEAST_AT_WORK = 0.5


class SparkConnection(WorkerConnection):
    """A session of the driver's."""

    def explain(self, sql: str) -> Mapping[str, Any]:
        """Execute ``sql`` and return its plan with its SQL metrics."""
        try:
            return self._worker.request("explain", connection=self._number, sql=sql, limit_s=None)
        except WorkerError as error:
            raise RunFailed(f"{self._worker.title}: {head(sql)}", str(error)) from error

    def cancel(self) -> None:
        self._worker.request("cancel", connection=self._number)


class SqlOnSpark(WorkerEngine, ABC):
    """Runs SQL in a driver process of ours, as the unprivileged user."""

    name = "spark"
    sql_folder: Path = Path(__file__).parent / "sql"
    load_format = "parquet"
    #: Of the driver's process.
    _memory: MemoryPolicy | None = None
    unchangeable = "its tables are Parquet files, in which Spark changes no rows"

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        self._context = context
        self._installation = installed(context.options, context.engines_prefix)
        self._settings = checked(context, self._installation)
        self._user = context.credentials
        self._log = context.scratch / "spark.log"

    @abstractmethod
    def _configuration(self) -> Mapping[str, str]:
        """Return the settings that are not the tuning profile's."""

    @abstractmethod
    def _location(self, *names: str) -> str:
        """Return the URL of a folder or file of the data in use."""

    def version(self) -> EngineVersion:
        return self._installation

    def start(self) -> None:
        """Start the driver, have it execute a query without tables, and define the tables."""
        if self._worker is not None:
            return
        scratch = self._context.scratch
        classes = self._installation.compiled_driver(self._context)
        log4j = scratch / "log4j2.properties"
        write_text(log4j, Path(__file__).with_name(log4j.name).read_text("utf-8"), self._user)
        heap = heap_bytes(self._settings)
        command = self._installation.command(
            classes,
            f"-Xmx{heap >> 20}m",
            "-XX:-UseContainerSupport",  # it reads the control group's files all the time
            f"-Djava.io.tmpdir={scratch}",
            f"-Dlog4j2.configurationFile=file:{log4j}",
            *shlex.split(self._settings.get(JAVA_OPTIONS, "")),
        )
        process = self._context.processes.spawn(
            [*command, "tierbench.spark.Driver"],
            cwd=scratch,
            log=self._log,
            credentials=self._user,
            memory=self._memory,
            traced=True,
            pipes=True,
            listens=ANY_PORT,
        )
        self._worker = Worker(self._installation.title, process, self._log, self._user)
        conf = {**self._settings, **self._configuration()}
        try:
            with phase("start"):
                self._open(conf)
                with closing(self.connect()) as connection:
                    connection.execute(_WARM_UP, timeout_s=limit_s("start"))
                self._define_tables()
        except BaseException:
            self.kill()
            raise

    def _open(self, conf: Mapping[str, str]) -> None:
        try:
            self._request("open", conf=conf, without_executors_s=_WITHOUT_EXECUTORS_S)
        except RunFailed as error:
            lines = log_tail(self._log, self._user)
            context = f"{error.context}\nthe last lines of the driver's log:\n{lines}"
            raise RunFailed(f"start {self._installation.title}", context, error.hint) from error

    def connect(self) -> SparkConnection:
        return SparkConnection(self._running, next(self._numbers))

    def explain(self, connection: Any, sql: str) -> ExecutedPlan:
        """Execute ``sql`` once more; Spark measures its operators in every execution."""
        return translate(connection.explain(sql))

    def counters(self) -> Mapping[str, float]:
        """Return sums over all tasks that have ended since the start (Tasks.java)."""
        sums = self._request("counters")["counters"]
        return {name: float(value) for name, value in sums.items()}

    def query_warnings(
        self, counters: Mapping[str, float], duration_ns: float
    ) -> Iterator[RunWarning]:
        """Warn about queries during most of whose time no task was at work."""
        at_work_ns = counters.get("spark_tasks_at_work_ns")
        if at_work_ns is not None and at_work_ns < _LEAST_AT_WORK * duration_ns:
            yield RunWarning(
                code="tasks-rarely-at-work",
                problem="Spark had no task at work during most of the queries' time",
                context=f"tasks were at work for {format_ns(at_work_ns)} of "
                f"{format_ns(duration_ns)}: the rest is planning, starting stages and collecting "
                "results, which no tier changes",
                hint="raise --scale, or lower spark.sql.shuffle.partitions with --set",
            )

    def effective_config(self) -> Mapping[str, str]:
        """Return what the driver reports, without secrets and what each start draws."""
        settings = self._request("configuration")["configuration"]
        return recorded({n: v for n, v in settings.items() if n not in _OF_A_START})

    def bulk_load(self, request: LoadRequest) -> None:
        """Tables are folders of Parquet files: copies, or rewritten where types differ.

        Keys and indexes are left out. Counts verified.
        """
        for stage in sorted(path.stem for path in request.schema.glob("[2-4]*")):
            for statement in statements(request.schema, stage):
                if not _KEYS.match(statement):
                    context = "Spark's tables have only rows: no triggers, for instance"
                    raise RunFailed(head(statement), context, "leave it out of tables.sql")
        texts = json.dumps(statements(request.schema, "10_tables"))
        self._request("write", path=self._location(TABLES), text=texts, replace=True)
        self._define_tables()
        with (
            request.progress.task("loading tables", request.size_bytes, "B") as task,
            closing(self.connect()) as connection,
        ):
            for table, paths in request.files.items():
                if not paths:
                    continue
                if self.kind == "external" or self._fits(connection, table, paths[0]):
                    names = [str(path) for path in paths]
                    self._request("copy", path=self._location(_folder(table)), files=names)
                    connection.execute(f"refresh table {table}")
                else:
                    for path in paths:
                        self._insert(connection, table, path)
                task.advance(sum(path.stat().st_size for path in paths), note=table)
            for statement in statements(request.schema, "15_rows"):
                connection.execute(statement)
            loaded = {
                table: int(str(connection.execute(f"select count(*) from {table}").rows[0][0]))
                for table in request.files
            }
        verify_counts(loaded, request.row_counts)

    def _fits(self, connection: SparkConnection, table: str, path: Path) -> bool:
        """Return whether the file has the columns and types of the table."""
        _view(connection, path)
        return _columns(connection, table) == _columns(connection, _SOURCE)

    def _insert(self, connection: SparkConnection, table: str, path: Path) -> None:
        """Insert the rows of a file, whose columns may have another order and other types."""
        _view(connection, path)
        values = ", ".join(
            f"cast({name} as {kind}) as {name}" for name, kind in _columns(connection, table)
        )
        connection.execute(f"insert into {table} by name select {values} from {_SOURCE}")

    def _define_tables(self) -> None:
        """Have the driver know the tables: its catalog is in its memory."""
        text = self._request("read", path=self._location(TABLES)).get("text", "[]")
        with closing(self.connect()) as connection:
            for statement in jsonfile.parse(text):
                table, definition = created(statement)
                where = self._location(_folder(table))
                connection.execute(f"drop table if exists {table}")
                connection.execute(f"{definition} using parquet location '{where}'")

    def _request(self, op: str, **fields: Any) -> Mapping[str, Any]:
        try:
            limit = limit_s("start") if op == "open" else limit_s("statement")
            return self._running.request(op, timeout_s=limit, **fields)
        except WorkerError as error:
            raise RunFailed(f"{self._installation.title}: {op}", str(error)) from error


def _folder(table: str) -> str:
    return re.sub(r"\W+", "_", table.lower()).strip("_")


def _view(connection: SparkConnection, path: Path) -> None:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    connection.execute(
        f"create or replace temporary view {_SOURCE} using parquet "
        f"options (path 'file://{escaped}')"
    )


def _columns(connection: SparkConnection, table: str) -> list[tuple[str, str]]:
    """Return the columns of a table or view, with their types."""
    rows = connection.execute(f"describe {table}").rows
    return [(f"`{name}`", str(kind)) for name, kind, *_ in rows]


# The user's CREATE TABLE statements as Spark takes them: Parquet files have no keys --------------

_NAME, _PARENTHESES = r"(?:\w+|`[^`]+`)", r"\((?:[^()]|\([^()]*\))*\)"
_CREATED = re.compile(
    rf"create\s+table\s+(?:if\s+not\s+exists\s+)?(?P<name>{_NAME})\s*(?P<rest>\(.*)", re.I | re.S
)
#: Statements of ``tables.sql`` that only make keys and indexes.
_KEYS = re.compile(
    r"create\s+(?:unique\s+)?index\b"
    rf"|alter\s+table\b.*\badd\s+(?:constraint\s+{_NAME}\s+)?"
    r"(?:primary\s+key|unique|foreign\s+key|check)\b",
    re.I | re.S,
)
_QUOTED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`"
_TOKEN = re.compile(rf"{_QUOTED}|[(),]", re.S)
_ACTION = r"(?:cascade|restrict|no\s+action|set\s+(?:null|default))"
_CONSTRAINT = (
    rf"(?:\bconstraint\s+{_NAME}\s+)?\b(?:primary\s+key|unique|check\s*{_PARENTHESES}"
    rf"|references\s+{_NAME}(?:\.{_NAME})*(?:\s*{_PARENTHESES})?"
    rf"(?:\s+on\s+(?:delete|update)\s+{_ACTION})*)"
)
_OF_COLUMN = re.compile(rf"(?P<quoted>{_QUOTED})|\s*{_CONSTRAINT}", re.I | re.S)
_OF_TABLE = re.compile(
    rf"(?:constraint\s+{_NAME}\s+)?(?:primary\s+key|foreign\s+key|unique\s*\(|check\s*\()", re.I
)


def created(statement: str) -> tuple[str, str]:
    """Return a table's name and the statement that creates it, without keys and constraints.

    NOT NULL stays. RunFailed for any other statement.
    """
    match = _CREATED.fullmatch(statement.strip())
    if match is None:
        raise RunFailed(
            f"Spark: {head(statement)}",
            "not the definition of a table",
            "write create table NAME (COLUMN TYPE, …)",
        )
    columns, rest = _members(match["rest"])
    definitions = [
        _OF_COLUMN.sub(lambda name: name["quoted"] or "", column).strip()
        for column in columns
        if not _OF_TABLE.match(column.strip())
    ]
    return match["name"], f"create table {match['name']} ({', '.join(definitions)}){rest}"


def _members(text: str) -> tuple[list[str], str]:
    """Divide what begins with a parenthesis at its commas; return also what follows its end."""
    members, depth, begin = [], 0, 1
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 or (depth == 1 and token[0] == ","):
            members.append(text[begin : token.start()])
            begin = token.end()
        if depth == 0:
            break
    return members, text[begin:]
