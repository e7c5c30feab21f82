"""pgbench and sysbench as drivers: the user's scripts, or theirs, on the user's data or theirs.

The metrics of a run are those of YCSB (harness.workloads.ycsb.workload), an operation being one
execution of a script, whose name is its label:

================================== =====================================================
metric                             what it is
================================== =====================================================
operations_per_second              executions of the measurement window, of all scripts
offered_operations_per_second      intended starts, where a rate is set
operation_duration_ns              histogram by ``operation``: of those that ended well; from the
                                   intended start where a rate is set
operation_count                    by ``operation``: those that ended well
operation_failed_count             those given up after a serialization failure or a deadlock
operation_retried_count            tries undone by these, and made again
================================== =====================================================
"""

from __future__ import annotations

import re
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.drivers import pgbench, sysbench
from harness.drivers.client_program import OfferedLoad, Script
from harness.drivers.result import DriverResult, WindowCallbacks, WindowCounters
from harness.drivers.validity import Nouns
from harness.engine import Engine, FillRequest
from harness.errors import RunFailed, UsageError, nearest
from harness.store.result import Check, CheckStatus
from harness.store.spec import JsonObject
from harness.supervise.credentials import run_unprivileged
from harness.units import MIB
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session
from harness.workloads.sql.folder import CHECK, read_folder
from harness.workloads.sql.params import BUILTIN, SqlParams, digest, is_for_pgbench, scripts
from harness.workloads.sql.schema import read_schema
from harness.workloads.window import LoadingDriver, rates_per_second, window_outcome

NOUNS = Nouns(
    operation="operation",
    user="user",
    users_option="--users",
    counts=("count", "failed_count", "retried_count"),
)
_VERSION_TIMEOUT_S = 30.0
_SEED_RANGE = 2**31 - 1
#: Rows of sysbench's own tables, about, with their index.
_ROW_BYTES = 260
#: The table whose rows are the scale, and bytes of all tables with their indexes for each.
_BRANCHES, _BRANCH_BYTES = "pgbench_branches", 16 * MIB
_SCALE = re.compile(r"(?<!:):scale\b")
#: What TPC-B requires of its tables, by what pgbench's own scripts change.
_BALANCES = {
    "accounts": "SELECT (SELECT sum(abalance) FROM pgbench_accounts), "
    "(SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
    "branches": "SELECT (SELECT sum(tbalance) FROM pgbench_tellers), "
    "(SELECT sum(bbalance) FROM pgbench_branches)",
}


@dataclass(frozen=True)
class _ScriptDriver(LoadingDriver):
    """``client``: its program. ``package``: Debian's, which has it."""

    params: SqlParams
    client: ClassVar[str]
    package: ClassVar[str]

    def program(self, engine: Engine) -> tuple[Path, str]:
        """Return the program of the engine's installation, or of the machine, and its version."""
        path = engine.client_program(self.client) or shutil.which(self.client)
        if path is None:
            raise UsageError(
                f"driver {self.client}",
                f"there is no {self.client} with {engine.name}, and none on the PATH",
                f"apt-get install {self.package}, or use an installation of the engine that has it",
            )
        return Path(path), _version(Path(path))

    def scripts(self) -> list[Script]:
        """Read the scripts; UsageError where they have changed since the run was planned."""
        chosen = scripts(self.params)
        if digest(chosen) != self.params.script_digest:
            raise UsageError(
                f"scripts {', '.join(script.name for script in chosen)}",
                "their texts are not those of the run",
                "start a new run",
            )
        return chosen

    def variables(self) -> dict[str, str]:
        return dict(definition.split("=", 1) for definition in self.params.define or ())

    def offered(self, seed: int) -> OfferedLoad:
        """The load of a run with that seed."""
        params = self.params
        assert params.users and params.client_threads and params.ramp_up and params.duration
        return OfferedLoad(
            users=params.users,
            threads=params.client_threads,
            ramp_up_ns=params.ramp_up.ns,
            duration_ns=params.duration.ns,
            rate_per_s=params.rate,
            variables=self.variables(),
            protocol=params.protocol or params.client_protocol,
            max_tries=params.max_tries or 1,
            seed=seed % _SEED_RANGE + 1,
        )

    @abstractmethod
    def estimate_bytes(self) -> int:
        """Upper estimate of the size of the tables that it makes itself."""

    @abstractmethod
    def prepare(self, loading: Loading, connection: JsonObject) -> None:
        """Have the client make its tables; RunFailed with its last lines."""

    def load(self, loading: Loading) -> dict[str, Any]:
        """Have the client make its tables, and analyse them."""
        engine = loading.engine

        def fill(connection: JsonObject) -> dict[str, int]:
            self.prepare(loading, connection)
            return _tables(engine)

        engine.native_load(FillRequest("sql", fill, {}, loading.progress))
        return {"driver": self.program(engine)[1], **self.key()}


