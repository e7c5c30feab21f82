"""Whether a started server really has its settings: its own word for where each came from.

What has been set for a database or a user goes with golden data and overrides the
configuration file without a word, in the sessions that are measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from harness.errors import RunFailed

#: Of a session's own; anything else than the file means that the file was overridden.
_TAKEN = ("configuration file", "client", "session")
#: The value that asks the server to choose one.
_SERVERS_CHOICE = "-1"
_SOURCES_SQL = """
SELECT name, current_setting(name), source FROM pg_settings
WHERE name = ANY(%s) AND source <> ALL(%s)"""
#: Shared catalogues, so that nothing of the measured database is read before its time.
_OVERRIDES_SQL = """
SELECT unnest(setconfig) FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase
WHERE setdatabase = 0 OR datname = %s"""


def verify_settings(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str], title: str
) -> None:
    """RunFailed where sessions in ``database`` have another value than the settings say."""
    names = {name.lower(): value for name, value in settings.items()}
    for name, asked, found in _differing(connection, database, names):
        raise RunFailed(
            f"{title} with {name}={asked}",
            f"the server has {found}",
            "load the data again, or leave the setting out",
        )


def _differing(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    rows = connection.execute(_SOURCES_SQL, [list(settings), list(_TAKEN)]).fetchall()
    for name, value, source in rows:
        if settings[name.lower()] != _SERVERS_CHOICE:
            yield name, settings[name.lower()], f"{value}, from {source}"
    for (override,) in connection.execute(_OVERRIDES_SQL, [database]).fetchall():
        name, _, value = override.partition("=")
        if name.lower() in settings:
            yield name, settings[name.lower()], f"{value}, set for a database or a user"
