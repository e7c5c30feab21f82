"""Tables in directories of their own: InnoDB has a file for each table, with its indexes.

A stopped server's files are moved. MySQL finds them by ``innodb_directories``; MariaDB by a file
next to where the table's would be, ``TABLE.isl``, with the path (its DATA DIRECTORY). Of a
partitioned table, each partition has a file.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.engine import Credentials, StoredRelation
from harness.experiment.placement import Relation
from harness.sequences import grouped
from harness.supervise.user_files import acting_as, walk, write_text

#: A table's file, or a partition's. Other characters of names are encoded.
_FILE = re.compile(r"(\w+)(?:#[pP]#.*)?\.ibd")


def move_tables(
    data: Path, folder: Path, relations: Sequence[Relation], links: bool, user: Credentials | None
) -> None:
    """Move the files of tables from a database's folder.

    ``links``: leave a file with the new path.
    """
    tables = _files((data,), user)
    for relation in relations:
        for file in tables[relation.name]:
            target = folder / file.name
            with acting_as(user):
                shutil.copyfile(file, target)
                target.chmod(0o640)
                with target.open("rb") as copy:
                    os.fsync(copy.fileno())
                file.unlink()
            if links:
                write_text(file.with_suffix(".isl"), str(target), user)


def stored_tables(folders: Sequence[Path], user: Credentials | None) -> list[StoredRelation]:
    """Return the tables whose files are in folders, looked up as ``user``."""
    return [
        StoredRelation(Relation("table", name), name, files)
        for name, files in sorted(_files(folders, user).items())
    ]


def _files(
    folders: Sequence[Path], user: Credentials | None
) -> dict[str, dict[Path, os.stat_result]]:
    by_table = grouped(
        (match[1], (file, facts))
        for file, facts in walk(folders, user)
        if (match := _FILE.fullmatch(file.name))
    )
    return {name: dict(files) for name, files in by_table.items()}
