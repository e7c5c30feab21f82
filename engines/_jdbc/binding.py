"""The JDBC binding of the official YCSB client (``ycsb/``), and its properties.

The connection is that of the native client. A server on this machine listens only on a Unix
socket, for which the binding has its own socket factory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.engine import Engine, YcsbBinding
from harness.errors import UsageError
from harness.store.spec import JsonObject

_PROJECT = Path(__file__).parent / "ycsb"
_FACTORY = "tierbench.ycsb.UnixSocketFactory"
#: Properties that have the same name in the drivers and in the native client.
_SAME = ("user", "password")
_POSTGRES_SAME = (*_SAME, "options", "sslmode", "sslrootcert", "sslcert", "sslkey")


class ThroughJdbc(Engine):
    """Engines that the official client drives through JDBC ."""

    #: Connection of the native client → properties of the engine's JDBC driver.
    jdbc_properties: Callable[[JsonObject], dict[str, str]]

    def ycsb_binding(self) -> YcsbBinding:
        """The same for every engine."""
        return YcsbBinding(_PROJECT, "tierbench.ycsb.JdbcBinding")

    def ycsb_properties(self, connection: JsonObject, params: JsonObject) -> Mapping[str, str]:
        """Properties of the driver, and the native client's statements."""
        return {
            "db": self.ycsb_binding().database,
            **self.jdbc_properties(connection),
            **_calls(self.native_calls("ycsb", params)),
        }


def _calls(native: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Properties of the statements; those per field are numbered."""
    calls: dict[str, str] = {}
    for operation, text in native.items():
        if isinstance(text, str):
            calls[f"call.{operation}"] = text
        else:
            calls |= {f"call.{operation}.{number}": item for number, item in enumerate(text)}
    return calls


def postgres_properties(connection: JsonObject) -> dict[str, str]:
    """Properties of PostgreSQL's driver, from libpq's keywords."""
    host, port = str(connection["host"]), connection["port"]
    _refuse_others(connection, {*_POSTGRES_SAME, "host", "port", "database", "application_name"})
    on_socket = host.startswith("/")
    where = "localhost" if on_socket else host
    properties = {
        "jdbc.url": f"jdbc:postgresql://{_bracketed(where)}:{port}/{connection['database']}",
        "jdbc.with.ApplicationName": str(connection.get("application_name") or "harness"),
        # Prepare in the server from the first execution on, as the native client does.
        "jdbc.with.prepareThreshold": "1",
        "jdbc.with.reWriteBatchedInserts": "true",
        **_taken_over(connection, _POSTGRES_SAME),
    }
    if on_socket:
        properties["jdbc.with.sslmode"] = "disable"
        properties |= _through(f"{host}/.s.PGSQL.{port}")
    return properties


def innodb_properties(connection: JsonObject) -> dict[str, str]:
    """Properties of MariaDB's driver, which also connects to MySQL."""
    _refuse_others(connection, {*_SAME, "socket", "host", "port", "database"})
    socket = connection.get("socket")
    where = "localhost" if socket else _bracketed(str(connection["host"]))
    properties = {
        "jdbc.url": f"jdbc:mariadb://{where}:{connection.get('port') or 3306}/"
        f"{connection['database']}",
        "jdbc.with.useServerPrepStmts": "true",
        # MySQL's password exchange without TLS, safe on a private socket.
        "jdbc.with.allowPublicKeyRetrieval": "true" if socket else "false",
        **_taken_over(connection, _SAME),
    }
    return properties | (_through(str(socket)) if socket else {})


def _through(socket: str) -> dict[str, str]:
    return {"jdbc.socket": socket, "jdbc.with.socketFactory": _FACTORY}


def _taken_over(connection: JsonObject, names: Sequence[str]) -> dict[str, str]:
    return {f"jdbc.with.{name}": str(connection[name]) for name in names if connection.get(name)}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse_others(connection: JsonObject, parameters: set[str]) -> None:
    if others := sorted(name for name in connection.keys() - parameters if connection[name]):
        raise UsageError(
            "driver ycsb with this connection",
            f"the JDBC driver does not support {', '.join(others)}",
            "remove it from the DSN, or use --driver loadgen",
        )
