"""Parts that the TPC-C benchmarks share: one PostgreSQL as all arms have it, databases kept to be
restored for every measurement, and clients whose processor time is known.

Every arm runs on the same binaries with the same settings (``SETTINGS``, fsync on) and, but
for the load benchmark, on a database that was copied back for it, warmed by the same ramp-up.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from smoke import SMOKE

from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import TargetDatabase, TimedRun, target_of
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenSpec, LoopMode
from harness.drivers.result import WindowCallbacks
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed
from harness.execution.environment import Environment, open_environment
from harness.experiment.placement import DIRECTORY_PARTS
from harness.host.process_counters import read_counters
from harness.paths import data_root, engines_prefix
from harness.progress import SilentProgress
from harness.registry import engine as engine_factory
from harness.sql_files import text_of
from harness.supervise.process import descendants
from harness.workload import Clients, Loading
from harness.workloads.tpcc.drivers import TpccLoadgen
from harness.workloads.tpcc.params import TRANSACTIONS, TpccParams, event_loops
from reports.statistics import ratio_of

#: As in the comparison of clients that the figures of others come from.
SMALL = {"warehouses": 1, "pairs": 1}
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "200"}
RAMP_UP_S, WINDOW_S = (0, 0.5) if SMOKE else (60, 60)


@dataclass(frozen=True)
class MeasuredWindow:
    """One measured window. ``transactions``: done in it; CPU times are those of the window."""

    new_orders_per_minute: float
    transactions: float
    client_cpu_ns: float
    server_cpu_ns: float

    @property
    def client_us(self) -> float:
        """Client CPU of a transaction."""
        return self.client_cpu_ns / self.transactions / 1000

    @property
    def server_us(self) -> float:
        """Server CPU of a transaction."""
        return self.server_cpu_ns / self.transactions / 1000


@dataclass
class Server:
    """A started PostgreSQL and how clients are started beside it."""

    engine: Any
    clients: Clients

    @property
    def connection(self) -> dict[str, Any]:
        """As the native client takes it."""
        return dict(self.engine.native_connection())

    @property
    def target(self) -> TargetDatabase:
        """As HammerDB takes it."""
        return target_of(self.engine)

    def cpu_ns(self) -> float:
        """Processor time of the postmaster, its children, and those that it has waited for.

        A child that has just ended is in nobody's sum until it was waited for, so it is
        counted as the zombie that it is, and again where one was waited for meanwhile.
        """
        postmaster = self.engine.processes()[0]
        while True:
            before = [postmaster, *(stat.id for stat in descendants(postmaster.pid))]
            total = read_counters(before)["cpu_ns"]
            if before == [postmaster, *(stat.id for stat in descendants(postmaster.pid))]:
                return total

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """One statement on a connection of its own."""
        connection = self.engine.connect()
        try:
            rows: list[tuple[Any, ...]] = connection.execute(sql).rows
            return rows
        finally:
            connection.close()


@dataclass
class ServerCpu:
    """Server CPU between two moments."""

    server: Server
    _began: float = 0.0
    spent_ns: float = 0.0

    def begin(self) -> None:
        """The measured window begins."""
        self._began = self.server.cpu_ns()

    def end(self) -> None:
        """It ends."""
        self.spent_ns = self.server.cpu_ns() - self._began


@dataclass
class ServerFactory:
    """Makes servers, and keeps databases to be copied back."""

    env: Environment
    root: Path
    store: Path
    databases: dict[str, Path] = field(default_factory=dict)
    _made: int = 0

    @contextmanager
    def server(self, database: str | None = None) -> Iterator[Server]:
        """A started server, empty or on a copy of a kept database; gone afterwards."""
        self._made += 1
        with self._places() as places, self.env.scratch() as scratch:
            context = EngineContext(
                settings=SETTINGS, options={}, scratch=scratch, engines_prefix=engines_prefix(),
                processes=self.env.supervisor, credentials=self.env.credentials,
                threads=self.env.cores(), memory_limit_bytes=None,
            )  # fmt: skip
            engine: Any = engine_factory("postgres").create(context)
            try:
                if database is None:
                    # Only loading knows other settings; a restored server has the ordinary ones.
                    engine.initialise(places)
                else:
                    engine.restore(self.databases[database], places)
                engine.start()
                with self.env.scratch() as private:
                    clients = Clients(self.env.supervisor, self.env.credentials, private)
                    yield Server(engine, clients)
            finally:
                engine.kill()

    @contextmanager
    def _places(self) -> Iterator[DataDirectories]:
        with ExitStack() as stack:
            paths = {part: self.root / f"run-{self._made}-{part}" for part in DIRECTORY_PARTS}
            entered = {
                p: stack.enter_context(self.env.directory(path)) for p, path in paths.items()
            }
            yield DataDirectories(entered)

    def keep(self, name: str, server: Server) -> None:
        """Stop the server and keep its database under ``name``."""
        server.engine.stop()
        making = self.store / f"making-{name}"
        making.mkdir(parents=True)
        server.engine.snapshot(making)
        self.databases[name] = making.rename(self.store / f"kept-{name}")

    def find(self, name: str) -> bool:
        """Return whether a database was kept earlier under ``name``; it is used again then."""
        if (database := self.store / f"kept-{name}").exists():
            self.databases[name] = database
        return name in self.databases

    def keep_ours(self, warehouses: int) -> None:
        """Load TPC-C as the harness does and keep it as ``ours``, where it is not there yet."""
        if self.find(f"ours-{warehouses}"):
            return
        with self.server() as server:
            params = TpccParams.from_mapping({"warehouses": warehouses})
            loading = Loading(
                server.engine, "loadgen", None, server.clients, self.env.cores(), SilentProgress()
            )
            TpccLoadgen(params).load(loading)
            self.keep(f"ours-{warehouses}", server)

    def keep_hammerdbs(self, warehouses: int) -> None:
        """Have HammerDB build its schema and keep it as ``hammerdb``, where it is not there yet."""
        if self.find(f"hammerdb-{warehouses}"):
            return
        with self.server() as server:
            build(
                find(),
                server.target,
                server.clients,
                warehouses,
                self.env.cores(),
                SilentProgress(),
            )
            self.keep(f"hammerdb-{warehouses}", server)


@contextmanager
def opened(store: Path | None = None) -> Iterator[ServerFactory]:
    """A factory with a directory of its own below ``HARNESS_DATA``, removed at the end.

    ``store``: a directory for the databases, which stay there for the next benchmark.
    """
    with (
        open_environment(None, [], SilentProgress()) as env,
        tempfile.TemporaryDirectory(prefix="benchmark-", dir=data_root()) as folder,
    ):
        root = Path(folder)
        root.chmod(0o755)
        yield ServerFactory(env, root, store or root)


def drive_hammerdb(server: Server, users: int) -> MeasuredWindow:
    """HammerDB on what it has built; without its time profile, which costs it processor time."""
    server_cpu = ServerCpu(server)
    options = TimedRun(users, RAMP_UP_S // 60, int(WINDOW_S // 60), time_profile=False)
    measurement = measure(
        find(), server.target, server.clients, options, SilentProgress(),
        WindowCallbacks(server_cpu.begin, server_cpu.end),
    )  # fmt: skip
    assert measurement.client_cpu_ns is not None
    rates = measurement.reported_per_minute
    transactions = rates["database_transactions_per_minute"] * measurement.window_ns / 60e9
    return MeasuredWindow(
        rates["new_orders_per_minute"],
        transactions,
        measurement.client_cpu_ns,
        server_cpu.spent_ns,
    )


def drive_loadgen(
    server: Server, users: int, warehouses: int, procedures: str,
    ramp_up_s: int = RAMP_UP_S, window_s: float = WINDOW_S,
) -> MeasuredWindow:  # fmt: skip
    """Our client, by ``procedures`` ours ("own") or HammerDB's ("hammerdb")."""
    folder = "calls" if procedures == "own" else "calls_hammerdb_procedures"
    calls = server.engine.sql_folder / "tpcc" / folder
    spec = LoadgenSpec(
        server.engine.native_backend,
        server.connection,
        "tpcc",
        {"warehouses": warehouses, "data_seed": 1, "procedures": procedures},
        statements={name: text_of(calls / f"{name}.sql").strip() for name in TRANSACTIONS},
        threads=event_loops(users),
        connections=users,
        mode=LoopMode(think_time=False),
        ramp_up_ns=ramp_up_s * 10**9,
        duration_ns=int(window_s * 10**9),
        drain_ns=10**9,
        seed=time.time_ns() % 2**31,
    )
    server_cpu = ServerCpu(server)
    watch = WindowCallbacks(server_cpu.begin, server_cpu.end)
    result = processes.drive([spec], server.clients, watch)
    driven = result.window()
    new_orders = driven.operations["new_order"].count or 0
    return MeasuredWindow(
        new_orders * 60e9 / result.measured_ns,
        driven.done_count or 0,
        result.client_cpu_ns,
        server_cpu.spent_ns,
    )


