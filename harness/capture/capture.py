"""``harness workload capture``: from a log to the replay file of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.capture.logs import log_files
from harness.capture.losses import Losses
from harness.capture.mysql_log import MySqlLog
from harness.capture.postgres_log import PostgresLog
from harness.capture.recording import OwnedStatement, RecordedStatement, Recorder, in_order
from harness.capture.replay_file import REPLAY, Dialect, Header
from harness.errors import UsageError
from harness.progress import Progress, SilentProgress
from harness.supervise import workdirs
from harness.supervise.own_files import made_folder

#: The dialect of each engine's log.
DIALECTS: dict[str, Dialect] = {"postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}

#: A database with this share of the statements is the one that is meant.
_ALMOST_ALL = 0.9
#: Statements between two reports of the progress.
_SHOWN_EVERY = 1000


@dataclass(frozen=True)
class Captured:
    """What was written. ``examples``: a statement of each class by its name, with its literals."""

    path: Path
    header: Header
    users: dict[str, int]
    examples: dict[str, str]


def capture_log(
    folder: Path,
    logs: Sequence[Path],
    engine: str,
    database: str = "",
    users: Sequence[str] = (),
    progress: Progress | None = None,
) -> Captured:
    """Write the replay file of the sessions in a log; UsageError for a log that has none.

    ``database``: that of almost all statements where empty. ``users``: whose sessions; empty: all.
    """
    files, progress = log_files(logs), progress or SilentProgress()
    database = database or _main_database(files, engine, progress)
    losses, by_user = Losses(), Counter[str]()
    log = _read(files, engine, losses)
    with (
        made_folder(folder),
        workdirs.temporary(folder, ".capture") as scratch,
        Recorder(DIALECTS[engine], scratch, losses) as recorder,
    ):

        def chosen() -> Iterator[RecordedStatement]:
            for owned in _shown(log.statements(), "read the log", progress):
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
        with progress.task("write the record"):
            header = recorder.write(folder / REPLAY, names, database, **facts)
        return Captured(folder / REPLAY, header, dict(by_user), recorder.examples)


def _read(files: Sequence[Path], engine: str, losses: Losses) -> PostgresLog | MySqlLog:
    return (PostgresLog if DIALECTS[engine] == "postgres" else MySqlLog)(files, losses)


def _shown(
    statements: Iterable[OwnedStatement], what: str, progress: Progress
) -> Iterator[OwnedStatement]:
    with progress.task(what, unit="statements") as task:
        for number, statement in enumerate(statements, 1):
            yield statement
            if not number % _SHOWN_EVERY:
                task.advance(_SHOWN_EVERY)


def _main_database(files: Sequence[Path], engine: str, progress: Progress) -> str:
    statements = _read(files, engine, Losses()).statements()
    counts = Counter(
        owned.database for owned in _shown(statements, "look for the database", progress)
    )
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
