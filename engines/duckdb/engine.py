"""DuckDB as an engine: one database file, opened by a worker process.

DuckDB writes its WAL next to the database file. It resolves links in the file's path first and
replaces the WAL file at each checkpoint, so a link cannot place the WAL. If the WAL's directory is
on another file system, the database file is bind-mounted into it for the worker (worker.py), and
the WAL appears next to the mount. On the same file system, it is next to the database file. What
is committed during a checkpoint is in a second file, and recovery writes a third one.
Indexes are inside the database file and cannot be placed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from engines._installation import workloads_in
from engines._json_worker import Worker, WorkerConnection, WorkerEngine, WorkerError
from engines._loading import verify_counts
from engines._settings import SettingTable
from engines._thread_waits import GROUP_COMMIT, ThreadObserver
from engines.duckdb import explain
from engines.duckdb.installation import Installation, choose
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import (
    CannotExplain,
    DataDirectories,
    EngineContext,
    EngineFactory,
    EngineKind,
    EngineVersion,
    LoadRequest,
    SqlConnection,
)
from harness.errors import RunFailed, UsageError, nearest
from harness.experiment.placement import Part
from harness.progress import Task
from harness.query_plan import ExecutedPlan
from harness.sql_files import statements
from harness.supervise.silence import limit_s, phase
from harness.supervise.user_files import acting_as, make_directory, write_text
from harness.units import KIB

_FILE = "harness.duckdb"
_FOLDER = "duckdb"
#: After the database file's name: the WAL, that of commits during a checkpoint, both joined.
_WALS = (".wal", ".wal.checkpoint", ".wal.recovery")
_MEMORY_SHARE = 0.8  # DuckDB's own default share of the memory
#: ``storage_version`` is the file's; the setting may be "latest".
_CONFIGURATION = """
    SELECT name, value FROM duckdb_settings()
"""
_STORAGE_VERSION = """
    UNION ALL SELECT 'storage_version', tags['storage_version'] FROM duckdb_databases()
    WHERE database_name = current_database()
