"""Schema, data and weights of statements from a running server, by a role that only reads.

Nothing on the server is changed or set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from harness.capture.mysql_server import MySqlServer
from harness.capture.postgres_server import PostgresServer
from harness.capture.replay_file import Dialect
from harness.capture.sample import SampledTable
from harness.capture.weights import Weight, counted_within, write_weights
from harness.errors import UsageError
from harness.progress import Progress, SilentProgress
from harness.supervise import workdirs
from harness.supervise.own_files import made_folder, make_own
from harness.units import format_ns

#: Names of a folder of harness.workloads.sql, and the file of the weights.
_TABLES, _LOAD, WEIGHTS = "tables.sql", "load", "weights.csv"


class _ServerDatabase(Protocol):
    """A database of a server. ``counter``: what counts statements there, and how to have it."""

    database: str
    counter: ClassVar[tuple[str, str]]

    def weights(self) -> dict[str, Weight] | None:
        """Return statements as the server counts them; None where it does not for this role."""

    def write(
        self, tables: Path, rows: Path, share: float | None, progress: Progress
    ) -> list[SampledTable]:
        """Write schema and rows into new private files; return the tables of a sample."""


@dataclass(frozen=True)
class ServerCapture:
    """What was written. ``sample``: the tables, where not all rows were.

    ``uncounted``: why there are no weights; empty where there are some.
    """

    files: list[Path]
    sample: list[SampledTable]
    uncounted: str = ""


def capture_server(
    folder: Path,
    dialect: Dialect,
    dsn: str,
    for_s: float = 0.0,
    share: float | None = None,
    progress: Progress | None = None,
) -> ServerCapture:
    """Write ``tables.sql``, ``load/`` and, if the server counts statements, ``weights.csv``.

    All of them or, where it fails or is interrupted, none. ``dsn``: ``env`` for ``$HARNESS_DSN``.
    ``for_s``: how long statements are counted, after the dump; 0: from when the server began to
    up to the dump. ``share``: of the rows, with those that they refer to; None: all rows.
    """
    progress = progress or SilentProgress()
    server: _ServerDatabase = MySqlServer(dsn) if dialect == "mysql" else PostgresServer(dsn)
    rows = Path(_LOAD, f"{server.database}.sql")
    for path in (folder / _TABLES, folder / rows):
        if path.exists():
            raise UsageError(f"{path}", "it exists", "name a new folder")
    before = server.weights()
    counter, hint = server.counter
    uncounted = "" if before is not None else f"the server has no {counter} for this role"
    if uncounted and for_s:
        problem = f"--for {format_ns(int(for_s * 1e9))}"
        raise UsageError(problem, uncounted, f"{hint}, or leave --for out")
    with made_folder(folder), workdirs.temporary(folder, ".capture") as scratch:
        (scratch / _LOAD).mkdir()
        sample = server.write(scratch / _TABLES, scratch / rows, share, progress)
        counted = [*(before or {}).values()]
        if for_s:
            counted = counted_within(for_s, lambda: server.weights() or {}, progress)
        if counted:
            write_weights(scratch / WEIGHTS, counted)
        files = [path for path in (_TABLES, rows, WEIGHTS) if (scratch / path).exists()]
        make_own(folder / _LOAD)
        written = [(scratch / path).rename(folder / path) for path in files]
        return ServerCapture(written, sample, uncounted)
