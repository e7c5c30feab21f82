"""Spark SQL as an engine: tables in Parquet files, queries in a driver process of ours.

Spark on this host is one process, whose threads execute the tasks. ``data`` is the folder of
Parquet files, ``temp`` has what a query shuffles and spills.

On the user's own cluster, our driver is in client mode, and all files are where its executors reach
them. Each dataset is a folder of its own below the engine option ``location``, with a mark, a file.
Only folders with that mark are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engines._external import ExternalServer
from engines._installation import workloads_in
from engines._thread_waits import ThreadObserver
from engines.spark.configuration import (
    AUTHENTICATE,
    cluster,
    installed,
    local,
    settings_of_file,
)
from engines.spark.sql import TABLES, SparkConnection, SqlOnSpark
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import (
    DataDirectories,
    EngineFactory,
    EngineKind,
)
from harness.experiment.placement import Part
from harness.store.spec import JsonObject
from harness.supervise.user_files import acting_as, make_directory

_FOLDER, _MARK = "spark", "_tierbench.json"
#: Threads of tasks, of statements, and of what the driver does for them; Linux shortens names.
_FOREGROUND = ("Executor task ", "connection ", "broadcast-excha", "subquery-")
_EXPOSED = (
    f"{AUTHENTICATE} is false: whoever reaches the driver's port can run code with the rights of "
    "its user"
)


class LocalSpark(SqlOnSpark):
    """Spark in one process on directories of the run."""

    kind: EngineKind = "embedded"
    supported_parts: frozenset[Part] = frozenset({"data", "temp", "memory"})
    traced = True
    background_threads = ()
    _placed: DataDirectories

    def initialise(self, directories: DataDirectories) -> None:
        self._use(directories)
        make_directory(self._data, self._user)

    def snapshot(self, dataset: Path) -> None:
        """Move the folder of Parquet files to ``dataset``."""
        move_tree(self._data, dataset / _FOLDER, self._user)
        make_durable(dataset)

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy the Parquet files into the directory of ``data``."""
        self._use(directories)
        copy_tree(dataset / _FOLDER, self._data, writer=self._user)

    def files(self) -> Sequence[Path]:
        return [self._data]

    def wait_observer(self) -> ThreadObserver:
        """System calls of these threads; idle ones wait for a task, or for others' tasks."""
        return ThreadObserver(
            self.processes,
            foreground=lambda name: name.startswith(_FOREGROUND),
            is_log=lambda _: False,
            idle=frozenset({"futex", "poll", "sleep", "recv", "send"}),
        )

    def _configuration(self) -> Mapping[str, str]:
        scratch, threads = self._context.scratch, self._context.threads
        return local(scratch, scratch / "temp", threads, self._context.options)

    def _location(self, *names: str) -> str:
        return "/".join(["file://" + str(self._context.scratch / "data"), *names])

    def _use(self, directories: DataDirectories) -> None:
        """Link the directories to names without commas and such, which Spark's settings take."""
        self._placed, self._memory = directories, directories.memory
        links = {"data": self._data, "temp": directories["temp"]}
        with acting_as(self._user):
            for name, target in links.items():
                link = self._context.scratch / name
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    @property
    def _data(self) -> Path:
        return self._placed["data"] / _FOLDER


class SparkCluster(SqlOnSpark, ExternalServer[SparkConnection]):
    """Runs SQL with the executors of the user's cluster."""

    kind: EngineKind = "external"
    schema_word = "folder"
    holder_word = "location"
    longest_schema_name = 255
    _title = "Spark"

    def data_bytes(self) -> int | None:
        """Size of the Parquet files."""
        return int(self._request("size", path=self._location())["bytes"])

    def prepared(self, key: str) -> JsonObject | None:
        facts = super().prepared(key)
        if facts is not None:
            self._define_tables()
        return facts

    def _stored_mark(self, schema: str) -> str | None:
        if self._names(schema) is None:
            return None
        return str(self._request("read", path=self._in(schema, _MARK)).get("text", ""))

    def _create(self, schema: str, mark: str) -> None:
        """Make the mark, which fails where another harness makes it at the same time."""
        self._request("write", path=self._in(schema, _MARK), text=mark, replace=False)

    def _set_mark(self, schema: str, mark: str) -> None:
        self._request("write", path=self._in(schema, _MARK), text=mark, replace=True)

    def _drop(self, schema: str, ours: Mapping[str, set[str]]) -> None:
        if others := sorted(set(self._names(schema) or ()) - {*ours["table"], TABLES, _MARK}):
            raise self._not_ours(schema, others)
        self._request("remove", path=self._in(schema))

    def _lock(self) -> Callable[[], None]:
        """No lock: the cluster's manager divides it among applications."""
        return lambda: None

    def _close_monitor(self) -> None:
        """There is none: counters are the driver's."""

    def _names(self, schema: str) -> Sequence[str] | None:
        names: Sequence[str] | None = self._request("list", path=self._in(schema)).get("names")
        return names

    def exposed(self) -> str:
        return "" if self._settings[AUTHENTICATE].lower() == "true" else _EXPOSED

    @property
    def _address(self) -> str:
        return str(self._context.options["location"])

    def _configuration(self) -> Mapping[str, str]:
        return cluster(self._context.scratch, self._context.options)

    def _in(self, *names: str) -> str:
        return "/".join([self._address.rstrip("/"), *names])

    def _location(self, *names: str) -> str:
        return self._in(*([] if self._schema is None else [self._schema]), *names)


ENGINE = EngineFactory(
    name="spark",
    title="Spark SQL",
    kinds=("embedded", "external"),
    options={
        "prefix": "folder of the Spark distribution to run (SPARK_HOME)",
        "version": "release to run of those found, such as 4.3",
        "java": "folder of the JDK to run it with: it has bin/java [the one on the PATH]",
        "master": "use this cluster: spark://HOST:PORT, yarn or k8s://URL",
        "location": "with master: URL of the folder for tables, such as s3a://bucket/folder",
        "conf": "file of settings, secrets too, as spark-defaults.conf",
    },
    workloads=(*workloads_in(LocalSpark.sql_folder), "sql"),
    placeable=LocalSpark.supported_parts,
    not_placeable={
        "wal": "its tables are read only: it has no log",
        "index": "Parquet files have no indexes",
    },
    make=LocalSpark,
    installation=installed,
    settings_of_file=settings_of_file,
    external=SparkCluster,
    external_option="master",
)
