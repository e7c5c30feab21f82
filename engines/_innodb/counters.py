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

The checkpoint's position shows whether a window writes pages back as a long run does: the redo log
is reused when the pages that it describes are written, so in a long run its checkpoint advances as
fast as the log grows. Until then, a window writes fewer pages than it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql

from engines import _sql_engine
from engines._innodb.connection import LazyConnection, close, message
from engines._innodb.installation import TITLES, Flavour
from harness.errors import RunFailed
from harness.units import MIB, format_bytes
from harness.warnings import RunWarning
from harness.yamlfile import shipped_yaml

_WARM_READINGS = 3
_STATUS: Mapping[str, str] = shipped_yaml(Path(__file__).with_name("counters.yml"))
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


class InnoDBCounterReader(_sql_engine.CounterReader):
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
        """Return whether the server counts all spills and the user may read them."""
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


#: A window that logs less has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: How far the checkpoint may lag or catch up, as a share of the log's growth.
_TOLERANCE = 0.2


def write_back_warnings(window: Mapping[str, float]) -> Iterator[RunWarning]:
    """``window``: increase of each counter; no warnings for releases without these counters."""
    redo = window.get("innodb_redo_bytes", 0.0)
    if redo < _LITTLE_BYTES:
        return
    advanced = window.get("innodb_redo_checkpointed_bytes", 0.0)
    pages = window.get("innodb_pages_written_count", 0.0)
    if abs(redo - advanced) > _TOLERANCE * redo:
        yield RunWarning(
            "redo-checkpoint-not-steady",
            f"{'fewer' if advanced < redo else 'more'} pages were written than in a long run",
            f"the redo log grew by {format_bytes(redo)}, its checkpoint advanced by "
            f"{format_bytes(advanced)} ({advanced / redo:.0%}); {pages:,.0f} pages were written",
            "raise --ramp-up, or have pages written sooner with a smaller redo log or a lower "
            "--set innodb_adaptive_flushing_lwm=…",
        )
