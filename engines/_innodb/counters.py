"""The server's cumulative counters, as numbers with their unit in the name.

Storage counters are InnoDB's own global sums (``innodb_…``), the others the SQL layer's
(``server_…``). One connection reads them while the server runs, and has read them a few
times before its first reading counts: what a reading itself needs of the data dictionary is
then in memory, and it adds nothing to the counters that are left.

``spilled_bytes`` are the bytes that MySQL wrote to temporary files: sorts, hash joins and
internal temporary tables on disk, from the performance schema's sums of file writes (and, of
its TempTable engine, of file-backed memory). It is missing where that schema is off or our
user on a server of the user's may not read it, and always on MariaDB: even with a performance
schema 10.11 counted nothing of a sort with 165 merge passes. Missing is not zero.
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
#: Status variable → our name. Releases differ in which they have.
_STATUS: Mapping[str, str] = {
    "innodb_data_read": "innodb_data_read_bytes",
    "innodb_data_written": "innodb_data_written_bytes",
    "innodb_data_fsyncs": "innodb_data_fsyncs_count",
    "innodb_os_log_written": "innodb_log_written_bytes",
    # MySQL from 8.0.30, MariaDB: how far the redo log has been written, and up to where every
    # page it describes is on its device.
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
}
_STATUS_SQL = (
    "SHOW GLOBAL STATUS WHERE variable_name IN (" + ", ".join(f"'{name}'" for name in _STATUS) + ")"
)
#: By the kind of file, and InnoDB's temporary tablespaces by their names. What MySQL's
#: TempTable engine keeps in mapped files is memory to it.
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
        self._spills_told = self._tells_spills()
        for _ in range(_WARM_READINGS):
            self.read()

    def read(self) -> Mapping[str, float]:
        """All counters that this server keeps; what it does not know is left out."""
        try:
            found = {str(name).lower(): value for name, value in self._raw.run(_STATUS_SQL).rows}
            counters = {_STATUS[name]: float(value) for name, value in found.items()}
            if self._spills_told:
                counters["spilled_bytes"] = float(self._raw.run(_SPILLED_SQL).rows[0][0] or 0)
        except pymysql.Error as error:
            raise RunFailed(f"read {TITLES[self._flavour]}'s counters", message(error)) from error
        return counters

    def close(self) -> None:
        """Close; no error when the server is gone."""
        close(self._raw)

    def _tells_spills(self) -> bool:
        """Whether the server counts them all, and our user may read it."""
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