"""
_SETTINGS = SettingTable.read(Path(__file__).parent)


class DuckDB(WorkerEngine):
    """One DuckDB database in a worker process."""

    name = "duckdb"
    kind: EngineKind = "embedded"
    supported_parts: frozenset[Part] = frozenset({"data", "wal", "temp", "memory"})
    sql_folder: Path = Path(__file__).parent / "sql"
    load_format = "parquet"
    traced = True
    background_threads = ()
    _placed: DataDirectories

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        self._context = context
        self._installation = choose(context.options, context.engines_prefix)
        self._settings = _settings(context, self._installation)
        self._loading = False
        self._user = context.credentials
        self._log = context.scratch / "duckdb.log"

    def version(self) -> EngineVersion:
        return self._installation

    def format_options(self) -> Mapping[str, str]:
        """Block size, compression and so on, where a setting changes them."""
        stored = _SETTINGS.stored_of(self._settings)
        return {name: stored[name] for name in stored if name in self._installation.settings}

    def initialise(self, directories: DataDirectories) -> None:
        """Make an empty database file; until a restore, ``start`` uses the settings for loading."""
        self._loading = True
        self._use(directories)
        make_directory(self._database.parent, self._user)
        if self._wal_apart:  # the mount needs a file, which DuckDB makes first
            self._start(self._database, bind=None)
            self.stop()
        self.start()
        self.stop()

    def start(self) -> None:
        """Start the worker and open the database with the tuning profile's settings.

        After ``initialise``, only with those that are part of the dataset's key, so that a dataset
        does not depend on the profile that loaded it.
        """
        if self._worker is None:
            self._start(self._opened, bind=self._database if self._wal_apart else None)

    def _start(self, opened: Path, bind: Path | None) -> None:
        """Start the worker and have it open ``opened``; ``bind``: the file to mount there first.

        It starts as root: another user may be unable to enter the installation or to mount.
        """
        process = self._context.processes.spawn(
            [sys.executable, "-X", "utf8", "-m", "engines.duckdb.worker"],
            # For checksums that compare between runs.
            env={"PYTHONHASHSEED": "0", **self._installation.environment},
            log=self._log,
            log_owner=self._user,
            memory=self._placed.memory,
            traced=True,
            pipes=True,
        )
        self._worker = Worker("DuckDB", process, self._log, self._user)
        fixed = {"temp_directory": str(self._placed["temp"]), **_SETTINGS.values_where_known}
        applied = {name: fixed[name] for name in fixed if name in self._installation.settings}
        request = {
            "path": str(opened),
            "bind": None if bind is None else str(bind),
            "config": {**self._configuration(), **applied},
            "user": None if self._user is None else [self._user.uid, self._user.gid],
            "home": str(self._context.scratch),
        }
        try:
            with phase("start"):  # which may replay a WAL
                self._worker.request("open", timeout_s=limit_s("start"), **request)
            self._verify_paths(process.pid, opened)
        except WorkerError as error:
            self.kill()
            raise RunFailed(
                "open the DuckDB database",
                str(error),
                "a WAL on another tier than the data needs a mount namespace: run as root, "
                "or allow unprivileged user namespaces"
                if bind
                else "",
            ) from error
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Checkpoint, close the database and end the worker; RunFailed if a WAL is left."""
        if self._worker is None:
            return
        super().stop()
        if left := self._wals():
            listed = ", ".join(map(str, left))
            raise RunFailed("close the DuckDB database", f"its WAL is not empty: {listed}")

    def connect(self) -> SqlConnection:
        return WorkerConnection(self._running, next(self._numbers))

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """Execute ``sql`` under EXPLAIN ANALYZE; see explain.py for its times.

        CannotExplain where the release has another form of plans.
        """
        if not self._installation.has_plans:
            raise CannotExplain(f"{self._installation.title} reports no plans as from 2.0 on")
        return explain.explain(connection, sql)

    def wait_observer(self) -> ThreadObserver:
        """System calls of the worker's threads. Idle ones wait for a task, or for a statement."""
        return ThreadObserver(
            self.processes,
            foreground=None,
            is_log=lambda path: path.endswith(_WALS),
            idle=frozenset({"futex", GROUP_COMMIT, "poll", "sleep", "recv", "send"}),
        )

    def bulk_load(self, request: LoadRequest) -> None:
        """Schema, Parquet files, keys, indexes, statistics, checkpoint; counts verified."""
        with closing(self.connect()) as connection:
            for stem in ("10_tables", "15_rows"):
                for statement in statements(request.schema, stem):
                    connection.execute(statement)
            with request.progress.task("loading tables", request.size_bytes, "B") as task:
                loaded = {
                    table: _insert(connection, table, paths, task)
                    for table, paths in request.files.items()
                    if paths
                }
            verify_counts(loaded, request.row_counts)
            for stem in ("20_keys", "30_indexes", "40_foreign_keys", "45_final", "50_analyze"):
                texts = statements(request.schema, stem) or (
                    ["ANALYZE"] if stem == "50_analyze" else []
                )
                what = stem[3:].replace("_", " ")
                with request.progress.task(f"building {what}", total=len(texts)) as task:
                    for statement in texts:
                        connection.execute(self._installation.key_of(statement))
                        task.advance()
            connection.execute("CHECKPOINT")

    def effective_config(self) -> Mapping[str, str]:
        """Settings that have a value, and the file's storage version; no secrets."""
        with closing(self.connect()) as connection:
            rows = connection.execute(self._all_settings).rows
        return _SETTINGS.record(
            {str(name): str(value) for name, value in rows if value not in (None, "", "NULL")}
        )

    @property
    def _all_settings(self) -> str:
        stored = _STORAGE_VERSION if self._installation.has_storage_version else ""
        return _CONFIGURATION + stored

    def counters(self) -> Mapping[str, float]:
        """``spilled_bytes`` (see worker.py); DuckDB itself has no cumulative counters."""
        spilled = self._running.request("counters")["spilled_bytes"]
        return {} if spilled is None else {"spilled_bytes": float(spilled)}

    def files(self) -> Sequence[Path]:
        return [self._database, *self._wals()]

    def _wals(self) -> list[Path]:
        """The files of the WAL that exist."""
        with acting_as(self._user):
            files = [self._opened.with_name(f"{_FILE}{suffix}") for suffix in _WALS]
            return [file for file in files if file.exists()]

    def snapshot(self, dataset: Path) -> None:
        """Move the closed database file to ``dataset``."""
        move_tree(self._database.parent, dataset / _FOLDER, self._user)
        make_durable(dataset)

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy the database file into the directory of ``data``."""
        self._loading = False
        self._use(directories)
        copy_tree(dataset / _FOLDER, self._database.parent, writer=self._user)

    def _configuration(self) -> Mapping[str, str]:
        if not self._loading:
            return self._settings
        resources = self._installation.spelled(_resources(self._context))
        return {**resources, **self.format_options()}

    @property
    def _database(self) -> Path:
        return self._placed["data"] / _FOLDER / _FILE

    @property
    def _wal_apart(self) -> bool:
        """Return whether the directories of ``wal`` and ``data`` are on different file systems."""
        return self._placed["wal"].stat().st_dev != self._placed["data"].stat().st_dev

    @property
    def _opened(self) -> Path:
        """The path that DuckDB opens; the WAL's files are next to it."""
        return self._placed["wal"] / _FILE if self._wal_apart else self._database

    def _use(self, directories: DataDirectories) -> None:
        self._placed = directories
        if self._wal_apart:
            write_text(self._opened, "", self._user)

    def _verify_paths(self, pid: int, path: Path) -> None:
        """RunFailed unless the worker opened the file in ``data`` by the path of the WAL."""
        with closing(self.connect()) as connection:
            opened = str(connection.execute("PRAGMA database_list").rows[0][2])
        with acting_as(self._user):
            if Path(opened).resolve() != path.resolve():
                raise RunFailed(f"WAL in {path.parent}", f"DuckDB has opened {opened}")
            database = self._database.lstat()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(descriptor.stat(), database):
                    return
        raise RunFailed(f"open {self._database}", "DuckDB has opened another file")


