"""The user's own cluster: our driver in client mode, its executors, files that all of them reach.

Each dataset is a folder of its own below the engine option ``location``, with a mark, a file. Only
folders with that mark are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engines._external import ExternalServer
from engines.spark.configuration import cluster, installed
from engines.spark.sql import TABLES, SparkConnection, SqlOnSpark
from harness.engine import EngineContext, EngineKind, MemoryPolicy
from harness.store.spec import JsonObject

_MARK = "_tierbench.json"


class SparkCluster(SqlOnSpark, ExternalServer[SparkConnection]):
    """Runs SQL with the executors of the user's cluster."""

    kind: EngineKind = "external"
    schema_word = "folder"
    holder_word = "location"
    longest_schema_name = 255
    _title = "Spark"

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context, installed(context.options, context.engines_prefix))
        self._options = context.options

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
        found: Sequence[str] | None = self._request("list", path=self._in(schema)).get("names")
        return found

    @property
    def _address(self) -> str:
        return str(self._options["location"])

    @property
    def _memory(self) -> MemoryPolicy | None:
        return None

    def _configuration(self) -> Mapping[str, str]:
        return cluster(self._context.scratch, self._options)

    def _in(self, *names: str) -> str:
        return "/".join([self._address.rstrip("/"), *names])

    def _location(self, *names: str) -> str:
        return self._in(*([] if self._schema is None else [self._schema]), *names)