@dataclass(frozen=True)
class PgbenchDriver(_ScriptDriver):
    """pgbench of the server's installation, or the machine's."""

    client, package = "pgbench", "postgresql-contrib"

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        if engine.sysbench_driver != "pgsql":
            raise UsageError(
                f"driver pgbench on {engine.name}", "pgbench speaks to PostgreSQL alone",
                "choose that engine, or --driver sysbench",
            )  # fmt: skip
        for script in self.params.script or ():
            if not is_for_pgbench(script):
                similar = nearest(script, BUILTIN)
                raise UsageError(
                    f"script {script} with driver pgbench",
                    f"neither a file of SQL nor a script of pgbench's own{similar}",
                    f"name FILE.sql, FILE.sql@WEIGHT, {', '.join(BUILTIN)}",
                )
        if self.params.folder:
            self._check_scale(engine)
        self.scripts()
        self.program(engine)

    def _check_scale(self, engine: Engine) -> None:
        """UsageError for scripts that would find no table, or the scale 1 whatever the tables."""
        schema = read_schema(read_folder(Path(self.params.folder)), engine)
        if _BRANCHES in schema.plain_names:
            return
        for script in self.scripts():
            if not script.text:
                raise UsageError(
                    f"script {script.name} on folder {self.params.folder}",
                    f"it is for pgbench's own tables, and the folder has no {_BRANCHES}",
                    "leave --folder out, and choose their size by --scale",
                )
            if _SCALE.search(script.text) and not (self.params.scale or self._defines_scale):
                raise UsageError(
                    f"script {script.name}",
                    f"it has :scale, which would be 1: the folder has no {_BRANCHES}",
                    "add --scale, or leave --folder out for pgbench's own tables",
                )

    @property
    def _defines_scale(self) -> bool:
        return "scale" in self.variables()

    def key(self) -> JsonObject:
        """Values on which pgbench's own tables depend."""
        return {"builder": "pgbench", "scale": self.params.scale}

    def estimate_bytes(self) -> int:
        return _BRANCH_BYTES * (self.params.scale or 1)

    def prepare(self, loading: Loading, connection: JsonObject) -> None:
        program, version = self.program(loading.engine)
        assert self.params.scale
        pgbench.prepare(
            program, version, connection, self.params.scale, loading.clients, loading.progress
        )

    def warnings(self, engine: Engine) -> Iterable[RunWarning]:
        users, scale = self.params.users or 0, self.params.scale or 0
        if users > scale > 0 and any(s.name == BUILTIN[0] and not s.text for s in self.scripts()):
            yield RunWarning(
                code="branches-contended",
                problem="users wait for each other: each transaction updates one of few branches",
                context=f"{users} users, {scale} rows of {_BRANCHES}",
                hint=f"use --scale {users} or more, or --script simple-update",
            )

    def verify(self, session: Session, driven: DriverResult) -> list[Check]:
        """Compare the sums that pgbench's own scripts keep equal, where no others ran."""
        if self.params.folder or any(script.text for script in self.scripts()):
            return []
        checks = []
        with closing(session.engine.connect()) as connection:
            for name, statement in _BALANCES.items():
                ((left, right),) = connection.execute(statement).rows
                status: CheckStatus = "passed" if left == right else "failed"
                labels = {"table": name}
                checks.append(Check("balances", status, f"{left} and {right}", labels))
        return checks

    def _scale(self, engine: Engine) -> int | None:
        """The value of ``:scale``: as pgbench counts it for its own scripts."""
        if self.params.scale or self._defines_scale:
            return self.params.scale
        if _BRANCHES not in _table_names(engine):
            return None
        with closing(engine.connect()) as connection:
            return int(str(connection.execute(f"SELECT count(*) FROM {_BRANCHES}").rows[0][0]))

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        return pgbench.drive(
            *self.program(session.engine),
            session.engine.native_connection(),
            self.scripts(),
            self.offered(session.seed),
            self._scale(session.engine),
            session.clients(),
            session.progress,
            drives,
        )


