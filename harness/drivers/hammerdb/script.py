"""The Tcl, by database, that HammerDB's command line runs: one script a build, one a timed run.

Passwords stand in it, so it lies in a private folder, and HammerDB's echo of every setting
is turned off while they are set. Its output goes out line by line: through a pipe Tcl would
keep back kilobytes of it, and with them the moment at which the measured window begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
        "2.4.1.5",
        "New-Order draws the warehouse of a remote line from all, the order's own included",
    ),
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
class TargetDatabase:
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
        return f"TargetDatabase({self.dialect} {self.user}@{where}/{self.database})"


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


def target_of(engine: Engine) -> TargetDatabase:
    """Return where HammerDB finds the engine: started, unless it is the user's own.

    UsageError as ``drivable``.
    """
    return target(drivable(engine), engine.native_connection())


def target(dialect: str, connection: JsonObject) -> TargetDatabase:
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
    return TargetDatabase(
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


#: HammerDB loads the package comm, which evaluates what any local user sends to its port. No
#: connection is accepted before this line: that needs Tcl's event loop, which has not run yet.
_CLOSE_CHANNEL = "catch {::comm::comm destroy}"
_POSTGRES = "pg"
_MINUTE_NS = 60 * 10**9
#: HammerDB's own bound on virtual users that build.
_MOST_BUILDERS = 1024
#: Has it use the first driver that unixODBC knows; it has no such list of its own.
_ODBC_DRIVER = (
    f"package require {LIBRARIES[MSSQLS]}; "
    f"foreach driver {{{' '.join(f'{{{name}}}' for name in ODBC_DRIVERS)}}} "
    "{if {[dict exists [::tdbc::odbc::drivers] $driver]} "
    "{diset connection mssqls_linux_odbc $driver; break}}"
)


@dataclass(frozen=True)
class TimedRun:
    """A timed run, in HammerDB's whole minutes.

    ``all_warehouses``: the users share all warehouses out among them; otherwise each keeps
    to one that it draws. ``think_time``: its keying and thinking. ``time_profile``: have the
    response times reported, which costs the client some CPU.
    """

    users: int
    ramp_up_min: int
    duration_min: int
    all_warehouses: bool = True
    think_time: bool = False
    time_profile: bool = True


def whole_minutes(name: str, duration_ns: int, least: int) -> int:
    """Return ``duration_ns`` in minutes; UsageError for a duration that HammerDB cannot have."""
    minutes, rest = divmod(duration_ns, _MINUTE_NS)
    if rest or minutes < least:
        enough = max(1, minutes + bool(rest))
        raise UsageError(
            f"{name} of {duration_ns / 1e9:g} s with driver hammerdb",
            f"HammerDB counts whole minutes, {least} at least",
            f"choose --{name.replace('_', '-')} {enough}m, or --driver loadgen",
        )
    return minutes


def build_script(target: TargetDatabase, warehouses: int, users: int) -> str:
    """Build the schema with its procedures and statistics; ``users`` load in parallel."""
    # It refuses more builders than warehouses.
    builders = max(1, min(users, warehouses, _MOST_BUILDERS))
    settings = {"count_ware": str(warehouses), "num_vu": str(builders)}
    return _script(target, settings, ["buildschema"])


def timed_script(target: TargetDatabase, timed: TimedRun) -> str:
    """Drive a built schema, and report NOPM, TPM and response times."""
    return _script(
        target,
        {
            "driver": "timed",
            "rampup": str(timed.ramp_up_min),
            "duration": str(timed.duration_min),
            "total_iterations": "1000000000",
            # Its InnoDB procedures let a deadlock through to the client, which is no failure of
            # a run; PostgreSQL's catch it.
            "raiseerror": _boolean(target.dialect == _POSTGRES),
            "keyandthink": _boolean(timed.think_time),
            "allwarehouse": _boolean(timed.all_warehouses),
            "timeprofile": _boolean(timed.time_profile),
        },
        [
            "loadscript",
            f"vuset vu {timed.users}",
            # Between one user's start and the next's: half a second of its own is a quarter
            # of an hour with thousands of users.
            "vuset delay 20",
            "vuset logtotemp 0",
            "vucreate",
            "vurun",
            "vudestroy",
        ],
    )


def _script(target: TargetDatabase, settings: dict[str, str], commands: list[str]) -> str:
    head = [
        _CLOSE_CHANNEL,
        "fconfigure stdout -buffering line",
        f"dbset db {target.dialect}",
        "dbset bm TPC-C",
    ]
    return "\n".join([*head, *_settings(target, settings), *commands, "exit", ""])


def _settings(target: TargetDatabase, settings: dict[str, str]) -> Iterator[str]:
    connection = {"host": target.host, "port": str(target.port)}
    tpcc = {"user": target.user, "dbase": target.database, **settings}
    passwords = {"pass": "tpcc"}
    if target.dialect == MSSQLS:
        yield _ODBC_DRIVER
        connection = {
            "linux_server": f"{target.host},{target.port}",
            "linux_authent": "sql",
            "uid": target.user,
            "encrypt_connection": _boolean(bool(target.ca)),
            "trust_server_cert": "false",
        }
        # The program bcp would take the password as an argument.
        tpcc = {"dbase": target.database, "use_bcp": "false", **settings}
        passwords = {"pass": "connection"}
    elif target.dialect == _POSTGRES:
        connection["sslmode"] = "disable"
        # Procedures (from release 11), not its default, functions: to those 4.12 passes the
        # customer's last name wrongly, and they find no customer.
        tpcc |= {
            "superuser": target.user,
            "defaultdbase": target.database,
            "storedprocs": "true",
        }
        passwords["superuserpass"] = "tpcc"
    elif target.socket is None:
        connection["socket"] = "null"
    else:  # it is used where the host is this one
        connection |= {"host": "127.0.0.1", "socket": target.socket}
    for name, value in connection.items():
        yield f"diset connection {target.dialect}_{name} {{{value}}}"
    for name, value in tpcc.items():
        yield f"diset tpcc {target.dialect}_{name} {{{value}}}"
    yield "rename putscli putscli_aloud; proc putscli args {}"
    for name, part in passwords.items():
        yield f"diset {part} {target.dialect}_{name} {{{target.password}}}"
    yield "rename putscli {}; rename putscli_aloud putscli"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
