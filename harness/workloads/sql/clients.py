"""pgbench and sysbench as drivers: the user's scripts, on data of the user's folder or sysbench's.

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

import shutil
import subprocess
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
from harness.errors import RunFailed, UsageError
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.supervise.credentials import run_unprivileged
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session
from harness.workloads.sql.folder import CHECK
from harness.workloads.sql.params import ClientParams, digest, scripts
from harness.workloads.window import Driver, LoadingDriver, rates_per_second, window_outcome

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


@dataclass(frozen=True)
class _ScriptDriver(Driver):
    """``client``: its program. ``package``: Debian's, which has it."""

    params: ClientParams
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
            protocol=params.protocol or "prepared",
            max_tries=params.max_tries or 1,
            seed=seed % _SEED_RANGE + 1,
        )


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
            if not script.rpartition("@")[0].endswith((".sql", ".pgbench")):
                raise UsageError(
                    f"script {script} with driver pgbench", "not a file of SQL",
                    "name FILE.sql, or FILE.sql@WEIGHT",
                )  # fmt: skip
        self.scripts()
        self.program(engine)

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        return pgbench.drive(
            *self.program(session.engine),
            session.engine.native_connection(),
            self.scripts(),
            self.offered(session.seed),
            session.clients(),
            session.progress,
            drives,
        )


@dataclass(frozen=True)
class SysbenchDriver(_ScriptDriver, LoadingDriver):
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
        if len(names) != 1 or names[0].rpartition("@")[0].endswith((".sql", ".pgbench")):
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

    def load(self, loading: Loading) -> dict[str, Any]:
        """Have the script's ``prepare`` make its tables, and analyse them."""
        engine, script = loading.engine, self.scripts()[0]
        program, version = self.program(engine)

        def fill(connection: JsonObject) -> dict[str, int]:
            sysbench.prepare(
                program,
                version,
                engine.sysbench_driver,
                connection,
                script,
                self.variables(),
                loading.threads,
                loading.clients,
                loading.progress,
            )
            return _tables(engine)

        engine.native_load(FillRequest("sql", fill, {}, loading.progress))
        return {"driver": version, **self.key()}

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


def driver_of(params: ClientParams, name: str) -> _ScriptDriver:
    """Return the driver; UsageError for the harness itself, which runs no scripts."""
    if name not in DRIVERS:
        raise UsageError(
            f"script {', '.join(params.script or ())}",
            "the harness itself runs the queries of a folder, and no scripts",
            f"add --driver {' or --driver '.join(DRIVERS)}",
        )
    return DRIVERS[name](params)


def measure(
    params: ClientParams, session: Session, check_data: Callable[[], Iterable[Check]]
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
        checks=list(check_data()) or [unchecked],
        warnings=list(_failures(driven)),
        scripts={script.name: {"text": script.text} for script in driver.scripts()},
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


def _tables(engine: Engine) -> dict[str, int]:
    """Rows by table of the database that a script has filled; RunFailed for none."""
    schema = "current_schema()" if engine.sysbench_driver == "pgsql" else "schema()"
    with closing(engine.connect()) as connection:
        names = connection.execute(
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}"
        ).rows
        metrics = {
            str(name): int(str(connection.execute(f"SELECT count(*) FROM {name}").rows[0][0]))
            for (name,) in names
        }
    if not metrics:
        raise RunFailed("prepare", "the script made no table", "give it a function prepare()")
    return metrics
