"""A part of the rows of a database in which each foreign key finds its row.

Rows of each table are drawn by a hash of their key, so that the same ones are drawn each time.
Then, from the drawn ones, foreign keys are followed until no row is added that was not chosen
before, which ends for cycles, too. All of it sees one snapshot, in which a row's place names it:
the chosen places are in a file of SQLite's, so memory does not grow with their number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.progress import Progress
from harness.structs import Struct

#: Of PostgreSQL a row's physical place; of MySQL and MariaDB the values of its key.
Place = int | str


class SampledTable(Struct, frozen=True):
    """A table's rows in a sample: ``drawn``, and ``parents`` that others refer to.

    ``key``: its columns, by whose hash rows are drawn; empty: there is none, so by all columns.
    """

    name: str
    drawn: int
    parents: int
    key: tuple[str, ...]


@dataclass(frozen=True)
class LinkedTable:
    """A table or a partition, its names as SQL has them.

    ``rows``: about as many. ``drawn``: the condition of those that are drawn. ``parents``: queries
    for the rows that its rows refer to.
    """

    number: int
    name: str
    rows: float
    columns: tuple[str, ...]
    key: tuple[str, ...]
    drawn: str
    parents: tuple[str, ...]


class ChosenRows:
    """The places of chosen rows. ``followed``: whether the rows that they refer to are chosen."""

    def __init__(self, file: Path, at_once: int) -> None:
        self._at_once = at_once
        self._database = sqlite3.connect(file, isolation_level=None)
        self._database.executescript("""
            PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
            CREATE TABLE chosen (number INTEGER, place, drawn INTEGER, followed INTEGER,
                PRIMARY KEY (number, place)) WITHOUT ROWID;
            CREATE INDEX not_followed ON chosen (number, place) WHERE NOT followed;
            BEGIN;
        """)

    def close(self) -> None:
        self._database.close()

    def add(self, rows: Iterable[tuple[int, Place]], drawn: bool) -> None:
        """Add rows, by the table's number and their places."""
        places = ((number, place, drawn) for number, place in rows)
        self._database.executemany("INSERT OR IGNORE INTO chosen VALUES (?, ?, ?, 0)", places)

    def follow(
        self,
        tables: Sequence[LinkedTable],
        parents_of: Callable[[LinkedTable, list[Place]], Iterable[tuple[int, Place]]],
        progress: Progress,
    ) -> None:
        """Add the rows that chosen ones refer to, and those that these refer to."""
        with progress.task("follow foreign keys", unit="rows") as task:
            added = True
            while added:
                added = False
                for table in tables:
                    while table.parents and (places := self._not_followed(table.number)):
                        added = True
                        self.add(parents_of(table, places), drawn=False)
                        task.advance(len(places))

    def _not_followed(self, number: int) -> list[Place]:
        """Take some rows of a table whose foreign keys have not been followed."""
        where = "number = ? AND NOT followed"
        query = f"SELECT place FROM chosen WHERE {where} LIMIT {self._at_once}"
        places = [place for (place,) in self._database.execute(query, (number,))]
        self._database.executemany(
            "UPDATE chosen SET followed = 1 WHERE number = ? AND place = ?",
            ((number, place) for place in places),
        )
        return places

    def places(self, number: int) -> Iterator[list[Place]]:
        """Yield the rows of a table, some at a time, in the order of their places."""
        query = "SELECT place FROM chosen WHERE number = ? ORDER BY place"
        rows = self._database.execute(query, (number,))
        while some := rows.fetchmany(self._at_once):
            yield [place for (place,) in some]

    def counts(self, number: int) -> tuple[int, int]:
        """Rows of a table that were drawn, and the others."""
        query = "SELECT total(drawn), total(NOT drawn) FROM chosen WHERE number = ?"
        drawn, others = self._database.execute(query, (number,)).fetchone()
        return int(drawn), int(others)
