"""Counters of a server: calls of procedures, and snapshots.

The server lists its last ten snapshots only: the counters are of those that ended between two
readings, by what is new in the list. A measurement window saves data as a long run does if whole
snapshots are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engines import _sql_engine
from engines.voltdb.wire import (
    VoltDbConnection,
)
from harness.units import NS_PER_S
from harness.warnings import RunWarning

#: Counters of the snapshots that have ended, and of their bytes.
SNAPSHOTS_ENDED, SNAPSHOT_BYTES = "voltdb_snapshots_count", "voltdb_snapshot_written_bytes"


class VoltDbCounterReader(_sql_engine.CounterReader):
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
        rows = self._statistics("PROCEDURE")
        names = {
            "invocations": "voltdb_calls_count",
            "aborts": "voltdb_aborts_count",
            "failures": "voltdb_failures_count",
        }
        return {
            name: float(sum(int(str(row[column])) for row in rows))
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
        self._snapshots |= {
            snapshot: size for snapshot, size in ended.items() if snapshot not in running
        }
        return {
            SNAPSHOTS_ENDED: float(len(self._snapshots)),
            SNAPSHOT_BYTES: float(sum(self._snapshots.values())),
        }

    def _statistics(self, selector: str) -> list[dict[str, object]]:
        tables = self._connection.call("@Statistics", selector, 0).tables
        return [dict(row) for table in tables for row in table.records()]


def write_back_warnings(
    window: Mapping[str, float], settings: Mapping[str, str], window_ns: int
) -> Iterator[RunWarning]:
    """``window``: what it added to the counters; ``settings``: of the run."""
    if (ended := window.get(SNAPSHOTS_ENDED)) is None or ended > 0:
        return
    length = f"a window of {window_ns / NS_PER_S:g} s"
    if settings["snapshot_enabled"] != "true":
        yield RunWarning(
            "no-snapshots",
            "automatic snapshots are off: the data tier is not written to",
            length,
            "turn them on: --set snapshot_enabled=true",
        )
        return
    yield RunWarning(
        "no-snapshot-in-window",
        "no snapshot ended in the window",
        f"{length}, a snapshot every {settings['snapshot_frequency']}",
        "raise --duration, or lower --set snapshot_frequency=…",
    )
