"""The Tcl that HammerDB's command line runs: one script a build, one a timed run.

Passwords stand in it, so it lies in a private folder, and HammerDB's echo of every setting
is turned off while they are set. Its output goes out line by line: through a pipe Tcl would
keep back kilobytes of it, and with them the moment at which the measured window begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.drivers.hammerdb.dialect import LIBRARIES, MSSQLS, ODBC_DRIVERS, Target
from harness.errors import UsageError

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
class Timed:
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


def build_script(target: Target, warehouses: int, users: int) -> str:
    """Build the schema with its procedures and statistics; ``users`` load in parallel."""
    # It refuses more builders than warehouses.
    builders = max(1, min(users, warehouses, _MOST_BUILDERS))
    settings = {"count_ware": str(warehouses), "num_vu": str(builders)}
    return _script(target, settings, ["buildschema"])


def timed_script(target: Target, timed: Timed) -> str:
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


def _script(target: Target, settings: dict[str, str], commands: list[str]) -> str:
    head = ["fconfigure stdout -buffering line", f"dbset db {target.dialect}", "dbset bm TPC-C"]
    return "\n".join([*head, *_settings(target, settings), *commands, "exit", ""])


def _settings(target: Target, settings: dict[str, str]) -> Iterator[str]:
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