def _insert(connection: SqlConnection, table: str, paths: Sequence[Path], task: Task) -> int:
    """Insert the rows of Parquet files into an empty table, and count them there.

    Files that have the same columns, in one statement.
    """
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for path in paths:
        name = "'" + str(path).replace("'", "''") + "'"
        described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet([{name}])").rows
        columns = tuple((f'"{row[0]}"', str(row[1])) for row in described)
        alike.setdefault(tuple(sorted(columns)), []).append(name)
    kinds = {f'"{row[0]}"'.lower(): row[1] for row in connection.execute(f"DESCRIBE {table}").rows}
    for columns, names in alike.items():
        listed = ", ".join(name for name, _ in columns)
        # Bytes without the mark of UTF-8: DuckDB would write each as a number.
        values = ", ".join(
            f"decode({name})" if (kind, kinds.get(name.lower())) == ("BLOB", "VARCHAR") else name
            for name, kind in columns
        )
        # As BY NAME does, which releases before 0.8 do not have.
        connection.execute(
            f"INSERT INTO {table} ({listed}) "
            f"SELECT {values} FROM read_parquet([{', '.join(names)}])"
        )
    task.advance(sum(path.stat().st_size for path in paths), note=table)
    return int(str(connection.execute(f"SELECT count(*) FROM {table}").rows[0][0]))


def _settings(context: EngineContext, installation: Installation) -> dict[str, str]:
    """The profile's settings, and always threads and memory limit."""
    settings = dict(context.settings)
    _SETTINGS.refuse_fixed("DuckDB", {name: name for name in settings})
    resources = _resources(context)
    if "max_memory" in settings:
        del resources["memory_limit"]
    settings = installation.spelled(resources | settings)
    for name in settings:
        if name not in installation.settings:
            raise UsageError(
                f"{installation.title}: setting {name!r}",
                f"no such setting{nearest(name, sorted(installation.settings))}",
                "SELECT name FROM duckdb_settings() lists them",
            )
    set_by_user = settings != installation.spelled(_resources(context))
    if set_by_user and (error := installation.error_of(settings)):
        raise UsageError("DuckDB settings", error, "correct the value")
    return settings


def _resources(context: EngineContext) -> dict[str, str]:
    """DuckDB's defaults for threads and memory, of what the run may use."""
    memory = context.memory_limit_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = f"{int(memory * _MEMORY_SHARE) // KIB}KiB"
    return {"threads": str(context.threads), "memory_limit": limit}


ENGINE = EngineFactory(
    name="duckdb",
    title="DuckDB",
    kinds=("embedded",),
    options={
        "version": "release to run, such as 0.6.1 (default: the harness's own package)",
        "prefix": "folder of a release, made by pip install --target FOLDER duckdb==RELEASE",
    },
    workloads=(*workloads_in(DuckDB.sql_folder), "sql"),
    placeable=DuckDB.supported_parts,
    make=DuckDB,
    installation=choose,
)