def children_ns() -> float:
    """CPU of the processes that this one has started and waited for, so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e9


def run(
    argv: Sequence[str], server: Server, environment: Mapping[str, str], folder: Path = Path("/")
) -> str:
    """A client program of others as the unprivileged user; what it prints. RunFailed otherwise.

    It runs in ``folder``. The password is in its environment.
    """
    user = server.clients.credentials if os.geteuid() == 0 else None
    secret = {"PGPASSWORD": server.connection["password"]}
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=folder, check=False,
        env={"PATH": os.environ["PATH"], **secret, **environment},
        user=user.uid if user else None, group=user.gid if user else None,
        extra_groups=[] if user else None,
    )  # fmt: skip
    if done.returncode != 0:
        raise RunFailed(argv[0], (done.stderr or done.stdout)[-2000:])
    return done.stdout


def report(name: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """The medians of both and their ratio with its interval."""
    ratio = ratio_of(ours, theirs)
    interval = (
        "one pair: no interval"
        if ratio.low is None or ratio.high is None
        else f"[{ratio.low:.3f}, {ratio.high:.3f}], {ratio.confidence:.0%} of {len(ours)} pairs"
    )
    print(
        f"{name}: {median(ours):.4g} / {median(theirs):.4g} (medians), "
        f"ratio {ratio.value:.3f}, {interval}",
        flush=True,
    )


def alternated(arms: Sequence[str], pair: int) -> Sequence[str]:
    """The order of one round: every second one is the other way round."""
    return list(arms) if pair % 2 == 0 else list(reversed(arms))


def arguments(description: str, warehouses: int, pairs: int) -> argparse.ArgumentParser:
    """``--warehouses``, ``--pairs`` and ``--databases``; :data:`SMALL` replaces the first two."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--databases", type=Path, help="keep the databases here, and use those of another time"
    )
    parser.add_argument("--warehouses", type=int, default=warehouses)
    parser.add_argument("--pairs", type=int, default=pairs)
    return parser
