"""Spark SQL as an engine: tables in Parquet files, queries in a driver process of ours.

Spark on this host is one process, whose threads execute the tasks. ``data`` is the folder of
Parquet files, ``temp`` has what a query shuffles and spills. external.py has the user's cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engines._installation import workloads_in
from engines._thread_waits import ThreadObserver
from engines.spark.configuration import installed, local, settings_of_file
from engines.spark.external import SparkCluster
from engines.spark.sql import SqlOnSpark
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import (
    DataDirectories,
    EngineContext,
    EngineFactory,
    EngineKind,
    MemoryPolicy,
)
from harness.experiment.placement import Part
from harness.supervise.user_files import acting_as, make_directory

_FOLDER = "spark"
#: Threads of tasks, of statements, and of what the driver does for them; Linux shortens names.
_FOREGROUND = ("Executor task ", "connection ", "broadcast-excha", "subquery-")


class LocalSpark(SqlOnSpark):
    """Spark in one process on directories of the run."""

    kind: EngineKind = "embedded"
    supported_parts: frozenset[Part] = frozenset({"data", "temp", "memory"})
    traced = True
    background_threads = ()

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context, installed(context.options, context.engines_prefix))
        self._directories: DataDirectories | None = None

    def initialise(self, directories: DataDirectories) -> None:
        self._use(directories)
        make_directory(self._data, self._user)

    def snapshot(self, dataset: Path) -> None:
        """Move the folder of Parquet files to ``dataset``."""
        if self._worker is not None:
            raise RuntimeError("stop comes first")
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
        return local(scratch, scratch / "temp", threads)

    @property
    def _memory(self) -> MemoryPolicy | None:
        return self._placed.memory

    def _location(self, *names: str) -> str:
        return "/".join(["file://" + str(self._context.scratch / "data"), *names])

    def _use(self, directories: DataDirectories) -> None:
        """Link the directories to names without commas and such, which Spark's settings take."""
        self._directories = directories
        links = {"data": self._data, "temp": directories["temp"]}
        with acting_as(self._user):
            for name, target in links.items():
                link = self._context.scratch / name
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    @property
    def _data(self) -> Path:
        return self._placed["data"] / _FOLDER

    @property
    def _placed(self) -> DataDirectories:
        if self._directories is None:
            raise RuntimeError("initialise or restore comes first")
        return self._directories


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
