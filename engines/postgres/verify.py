"""Verification that a started server uses its settings, by the source that it reports for each.

A setting of a database or a user is part of a dataset and silently overrides the configuration
file in the measured sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from harness.errors import RunFailed

#: Sources that do not override the configuration file for other sessions.
_SOURCES = ("configuration file", "client", "session")
#: The value with which the server chooses one.
_SERVERS_CHOICE = "-1"
_SOURCES_SQL = """
SELECT name, current_setting(name), source FROM pg_settings
WHERE name = ANY(%s) AND source <> ALL(%s)"""
#: Shared catalogs, so that nothing of the measured database is read before the measurement.
_OVERRIDES_SQL = """
SELECT unnest(setconfig) FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase
WHERE setdatabase = 0 OR datname = %s"""


def verify_settings(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str], title: str
) -> None:
    """RunFailed if sessions in ``database`` have other values than ``settings``."""
    names = {name.lower(): value for name, value in settings.items()}
    for name, requested, found in _differing(connection, database, names):
        raise RunFailed(
            f"{title} with {name}={requested}",
            f"the server has {found}",
            "load the data again, or remove the setting",
        )


def _differing(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    rows = connection.execute(_SOURCES_SQL, [list(settings), list(_SOURCES)]).fetchall()
    for name, value, source in rows:
        if settings[name.lower()] != _SERVERS_CHOICE:
            yield name, settings[name.lower()], f"{value}, from {source}"
    for (override,) in connection.execute(_OVERRIDES_SQL, [database]).fetchall():
        name, _, value = override.partition("=")
        if name.lower() in settings:
            yield name, settings[name.lower()], f"{value}, set for a database or a user"
