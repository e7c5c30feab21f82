"""Validation of the engine options of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines._innodb.configuration import known_settings
from engines._innodb.installation import Installation
from harness.errors import UsageError
from harness.experiment.placement import Part

_PAGE_SIZES = (4, 8, 16, 32, 64)


def page_size(options: Mapping[str, Any]) -> str:
    """``innodb_page_size`` in bytes, from the option ``page_size`` in KiB."""
    given = str(options.get("page_size", 16))
    if given not in map(str, _PAGE_SIZES):
        raise UsageError(
            f"engine option page_size={given}",
            "must be 4, 8, 16, 32 or 64 (KiB)",
            "omit it for InnoDB's default, 16",
        )
    return str(int(given) * 1024)


def part_of_doublewrite(installation: Installation, options: Mapping[str, Any]) -> Part:
    """The part whose tier holds the doublewrite files.

    Before MySQL 8.0.20 and in MariaDB, they are inside ibdata1 and always on ``data``, which is
    therefore the default of all releases.
    """
    given = str(options.get("doublewrite", "data"))
    if given == "data":
        return "data"
    if given != "wal":
        raise UsageError(
            f"engine option doublewrite={given}", "neither data nor wal", "set doublewrite=wal"
        )
    if "innodb_doublewrite_dir" not in known_settings(installation):
        raise UsageError(
            f"engine option doublewrite=wal with {installation.title}",
            "this release keeps its doublewrite pages in the system tablespace, on data",
            "use MySQL 8.0.20 or later, or omit the option",
        )
    return "wal"