@dataclass(frozen=True)
class SysbenchDriver(_ScriptDriver):
    """sysbench as the machine has it installed."""

    client = package = "sysbench"

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        if not engine.sysbench_driver or engine.kind != "managed":
            raise UsageError(
                f"driver sysbench on {engine.name} ({engine.kind})",
                "it is for PostgreSQL, MySQL and MariaDB that the harness runs",
                "choose such an engine, without --dsn",
            )
        names = self.params.script or ()
        if len(names) != 1 or is_for_pgbench(names[0]):
            raise UsageError(
                f"{len(names)} scripts with driver sysbench: {', '.join(names)}",
                "sysbench runs one script in Lua at a time",
                "name one: --script oltp_read_write, or --script my.lua",
            )
        for name in self.variables():
            if sysbench.OWN_OPTIONS.fullmatch(name.replace("_", "-")):
                raise UsageError(
                    f"--define {name}", "the harness decides this option of sysbench",
                    "use --users, --duration, --rate, --protocol, or leave it out",
                )  # fmt: skip
        if self.params.protocol == "extended" or (self.params.max_tries or 1) != 1:
            raise UsageError(
                "protocol extended or max_tries with driver sysbench", "it has no such option",
                "leave them out: it prepares statements, and repeats after deadlocks",
            )  # fmt: skip
        self.scripts()
        self.program(engine)

    def key(self) -> JsonObject:
        """Values on which sysbench's own tables depend."""
        return {
            "builder": "sysbench",
            "script": self.scripts()[0].name,
            "script_digest": self.params.script_digest,
            "define": list(self.params.define or ()),
        }

    def estimate_bytes(self) -> int:
        """Upper estimate of the tables' size; of a script of the user's, its own sizes."""
        given = self.variables()
        tables, rows = (given.get(name, "") for name in ("tables", "table_size"))
        rows = rows or given.get("table-size", "")
        count = int(tables) if tables.isdigit() else 1
        return _ROW_BYTES * count * (int(rows) if rows.isdigit() else 10_000)

    def prepare(self, loading: Loading, connection: JsonObject) -> None:
        engine = loading.engine
        program, version = self.program(engine)
        sysbench.prepare(
            program,
            version,
            engine.sysbench_driver,
            connection,
            self.scripts()[0],
            self.variables(),
            loading.threads,
            loading.clients,
            loading.progress,
        )

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        engine = session.engine
        return sysbench.drive(
            *self.program(engine),
            engine.sysbench_driver,
            engine.native_connection(),
            self.scripts()[0],
            self.offered(session.seed),
            session.clients(),
            session.progress,
            drives,
        )


DRIVERS: Mapping[str, type[_ScriptDriver]] = {
    "pgbench": PgbenchDriver,
    "sysbench": SysbenchDriver,
}


def driver_of(params: SqlParams, name: str) -> _ScriptDriver:
    """Return the driver; UsageError for the harness itself, which runs no scripts."""
    if name not in DRIVERS:
        raise UsageError(
            f"script {', '.join(params.script or ())}",
            "the harness itself runs the queries of a folder, and no scripts",
            f"add --driver {' or --driver '.join(DRIVERS)}",
        )
    return DRIVERS[name](params)


def loading_driver(params: SqlParams) -> _ScriptDriver:
    """Return the driver that makes the tables of scripts without a folder."""
    return (PgbenchDriver if params.of_pgbench else SysbenchDriver)(params)


def measure(
    params: SqlParams, session: Session, check_data: Callable[[], Iterable[Check]]
) -> Outcome:
    """Offer the load, then check the data."""
    driver = driver_of(params, session.driver)
    counted = WindowCounters(session)
    driven = driver.drive(session, counted.drives())
    assert params.users
    unchecked = Check(CHECK, "unknown", "there is none: what the scripts wrote is not verified")
    return window_outcome(
        driver,
        driven,
        counted,
        NOUNS,
        params.client_outline(),
        users=params.users,
        closed=params.rate is None,
        rates=list(rates_per_second(driven)),
        checks=[*driver.verify(session, driven), *check_data()] or [unchecked],
        warnings=list(_failures(driven)),
        scripts={
            script.name: {"text": script.text, **({"files": script.files} if script.files else {})}
            for script in driver.scripts()
        },
    )


def _failures(driven: DriverResult) -> Iterable[RunWarning]:
    for name, operation in driven.operations.items():
        if operation.failed_count:
            yield RunWarning(
                code="failed-transactions",
                problem="transactions were given up, and are in no rate and no latency",
                context=f"{operation.failed_count} of {name}, by serialization failures or "
                f"deadlocks; {operation.count} ended well",
                hint="use --max-tries 10, or another isolation level",
            )


def _version(program: Path) -> str:
    """Return what it says of itself, ``pgbench (PostgreSQL) 15.18``; it runs unprivileged."""
    try:
        done = run_unprivileged([str(program), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"driver {program.name}", str(error), "install it again") from error
    words = done.stdout.strip().splitlines()
    if done.returncode or not words:
        raise UsageError(
            f"driver {program.name}",
            f"{program} --version: {(done.stderr or 'nothing printed').strip()[-300:]}",
            "install it again",
        )
    return words[0]


def _table_names(engine: Engine) -> list[str]:
    schema = "current_schema()" if engine.sysbench_driver == "pgsql" else "schema()"
    with closing(engine.connect()) as connection:
        names = connection.execute(
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}"
        ).rows
    return [str(name) for (name,) in names]


def _tables(engine: Engine) -> dict[str, int]:
    """Rows by table of the database that a client has filled; RunFailed for none."""
    names = _table_names(engine)
    with closing(engine.connect()) as connection:
        counts = {
            name: int(str(connection.execute(f"SELECT count(*) FROM {name}").rows[0][0]))
            for name in names
        }
    if not counts:
        raise RunFailed("prepare", "the script made no table", "give it a function prepare()")
    return counts
