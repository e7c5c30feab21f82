"""The server's counters, as numbers with their unit in the name.

The server lists its last ten snapshots only: those that ended between two readings are counted
from what is new in the list.
"""

from __future__ import annotations

from collections.abc import Mapping

from engines.voltdb.connection import VoltDbConnection

SNAPSHOTS, SNAPSHOT_BYTES = "voltdb_snapshots_count", "voltdb_snapshot_written_bytes"


class Monitor:
    """The monitoring connection of one server start."""

    def __init__(self, connection: VoltDbConnection) -> None:
        self._connection = connection
        #: Bytes of each snapshot that has ended, by its transaction.
        self._snapshots: dict[int, int] = {}

    def read(self) -> Mapping[str, float]:
        """All counters; RunFailed where the server does not answer."""
        return {**self._procedures(), **self._written()}

    def close(self) -> None:
        """Close; no error when the server is gone."""
        self._connection.close()

    def _procedures(self) -> dict[str, float]:
        """Calls of procedures since the server started, and those that aborted or failed."""
        found = self._statistics("PROCEDURE")
        names = {
            "invocations": "voltdb_calls_count",
            "aborts": "voltdb_aborts_count",
            "failures": "voltdb_failures_count",
        }
        return {
            name: float(sum(int(str(row[column])) for row in found))
            for column, name in names.items()
        }

    def _written(self) -> dict[str, float]:
        ended: dict[int, int] = {}
        running: set[int] = set()
        for row in self._statistics("SNAPSHOTSTATUS"):
            snapshot = int(str(row["txnid"]))
            ended[snapshot] = ended.get(snapshot, 0) + int(str(row["size"]))
            if not row["end_time"] or row["result"] != "SUCCESS":
                running.add(snapshot)
        self._snapshots |= {one: size for one, size in ended.items() if one not in running}
        return {
            SNAPSHOTS: float(len(self._snapshots)),
            SNAPSHOT_BYTES: float(sum(self._snapshots.values())),
        }

    def _statistics(self, selector: str) -> list[dict[str, object]]:
        tables = self._connection.call("@Statistics", selector, 0).tables
        return [dict(row) for table in tables for row in table.records()]
