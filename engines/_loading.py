"""The steps that every loader of rows goes through, over several connections.

Connections run jobs which depend on one another by table. A job belongs to a stage (copy, keys,
indexes …) and uses tables. It may start when every job of an earlier stage on its tables is done
and no running job holds a lock on them that would block it. So keys of one table are built while
another is still being copied, and no connection waits for a lock. Of the jobs that may start, the
heaviest starts first.
"""

from __future__ import annotations

import csv
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from engines._managed import AnyServer
from harness.engine import FillRequest, LoadRequest, SqlConnection
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements, text_of
from harness.sql_script import head, tables_of
from harness.store.spec import JsonObject

Connection = TypeVar("Connection", bound=SqlConnection)
#: Estimated size of a row that no file has, for what a loader sizes by its source.
_ROW_BYTES = 400


@dataclass(frozen=True, eq=False)
class LoadJob(Generic[Connection]):
    """``weight``: amount of work, in any unit. ``shared``: its locks on its tables are compatible
    with those of other shared jobs.
    """

    stage: int
    tables: frozenset[str]
    shared: bool
    weight: int
    run: Callable[[Connection], None]


class LoadSchedule(Generic[Connection]):
    """The waiting and the running jobs. Thread-safe."""

    def __init__(self, jobs: Sequence[LoadJob[Connection]]) -> None:
        self._waiting = sorted(jobs, key=lambda job: job.weight, reverse=True)
        self._running: list[LoadJob[Connection]] = []
        self._changed = threading.Condition()

    def take(self) -> LoadJob[Connection] | None:
        """Wait for a job that may start and return it; None if no job is left."""
        with self._changed:
            while self._waiting:
                for job in self._waiting:
                    if self._may_start(job):
                        self._waiting.remove(job)
                        self._running.append(job)
                        return job
                self._changed.wait()
            return None

    def done(self, job: LoadJob[Connection]) -> None:
        """Note that ``job`` has ended, successfully or not."""
        with self._changed:
            self._running.remove(job)
            self._changed.notify_all()

    def abandon(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def _may_start(self, job: LoadJob[Connection]) -> bool:
        for other in self._running:
            compatible = job.shared and other.shared and job.stage == other.stage
            if job.tables & other.tables and not compatible:
                return False
        return not any(o.stage < job.stage and o.tables & job.tables for o in self._waiting)


class Workers(Generic[Connection]):
    """``count`` connections, opened at the start of the block and closed at its end.

    Any exception during ``run``, Ctrl-C included, cancels the running statements, so that the
    harness does not wait for an obsolete index build.
    """

    def __init__(self, connect: Callable[[], Connection], count: int) -> None:
        self._connect = connect
        self._count = count
        self.connections: list[Connection] = []

    def __enter__(self) -> Workers[Connection]:
        try:
            for _ in range(self._count):
                self.connections.append(self._connect())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for connection in self.connections:
            connection.close()

    def run(self, jobs: Sequence[LoadJob[Connection]]) -> None:
        """Run all jobs; raises the first failure after cancelling the rest."""
        schedule = LoadSchedule(jobs)
        with ThreadPoolExecutor(self._count) as pool:
            futures = [pool.submit(_work, c, schedule) for c in self.connections]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()
            except BaseException:
                schedule.abandon()
                for connection in self.connections:
                    connection.cancel()
                raise


def _work(connection: Connection, schedule: LoadSchedule[Connection]) -> None:
    while (job := schedule.take()) is not None:
        try:
            job.run(connection)
        except BaseException:
            schedule.abandon()
            raise
        finally:
            schedule.done(job)


# Files and rows ---------------------------------------------------------------


def readable_by(server: AnyServer | None, files: Mapping[str, Sequence[Path]]) -> bool:
    """Return whether the server's own user may read all files; False for an external server."""
    return server is not None and server.can_read([p for paths in files.values() for p in paths])


def columns_in(file: Path, columns: Sequence[str]) -> list[str]:
    """Return the names in the first line of a CSV file, spelled as those of the table."""
    with file.open(encoding="utf-8", newline="") as stream:
        names = next(csv.reader(stream), [])
    spelled = {name.lower(): name for name in columns}
    return [spelled.get(name.lower(), name) for name in names]


def verify_counts(
    loaded: Mapping[str, int],
    expected: Mapping[str, int],
    hint: str = "the source files are incomplete: remove them with `harness data rm`",
) -> None:
    """Raise RunFailed for the first table whose number of rows is not the expected one."""
    for table, rows in expected.items():
        if (loaded_rows := loaded.get(table, 0)) != rows:
            raise RunFailed(f"load {rows} rows into {table}", f"{loaded_rows} were loaded", hint)


@contextmanager
def loading(file: Path) -> Iterator[None]:
    """Name the file in an error of a statement in it."""
    try:
        yield
    except RunFailed as error:
        raise RunFailed(f"load {file.name}", f"{error.problem}: {error.context}") from error
    except UnicodeDecodeError as error:
        hint = "dump binary columns as hexadecimal numbers (mysqldump --hex-blob)"
        raise RunFailed(f"load {file.name}", f"not UTF-8: {error}", hint) from error


class FileLoad(Generic[Connection]):
    """The files of one load and the rows loaded so far. Thread-safe."""

    def __init__(self, files: Mapping[str, Sequence[Path]], task: Task) -> None:
        self.files = files
        self.task = task
        self.bytes = {t: sum(p.stat().st_size for p in paths) for t, paths in files.items()}
        self.rows = dict.fromkeys(files, 0)
        self._lock = threading.Lock()

    def job(
        self,
        stage: int,
        table: str,
        weight: int,
        load: Callable[[Connection], int],
        *,
        shared: bool,
    ) -> LoadJob[Connection]:
        """Return a job that adds the rows which ``load`` returns to those of ``table``."""

        def run(connection: Connection) -> None:
            rows = load(connection)
            with self._lock:
                self.rows[table] += rows

        return LoadJob(stage, frozenset({table}), shared, weight, run)


class Loader(ABC, Generic[Connection]):
    """Loads a workload's tables over several connections."""

    def __init__(self, connect: Callable[[], Connection], threads: int) -> None:
        self._connect = connect
        self._connections = max(1, threads)

    @abstractmethod
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> AbstractContextManager[Workers[Connection]]:
        """Open connections to empty tables; all data are durable at the end of the block.

        A managed server runs with its settings for loading until then.
        """

    @abstractmethod
    def load_files(
        self,
        workers: Workers[Connection],
        request: LoadRequest,
        task: Task,
    ) -> Mapping[str, int]:
        """Load all files, then run ``final_jobs``; returns the rows loaded by table."""

    @abstractmethod
    def run_dump(self, dump: Path) -> None:
        """Run a script, on a connection of its own."""

    @abstractmethod
    def final_jobs(
        self, folder: Path, weights: Mapping[str, int], task: Task
    ) -> list[LoadJob[Connection]]:
        """Return all work on the filled tables, by stages; ``weights``: sizes, in any unit."""

    @abstractmethod
    def run(self, connection: Connection, sql: str, table: str = "") -> None:
        """Execute one statement, on behalf of ``table`` if one is given."""

    def _script_jobs(self, request: LoadRequest, task: Task) -> list[LoadJob[Connection]]:
        """Return a job for the schema's INSERT statements and the dumps, in their order.

        They have rows of any tables. It begins when all files are loaded, since a table may be
        truncated for its files.
        """
        inserts = statements(request.schema, "15_rows")

        def run(_: Connection) -> None:
            self.run_statements(inserts)
            for dump in request.dumps:
                with loading(dump):
                    self.run_dump(dump)
                task.advance(dump.stat().st_size, note=dump.name)

        size = sum(dump.stat().st_size for dump in request.dumps)
        some = bool(inserts or request.dumps)
        return [LoadJob(1, frozenset(request.files), False, size, run)] if some else []

    def run_statements(self, texts: Sequence[str]) -> None:
        """Execute a user's statements in their order, in a session of their own."""
        if texts:
            with closing(self._connect()) as connection:
                for text in texts:
                    self.run(connection, text)

    def _final_script(
        self, stage: int, folder: Path, weights: Mapping[str, int]
    ) -> list[LoadJob[Connection]]:
        """Return a job for what comes after keys and indexes: triggers, for example."""
        texts = statements(folder, "45_final")

        def run(_: Connection) -> None:
            self.run_statements(texts)

        return [LoadJob(stage, frozenset(weights), False, 0, run)] if texts else []

    def _statement_jobs(
        self,
        stages: Iterable[tuple[int, Sequence[str], bool]],
        weights: Mapping[str, int],
        task: Task,
        alone: Sequence[int] = (),
    ) -> list[LoadJob[Connection]]:
        """Return jobs for the statements of ``stages``: number, texts, whether they share tables.

        A statement uses the tables it names; all of them if it names none or its stage is one
        of ``alone``.
        """

        def job(stage: int, text: str, shared: bool) -> LoadJob[Connection]:
            tables = tables_of(text, weights) or list(weights)

            def run(connection: Connection) -> None:
                self.run(connection, text, tables[0])
                task.advance(0, note=head(text, 60))

            used = frozenset(weights if stage in alone else tables)
            return LoadJob(stage, used, shared, weights[tables[0]], run)

        return [job(stage, text, shared) for stage, texts, shared in stages for text in texts]

    def load(self, request: LoadRequest) -> None:
        """See Engine.bulk_load; ``schema`` holds ``10_tables.sql`` and so on."""
        total = request.size_bytes
        with (
            self.empty_tables(request.schema, total) as workers,
            request.progress.task("loading tables", total, "B") as task,
        ):
            verify_counts(self.load_files(workers, request, task), request.row_counts)

    def fill(
        self, folder: Path, request: FillRequest, connection: Callable[[], JsonObject]
    ) -> None:
        """See Engine.native_load; ``folder`` has ``procedures/`` too."""
        source_bytes = sum(request.row_counts.values()) * _ROW_BYTES
        with self.empty_tables(folder, source_bytes, request.params) as workers:
            stored = request.fill(connection())
            verify_counts(stored, request.row_counts, "load again; the server's log may say why")
            with request.progress.task("building indexes", total=None) as task:
                workers.run(self.final_jobs(folder, stored, task))
            for file in sorted((folder / "procedures").glob("*.sql")):
                self.run(workers.connections[0], text_of(file))
