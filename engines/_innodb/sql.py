"""What managed and external MySQL and MariaDB have in common: SQL, plans, loading, counters."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from engines._innodb import counters, durability, explain
from engines._innodb.connection import MySqlConnection, connecting
from engines._innodb.installation import Flavour
from engines._innodb.load import Loader, LoadingServer, Retries
from engines._innodb.window import warnings as window_warnings
from engines._innodb.wire import LazyConnection
from engines._jdbc import ThroughJdbc, innodb_properties
from engines._loading import LoadedBySql
from harness.engine import SqlConnection
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan
from harness.warnings import RunWarning

#: Settings worth recording even at their defaults, where the release knows them.
_ALWAYS = frozenset(
    {
        "autocommit",
        "character_set_server",
        "collation_server",
        "innodb_adaptive_flushing",
        "innodb_adaptive_flushing_lwm",
        "innodb_adaptive_hash_index",
        "innodb_buffer_pool_chunk_size",
        "innodb_buffer_pool_instances",
        "innodb_buffer_pool_size",
        "innodb_change_buffering",
        "innodb_checksum_algorithm",
        "innodb_ddl_threads",
        "innodb_doublewrite",
        "innodb_file_per_table",
        "innodb_flush_log_at_trx_commit",
        "innodb_flush_method",
        "innodb_flush_neighbors",
        "innodb_io_capacity",
        "innodb_io_capacity_max",
        "innodb_log_buffer_size",
        "innodb_log_file_size",
        "innodb_log_files_in_group",
        "innodb_max_dirty_pages_pct_lwm",
        "innodb_page_cleaners",
        "innodb_page_size",
        "innodb_parallel_read_threads",
        "innodb_random_read_ahead",
        "innodb_read_ahead_threshold",
        "innodb_read_io_threads",
        "innodb_redo_log_capacity",
        "innodb_stats_persistent_sample_pages",
        "innodb_use_native_aio",
        "innodb_write_io_threads",
        "internal_tmp_mem_storage_engine",
        "join_buffer_size",
        "log_bin",
        "lower_case_table_names",
        "max_connections",
        "max_heap_table_size",
        "optimizer_switch",
        "optimizer_use_condition_selectivity",
        "performance_schema",
        "query_cache_type",
        "read_buffer_size",
        "read_rnd_buffer_size",
        "sort_buffer_size",
        "sync_binlog",
        "temptable_max_mmap",
        "temptable_max_ram",
        "tmp_table_size",
        "transaction_isolation",
        "tx_isolation",
        "use_stat_tables",
        "version",
        "version_comment",
    }
)
_SECRET = ("password", "ssl_", "tls_", "_key", "init_file", "authentication_")
#: Names of the variables that somebody has set: by option, file or SQL.
_SET_SQL: Mapping[Flavour, str] = {
    "mysql": "SELECT variable_name FROM performance_schema.variables_info "
    "WHERE variable_source NOT IN ('COMPILED', 'DYNAMIC')",
    "mariadb": "SELECT variable_name FROM information_schema.system_variables "
    "WHERE global_value_origin NOT IN ('COMPILE-TIME', 'AUTO')",
}


class SqlOnInnoDB(LoadedBySql[MySqlConnection], ThroughJdbc):
    """SQL abilities over ``_open``, which gives a new connection (see wire.py)."""

    sql_folder: Path = Path(__file__).parent / "sql"
    flavour: Flavour
    threads: int
    jdbc_properties = staticmethod(innodb_properties)

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[MySqlConnection] = weakref.WeakSet()
        self._monitor: counters.Monitor | None = None
        self._retries = Retries()

    @abstractmethod
    def _open(self, local_infile: bool = False) -> LazyConnection:
        """A new connection in autocommit mode; ``local_infile``: it may send files."""

    def connect(self) -> MySqlConnection:
        """A new connection in autocommit mode."""
        return self._connect()

    def _connect(self, local_infile: bool = False) -> MySqlConnection:
        with connecting(self.flavour):
            connection = MySqlConnection(self._open(local_infile))
        self._connections.add(connection)
        return connection

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """The plan of ``sql`` as executed now; see explain.py for what its times are."""
        return explain.explain(connection, sql)

    def _loader(self) -> Loader:
        loader = Loader(
            connect=partial(self._connect, local_infile=True),
            flavour=self.flavour,
            threads=self.threads,
            server=self if isinstance(self, LoadingServer) else None,
        )
        self._retries = loader.retries
        return loader

    def load_retries(self) -> Mapping[str, int]:
        """By table, what deadlocks undid of the last load."""
        return dict(self._retries.by_table)

    def native_backend(self) -> str:
        """MariaDB's Connector/C, which speaks to both."""
        return "innodb"

    def effective_config(self) -> Mapping[str, str]:
        """What somebody has set and what matters anyway, without secrets."""
        connection = self.connect()
        try:
            variables = _variables(connection)
            given = _set_variables(connection)
        finally:
            connection.close()
        wanted = given | _ALWAYS
        return {
            name: value
            for name, value in variables.items()
            if name in wanted and not any(word in name for word in _SECRET)
        }

    def lost_without_power(self) -> Mapping[str, str]:
        """See durability.py."""
        connection = self.connect()
        try:
            return durability.lost_without_power(_variables(connection))
        finally:
            connection.close()

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Sequence[RunWarning]:
        """See window.py."""
        return list(window_warnings(window))

    def counters(self) -> Mapping[str, float]:
        """Cumulative counters of the server; see counters.py."""
        if self._monitor is None:
            with connecting(self.flavour):
                raw = self._open()
            self._monitor = counters.Monitor(raw, self.flavour)
        return self._monitor.read()

    def _close_monitor(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.close()


def _variables(connection: MySqlConnection) -> dict[str, str]:
    rows = connection.execute("SHOW GLOBAL VARIABLES").rows
    return {str(name): str(value) for name, value in rows}


def _set_variables(connection: MySqlConnection) -> set[str]:
    """Names of the variables that somebody has set; empty where our user may not ask."""
    try:
        rows = connection.execute(_SET_SQL[connection.flavour]).rows
    except RunFailed:
        return set()
    return {str(row[0]).lower() for row in rows}
