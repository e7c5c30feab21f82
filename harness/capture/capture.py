"""``harness workload capture``: from a log to the replay file of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.capture.logs import log_files
from harness.capture.losses import Losses
from harness.capture.mysql_log import MySqlLog
from harness.capture.postgres_log import PostgresLog
from harness.capture.recording import RecordedStatement, Recorder, in_order
from harness.capture.replay_file import REPLAY, Dialect, Header
from harness.errors import UsageError
from harness.supervise import workdirs
from harness.supervise.own_files import make_own

#: The dialect of each engine's log.
DIALECTS: dict[str, Dialect] = {"postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}

#: A database with this share of the statements is the one that is meant.
_ALMOST_ALL = 0.9


@dataclass(frozen=True)
class Captured:
    """What was written. ``examples``: a statement of each class by its name, with its literals."""

    path: Path
    header: Header
    users: dict[str, int]
    examples: dict[str, str]


def capture_log(
    folder: Path, logs: Sequence[Path], engine: str, database: str = "", users: Sequence[str] = ()
) -> Captured:
    """Write the replay file of the sessions in a log; UsageError for a log that has none.

    ``database``: that of almost all statements where empty. ``users``: whose sessions; empty: all.
    """
    files = log_files(logs)
    database = database or _main_database(files, engine)
    make_own(folder)
    losses, by_user = Losses(), Counter[str]()
    log = _read(files, engine, losses)
    with (
        workdirs.temporary(folder, ".capture") as scratch,
        Recorder(DIALECTS[engine], scratch, losses) as recorder,
    ):

        def chosen() -> Iterator[RecordedStatement]:
            for owned in log.statements():
                if owned.database != database:
                    losses.add("statements of other databases", owned.statement.place)
                elif users and owned.user not in users:
                    losses.add("statements of other users", owned.statement.place)
                else:
                    by_user[owned.user] += 1
                    yield owned.statement

        for statement in in_order(chosen()):
            recorder.take(statement)
        facts = {"errors_known": True, "spread": False}
        if isinstance(log, MySqlLog):
            facts = {"errors_known": log.errors_known, "spread": log.spread}
        names = ", ".join(path.name for path in files[:3]) + (", …" if len(files) > 3 else "")
        header = recorder.write(folder / REPLAY, names, database, **facts)
        return Captured(folder / REPLAY, header, dict(by_user), recorder.examples)


def _read(files: Sequence[Path], engine: str, losses: Losses) -> PostgresLog | MySqlLog:
    return (PostgresLog if DIALECTS[engine] == "postgres" else MySqlLog)(files, losses)


def _main_database(files: Sequence[Path], engine: str) -> str:
    counts = Counter(owned.database for owned in _read(files, engine, Losses()).statements())
    counts.pop("", None)
    for name, count in counts.most_common(1):
        if count >= _ALMOST_ALL * counts.total():
            return name
    problem = f"capture {', '.join(path.name for path in files[:3])}"
    if not counts:
        raise UsageError(
            problem,
            "no statement of a client in it",
            "log all statements: log_min_duration_statement=0, or long_query_time=0",
        )
    raise UsageError(
        problem,
        "statements of several databases: "
        + ", ".join(f"{name} ({count})" for name, count in counts.most_common()),
        f"name one: --database {counts.most_common()[0][0]}",
    )
