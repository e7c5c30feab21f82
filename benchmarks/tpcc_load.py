"""Loading TPC-C into PostgreSQL: ours against HammerDB, go-tpc and BenchBase.

    HAMMERDB_HOME=… GO_TPC=… BENCHBASE_HOME=… \\
        .venv/bin/python benchmarks/tpcc_load.py --warehouses 10 --pairs 3

All arms load into an empty database of the same running server, with the same settings: no
load restarts it, fsync is on, and every row goes through the log. Ours runs as on a server of
the user's, where it may do no more than any client. All come through the socket but BenchBase,
for which the server listens on loopback, too. The time ends with a checkpoint behind the load,
whoever loaded. CPU is that of the client's processes and the server's together.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import benchbase
from smoke import parsed
from tpcc import SMALL, Bench, Server, alternated, arguments, children_ns, opened, report, run

from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.process import build
from harness.drivers.loadgen import processes
from harness.engine import EngineContext, Fill
from harness.errors import UsageError
from harness.host.process_counters import read_counters
from harness.paths import engines_prefix
from harness.progress import SilentProgress
from harness.registry import engine as engine_factory
from harness.supervise.process import process_identity
from harness.workloads.tpcc.data import row_counts

Load = Callable[[Bench, Server, int], None]


@dataclass(frozen=True)
class Seen:
    """One load, client and server together."""

    wall_s: float
    cpu_s: float


def ours(bench: Bench, server: Server, warehouses: int) -> None:
    """As on a server of the user's: a schema of ours, and nothing but a client's means."""
    where = server.connection
    os.environ["HARNESS_DSN"] = " ".join(
        f"{key}={where[name]}"
        for key, name in {
            "host": "host", "port": "port", "user": "user", "password": "password",
            "dbname": "database",
        }.items()
    )  # fmt: skip
    with bench.env.scratch() as scratch:
        context = EngineContext(
            settings={}, options={"dsn": "env"}, scratch=scratch,
            engines_prefix=engines_prefix(), processes=bench.env.supervisor,
            credentials=bench.env.credentials, threads=bench.env.cores, memory_limit_bytes=None,
        )  # fmt: skip
        engine: Any = engine_factory("postgres").create(context)
        engine.prepare("bench")
        engine.start()
        fill = _filler(engine, server, warehouses, bench.env.cores)
        engine.native_load("tpcc", fill, row_counts(warehouses), SilentProgress())
        engine.stop()


def _filler(engine: Any, server: Server, warehouses: int, threads: int) -> Fill:
    def fill(connection: Mapping[str, Any]) -> Mapping[str, int]:
        spec = {
            "schema": 1,
            "task": "load",
            "backend": engine.native_backend,
            "connection": dict(connection),
            "workload": {"name": "tpcc", "params": {"warehouses": warehouses, "data_seed": 1}},
            "threads": threads,
        }
        rows: Mapping[str, int] = processes.drive([spec], server.clients)["rows"]
        return rows

    return fill


def hammerdbs(bench: Bench, server: Server, warehouses: int) -> None:
    """HammerDB with as many virtual users as processors."""
    build(find(), server.target, server.clients, warehouses, bench.env.cores, SilentProgress())


def go_tpc(bench: Bench, server: Server, warehouses: int) -> None:
    """go-tpc through the same socket, with as many threads, without its checks."""
    where = server.connection
    run(
        [
            os.environ["GO_TPC"], "tpcc", "prepare", "--driver", "postgres", "--no-check",
            "--warehouses", str(warehouses), "--threads", str(bench.env.cores),
            "--user", where["user"], "--password", "", "--db", where["database"],
            # No host of its own, as CSV: a socket's folder goes by the parameters only.
            "--host", '""', "--port", str(where["port"]),
            "--conn-params", f"host={where['host']}&sslmode=disable",
        ],
        server,
        {"HOME": "/"},
    )  # fmt: skip


def peers() -> dict[str, Load]:
    """Those that are here; of the others it is said that they are not."""
    found: dict[str, Load] = {}
    try:
        find()
        found["HammerDB"] = hammerdbs
    except UsageError as error:
        print(f"HammerDB is left out: {error.context}")
    if shutil.which(os.environ.get("GO_TPC", "")):
        found["go-tpc"] = go_tpc
    else:
        print("go-tpc is left out: GO_TPC names no program")
    try:
        benchbase.find()
        found["BenchBase"] = benchbase.load
    except UsageError as error:
        print(f"BenchBase is left out: {error.context}")
    return found


def measure(bench: Bench, load: Load, warehouses: int) -> Seen:
    """One load into a new database, up to a checkpoint behind it."""
    with bench.server("empty") as server:
        if load is benchbase.load:
            benchbase.listen(server)
        began, spent_ns = time.monotonic(), _spent_ns(bench, server)
        load(bench, server, warehouses)
        server.execute("CHECKPOINT")
        seen = Seen(time.monotonic() - began, (_spent_ns(bench, server) - spent_ns) / 1e9)
        if load is benchbase.load:
            benchbase.check(server, warehouses)
        return seen


def _spent_ns(bench: Bench, server: Server) -> float:
    """Server, this process, and the clients that either it or the supervisor has waited for."""
    supervisor = process_identity(bench.env.supervisor.pid)
    assert supervisor is not None
    clients = read_counters([supervisor])["cpu_ns"] + children_ns()
    return server.cpu_ns() + clients + time.process_time_ns()


def main() -> None:
    """Alternate the arms; print every round, the medians and the ratios to each peer."""
    given = parsed(arguments(str(__doc__).split("\n")[0], warehouses=10, pairs=3), **SMALL)
    arms: dict[str, Load] = {"harness": ours, **peers()}
    print(f"load average {os.getloadavg()[0]:.1f}, {given.warehouses} warehouses", flush=True)
    seen: dict[str, list[Seen]] = {arm: [] for arm in arms}
    with opened() as bench:
        with bench.server() as server:
            bench.keep("empty", server)
        for pair in range(given.pairs):
            for arm in alternated(list(arms), pair):
                one = measure(bench, arms[arm], given.warehouses)
                seen[arm].append(one)
                print(f"{pair + 1} {arm}: {one.wall_s:.1f} s, CPU {one.cpu_s:.1f} s", flush=True)
    for peer in list(arms)[1:]:
        for name in ("wall_s", "cpu_s"):
            a, b = ([getattr(one, name) for one in seen[arm]] for arm in ("harness", peer))
            report(f"{name}, harness / {peer}", a, b)


if __name__ == "__main__":
    main()
