"""SQL on MySQL and MariaDB, managed or external: connections, plans, loading, counters."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engines._innodb import counters, durability
from engines._innodb.configuration import SETTINGS
from engines._innodb.connection import LazyConnection, MySqlConnection, connecting
from engines._innodb.explain import explain_mariadb, explain_mysql
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.load import DeadlockRetries, Loader
from engines._innodb.waits import SessionObserver
from engines._jdbc.binding import ThroughJdbc, innodb_properties
from engines._managed import ManagedServer
from engines._sql_engine import SqlEngine
from harness.engine import ProcessId, SqlConnection
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan
from harness.supervise.silence import limit_s
from harness.warnings import RunWarning

#: Names of the variables that were set by an option, a file or SQL.
_SET_SQL: Mapping[Flavour, str] = {
    "mysql": "SELECT variable_name FROM performance_schema.variables_info "
    "WHERE variable_source NOT IN ('COMPILED', 'DYNAMIC')",
    "mariadb": "SELECT variable_name FROM information_schema.system_variables "
    "WHERE global_value_origin NOT IN ('COMPILE-TIME', 'AUTO')",
}
#: MySQL from 8.0.30 on resizes its redo log in the background; other servers have neither status.
_REDO_SIZE_SQL = "SHOW GLOBAL STATUS LIKE 'innodb_redo_log%resize%'"
_RESIZE, _RESIZED = "innodb_redo_log_resize_status", "OK"
_POLL_S = 0.05


class SqlOnInnoDB(SqlEngine[MySqlConnection], ThroughJdbc):
    """SQL abilities over ``_open``, which returns a new connection (see connection.py)."""

    sql_folder: Path = Path(__file__).parent / "sql"
    backslash_escapes = True
    #: MariaDB's Connector/C, which connects to both servers.
    native_backend = "innodb"
    sysbench_driver = "mysql"
    flavour: Flavour
    #: (9, 7, 4) of "9.7.4", of a managed server.
    version_tuple: tuple[int, ...] = ()
    #: Whether primary keys are loaded as secondary indexes.
    _rows_apart: bool = False
    jdbc_properties = staticmethod(innodb_properties)
    durability_settings = durability.DURABILITY_SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self._retries = DeadlockRetries()

    @abstractmethod
    def _open(self, local_infile: bool = False) -> LazyConnection:
        """A new connection in autocommit mode; ``local_infile``: it may send files."""

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """Execute ``sql`` with profiling; see explain.py."""
        assert isinstance(connection, MySqlConnection)
        if self.flavour == "mariadb":
            return explain_mariadb(connection, sql)
        return explain_mysql(connection, sql)

    def wait_observer(self) -> SessionObserver:
        """Row locks, states and system calls; see waits.py."""
        return SessionObserver(self._open, self.flavour, self._local_processes)

    def load_retries(self) -> Mapping[str, int]:
        """By table, the number of files and statements that deadlocks undid in the last load."""
        return dict(self._retries.by_table)

    def effective_config(self) -> Mapping[str, str]:
        """Variables that were set and those always recorded; the redo log's size; no secrets."""
        recorded = self._set_variables() | set(SETTINGS.recorded)
        values = {name: value for name, value in self._variables().items() if name in recorded}
        return SETTINGS.record(values) | self._redo_size()

    def _await_redo_size(self) -> None:
        """Return when the redo log has its size; RunFailed if it is still resized at the limit."""
        deadline = time.monotonic() + limit_s("start")
        while (status := self._redo_size().get(_RESIZE, _RESIZED)) != _RESIZED:
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"measure {TITLES[self.flavour]}",
                    f"its redo log is still being resized: {status}",
                    "repeat when it has ended, or raise the limit: HARNESS_SILENCE=start=SECONDS",
                )
            time.sleep(_POLL_S)

    def _redo_size(self) -> dict[str, str]:
        """The capacity that the redo log has, and whether a resize is under way."""
        return {str(name).lower(): str(value) for name, value in self._query(_REDO_SIZE_SQL)}

    def lost_without_power(self) -> Mapping[str, str]:
        return durability.lost_without_power(self._variables())

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        return counters.write_back_warnings(window)

    def _new_connection(self, local_infile: bool = False) -> MySqlConnection:
        with connecting(self.flavour):
            return MySqlConnection(self._open(local_infile))

    def _local_processes(self) -> Sequence[ProcessId]:
        """The server's processes; none where it is the user's."""
        return ()

    def _new_monitor(self) -> counters.InnoDBCounterReader:
        with connecting(self.flavour):
            raw = self._open()
        return counters.InnoDBCounterReader(raw, self.flavour)

    def _loader(self) -> Loader:
        loader = Loader(
            connect=partial(self._new_connection, local_infile=True),
            flavour=self.flavour,
            threads=self.threads,
            server=self if isinstance(self, ManagedServer) else None,
            version=self.version_tuple,
            rows_apart=self._rows_apart,
        )
        self._retries = loader.retries
        return loader

    def _variables(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._query("SHOW GLOBAL VARIABLES")}

    def _set_variables(self) -> set[str]:
        """Names of the variables that were set; empty if the user may not read them."""
        try:
            return {str(row[0]).lower() for row in self._query(_SET_SQL[self.flavour])}
        except RunFailed:
            return set()
