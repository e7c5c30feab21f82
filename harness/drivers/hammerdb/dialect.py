"""The databases that HammerDB drives, by its own names, and what it connects to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.engine import Engine
from harness.errors import UsageError, unknown
from harness.store.spec import JsonObject

#: The Tcl package that its virtual users load, by the word of ``dbset db``, with which the keys
#: of its dictionary begin, too.
LIBRARIES = {"pg": "Pgtcl", "mysql": "mysqltcl", "maria": "mariatcl", "mssqls": "tdbc::odbc"}
_INNODB, MSSQLS = ("mysql", "maria"), "mssqls"
#: Its names of Microsoft's ODBC drivers, the newest first; the sources name the first one.
ODBC_DRIVERS = tuple(f"ODBC Driver {release} for SQL Server" for release in (18, 17))
#: There it needs nothing but an empty database, and makes only tables and procedures in it.
_EXTERNAL = (MSSQLS,)
#: Differences of its stored procedures from the specification, by its word for the server: up to
#: which major release, clause, and text. Others, of all releases: docs/hammerdb.md.
_DIFFERENCES: tuple[tuple[tuple[str, ...], int, str, str], ...] = (
    (("pg",), 5, "2.4.2.2", "New-Order adds quantity and price, where OL_AMOUNT is their product"),
    (
        ("pg",),
        6,
        "2.5.2.2",
        "Payment by last name takes the customer at half of the matches, rounded down",
    ),
    (
        (*_INNODB,),
        6,
        "2.5.2.2",
        "Payment by last name takes the customer after the middle one",
    ),
    (
        ("pg", *_INNODB),
        6,
        "2.6.2.2",
        "Order-Status by last name takes the customer after the middle one",
    ),
    (
        (MSSQLS,),
        6,
        "2.5.2.2",
        "Payment writes C_CREDIT into C_DATA of customers with good credit",
    ),
    ((MSSQLS,), 6, "2.7.4.2", "Delivery adds amounts as whole numbers"),
)
#: What goes through HammerDB's scripts unquoted several times, and comes out as it was.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,~-]+")


@dataclass(frozen=True)
class Target:
    """A database that HammerDB connects to.

    ``dialect``: its word for the server (:data:`LIBRARIES`). ``host``: a name, an address, or
    the folder of PostgreSQL's socket. ``socket``: the path of MySQL's or MariaDB's, which goes
    before host and port. ``database``: what is built into; it may exist, without tables.
    ``password`` is not in its repr. ``ca``: the file of the authority that signed the server's
    certificate; empty: no encryption.
    """

    dialect: str
    host: str
    port: int
    user: str
    password: str
    database: str
    socket: str | None = None
    ca: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Where the ODBC driver, or its OpenSSL, finds the authority; it has no setting for it."""
        return {"SSL_CERT_FILE": self.ca} if self.ca else {}

    def __repr__(self) -> str:
        where = self.socket or f"{self.host}:{self.port}"
        return f"Target({self.dialect} {self.user}@{where}/{self.database})"


def drivable(engine: Engine) -> str:
    """Return HammerDB's name of the engine; UsageError where HammerDB cannot or must not drive it.

    On most servers it makes users and databases and fills whatever schema comes first, so there it
    is let loose only on a server of our own.
    """
    if not engine.hammerdb_database:
        raise UsageError(
            f"driver hammerdb on {engine.name}",
            "HammerDB does not know this engine, or its engine here does not say so",
            "choose --driver loadgen, or another engine",
        )
    word = engine.hammerdb_database
    if engine.kind != "managed" and word not in _EXTERNAL:
        raise UsageError(
            f"driver hammerdb on an {engine.kind} {engine.name} server",
            "HammerDB alters users and owners and builds outside the schema that is ours",
            "choose --driver loadgen, or let the harness run the server",
        )
    if word not in LIBRARIES:
        raise unknown(f"HammerDB on its database {word!r}", "it is not driven", word, LIBRARIES)
    return word


def target_of(engine: Engine) -> Target:
    """Return where HammerDB finds the engine: started, unless it is the user's own.

    UsageError as ``drivable``.
    """
    return target(drivable(engine), engine.native_connection())


def target(dialect: str, connection: JsonObject) -> Target:
    """Make a target of the native client's connection; UsageError for unquotable values.

    PostgreSQL's ``host`` may be the folder of its socket, as libpq has it.
    """
    for name in ("host", "socket", "user", "password", "database"):
        value = str(connection.get(name) or "x")
        if not _PLAIN.fullmatch(value):
            shown = "it" if name == "password" else repr(value)
            raise UsageError(
                f"HammerDB with this {name}",
                f"{shown} has characters that HammerDB's scripts take apart",
                f"choose letters and digits, and of others only {_PLAIN.pattern[10:-2]}",
            )
    return Target(
        dialect,
        host=str(connection.get("host") or "127.0.0.1"),
        port=int(str(connection.get("port") or 0)),
        user=str(connection["user"]),
        password=str(connection["password"]),
        database=str(connection["database"]),
        socket=str(connection["socket"]) if connection.get("socket") else None,
        ca=str(connection.get("ca") or ""),
    )


def differences_of(dialect: str, release: int) -> list[str]:
    """Return the differences of a major release's transactions from the specification."""
    return [
        f"{text} (clause {clause})"
        for dialects, last, clause, text in _DIFFERENCES
        if dialect in dialects and release <= last
    ]
