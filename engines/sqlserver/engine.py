"""SQL Server as an engine: the user's own. Its client is imported late (server.py)."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from engines._installation import workloads_in
from harness.engine import Engine, EngineContext, EngineFactory, EngineOptions, EngineVersion
from harness.errors import UsageError


def _external(context: EngineContext) -> Engine:
    from engines.sqlserver.server import SqlServer

    return SqlServer(context)


def _external_version(options: EngineOptions) -> EngineVersion:
    try:
        from engines.sqlserver.server import server_version
    except ModuleNotFoundError as error:
        raise UsageError(
            "SQL Server", f"{error}", "install the harness again (make setup)"
        ) from error
    return server_version(options)


def _none(*_: object) -> NoReturn:
    raise UsageError(
        "SQL Server",
        "the harness installs and starts none",
        "name yours: --dsn 'mssql://user@host/master?ca=FILE'",
    )


ENGINE = EngineFactory(
    name="sqlserver",
    title="SQL Server",
    kinds=("external",),
    options={
        "dsn": "use this server: mssql://user@host/database?ca=FILE, or 'env'",
        "data_folder": "folder of the server for the data files of new databases [its default]",
        "log_folder": "folder of the server for their log files [its default]",
    },
    clears_caches=True,
    workloads=workloads_in(Path(__file__).parent / "sql"),
    placeable=frozenset(),
    make=_none,
    installation=_none,
    external=_external,
    external_version=_external_version,
    untested=True,
)
