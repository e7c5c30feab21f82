"""The server's cumulative counters, as numbers with their unit in the name.

Storage counters are InnoDB's global sums (``innodb_…``), the others are those of the SQL layer
(``server_…``). One connection reads them while the server runs, and reads them a few times before
its first reading counts: then the parts of the data dictionary that it needs are in memory, and a
reading adds nothing to these counters.

``spilled_bytes`` are the bytes that MySQL wrote to temporary files: sorts, hash joins and
internal temporary tables on disk, from the performance schema's sums of file writes (for its
TempTable engine, of file-backed memory). It is missing if that schema is off or not readable by
the user of an external server, and always on MariaDB: even with a performance schema, 10.11
counted nothing for a sort with 165 merge passes. Missing does not mean zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymysql

from engines._innodb.connection import close, message
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.wire import LazyConnection
from harness.errors import RunFailed

_WARM_READINGS = 3
#: Status variable → counter. No release has all of them.
_STATUS: Mapping[str, str] = {
    "innodb_data_read": "innodb_data_read_bytes",
    "innodb_data_written": "innodb_data_written_bytes",
    "innodb_data_fsyncs": "innodb_data_fsyncs_count",
    "innodb_os_log_written": "innodb_log_written_bytes",
    # MySQL from 8.0.30, MariaDB: end of the redo log, and the position up to which every page
    # that it describes is on its device.
    "innodb_redo_log_current_lsn": "innodb_redo_bytes",
    "innodb_lsn_current": "innodb_redo_bytes",
    "innodb_redo_log_checkpoint_lsn": "innodb_redo_checkpointed_bytes",
    "innodb_lsn_last_checkpoint": "innodb_redo_checkpointed_bytes",
    "innodb_buffer_pool_reads": "innodb_buffer_pool_reads_count",
    "innodb_buffer_pool_read_ahead": "innodb_buffer_pool_read_ahead_count",
    "innodb_pages_read": "innodb_pages_read_count",
    "innodb_pages_written": "innodb_pages_written_count",
    "created_tmp_disk_tables": "server_tmp_disk_tables_count",
    "created_tmp_files": "server_tmp_files_count",
    "sort_merge_passes": "server_sort_merge_passes_count",
    # Sums of sessions: exact and current. InnoDB's own (innodb_metrics) lose concurrent increments.
    "com_commit": "server_commit_statements_count",
    "handler_commit": "server_handler_commits_count",
}
_STATUS_SQL = (
    "SHOW GLOBAL STATUS WHERE variable_name IN (" + ", ".join(f"'{name}'" for name in _STATUS) + ")"
)
#: By kind of file; InnoDB's temporary tablespaces by name. Mapped files of MySQL's TempTable
#: engine are counted as memory.
_SPILLED_SQL = """
SELECT (SELECT sum(sum_number_of_bytes_write)
        FROM performance_schema.file_summary_by_event_name
        WHERE event_name IN ('wait/io/file/sql/io_cache', 'wait/io/file/sql/hash_join',
                             'wait/io/file/innodb/innodb_temp_file'))
     + (SELECT coalesce(sum(sum_number_of_bytes_write), 0)
        FROM performance_schema.file_summary_by_instance
        WHERE file_name LIKE '%.ibt' OR file_name LIKE '%ibtmp1')
     + (SELECT coalesce(sum(sum_number_of_bytes_alloc), 0)
        FROM performance_schema.memory_summary_global_by_event_name
        WHERE event_name = 'memory/temptable/physical_disk')"""


class Monitor:
    """The monitoring connection of one server start."""

    def __init__(self, raw: LazyConnection, flavour: Flavour) -> None:
        self._raw = raw
        self._flavour: Flavour = flavour
        self._reports_spills = self._can_read_spills()
        for _ in range(_WARM_READINGS):
            self.read()

    def read(self) -> Mapping[str, float]:
        """Cumulative counters; those that the server does not have are left out."""
        try:
            status = {str(name).lower(): value for name, value in self._raw.run(_STATUS_SQL).rows}
            counters = {_STATUS[name]: float(value) for name, value in status.items()}
            if self._reports_spills:
                counters["spilled_bytes"] = float(self._raw.run(_SPILLED_SQL).rows[0][0] or 0)
        except pymysql.Error as error:
            raise RunFailed(f"read {TITLES[self._flavour]}'s counters", message(error)) from error
        return counters

    def close(self) -> None:
        close(self._raw)

    def _can_read_spills(self) -> bool:
        """Whether the server counts all spills and the user may read them."""
        if self._flavour == "mariadb":
            return False
        try:
            on: Any = self._raw.run("SELECT @@performance_schema").rows
            if not int(on[0][0]):
                return False
            self._raw.run(_SPILLED_SQL)
        except pymysql.Error:
            return False
        return True
