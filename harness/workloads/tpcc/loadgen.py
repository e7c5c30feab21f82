"""Our native client as a driver of this workload: its specs, and what its results become."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import loadgen
from harness.engine import Engine, LoadsNatively, RunsNatively, RunsSql
from harness.engines._sqlfiles import text_of
from harness.errors import RunFailed, UsageError
from harness.natives import loadgen_program
from harness.progress import Task
from harness.result import Check
from harness.workload import Loading, Session
from harness.workloads.tpcc import data
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.driven import Driven, Drives, Transaction
from harness.workloads.tpcc.options import TRANSACTIONS, duration_ns

#: How long an interval of the series is.
SERIES_NS = 1_000_000_000
#: How long transactions that began in the window are waited for behind it.
_DRAIN_NS = 10_000_000_000
_NS_PER_MIN = 60e9
_JOURNAL = "committed.journal"
#: About: ten for each order.
_LINES_PER_WAREHOUSE = 300_000
#: What the harness itself keeps open: counters, checks, and what servers set apart.
_OWN_CONNECTIONS = 10


class Loadgen:
    """``loadgen``: our schema and procedures, our population, our client."""

    name = "loadgen"
    not_kept: Mapping[int, str] = {}

    def check(self, params: Mapping[str, Any], engine: Engine, settings: Mapping[str, str]) -> None:
        """Whether the client speaks to this engine, and has its module."""
        native = _native(engine)
        loadgen_program(native.native_backend())
        _statements(engine)
        _check_connections(params, engine, settings)

    def key(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The seed, and which rows are made of it."""
        return {"data_seed": params["data_seed"], "generation": data.GENERATION}

    def mix(self, params: Mapping[str, Any]) -> str | Mapping[str, float]:
        """As asked for."""
        mix: str | Mapping[str, float] = params["mix"]
        return mix

    def load(self, params: Mapping[str, Any], loading: Loading) -> dict[str, Any]:
        """Fill the tables through the engine's bulk path; the conditions must hold then."""
        engine = loading.engine
        native = _native(engine)
        known = data.row_counts(params["warehouses"])
        told: dict[str, Any] = {}

        def fill(connection: Mapping[str, Any]) -> Mapping[str, int]:
            spec = {
                "schema": 1,
                "task": "load",
                "backend": native.native_backend(),
                "connection": dict(connection),
                "workload": {"name": "tpcc", "params": _population(params)},
                "threads": loading.threads,
            }
            total = sum(known.values()) + _LINES_PER_WAREHOUSE * params["warehouses"]
            with loading.progress.task("load TPC-C", total, "rows") as task:
                rows = _Rows(task)
                watch = loadgen.Watch(on_counts=rows.count)
                told.update(loadgen.load(spec, loading.clients, watch))
            stored: Mapping[str, int] = told["rows"]
            return stored

        native.native_load("tpcc", fill, known, loading.progress)
        assert isinstance(engine, RunsSql)
        _hold(check_conditions(engine, loading.progress))
        return {
            **_population(params),
            "generation": data.GENERATION,
            "c_load": told["notes"]["c_load"],
            "row_counts": dict(told["rows"]),
            "consistency": "all twelve conditions held",
        }

    def drive(
        self,
        params: Mapping[str, Any],
        session: Session,
        drives: Drives,
        journal: Path | None = None,
    ) -> Driven:
        """Offer the load; ``journal``: a folder for what is told to be committed."""
        spec = _spec(params, session.engine, session.seed, journal)
        seconds = (duration_ns(params, "ramp_up") + duration_ns(params, "duration")) / 1e9
        with session.progress.task(f"TPC-C, {params['users']} users", seconds, "s") as task:
            clock = _Clock(task)
            watch = loadgen.Watch(
                clock.entering("measuring", drives.on_measuring),
                clock.entering("ending", drives.on_measured),
                clock.tick,
            )
            specs = loadgen.split(spec, params["clients"])
            return _driven(loadgen.drive(specs, session.clients(), watch), clock.counts)

    def journals(self, params: Mapping[str, Any], folder: Path) -> list[Path]:
        """The files that ``drive`` had written into a folder."""
        files = loadgen.journals(folder / _JOURNAL, params["clients"])
        return [file for file in files if file.exists()]


class _Rows:
    """Moves a task on by the rows that were sent."""

    def __init__(self, task: Task) -> None:
        self._task, self._sent = task, 0

    def count(self, counts: Mapping[str, int]) -> None:
        """``counts``: rows so far by table."""
        sent = sum(counts.values())
        self._task.advance(sent - self._sent)
        self._sent = sent


class _Clock:
    """Moves a task on by the seconds that have passed."""

    def __init__(self, task: Task) -> None:
        self._task, self._told = task, time.monotonic()
        self._phase = "ramp-up"
        #: The last that was told: when all is over, everything that was committed.
        self.counts: Mapping[str, int] = {}

    def entering(self, phase: str, then: Callable[[], None]) -> Callable[[], None]:
        """``then``, and ``phase`` is what is told from now on."""

        def entered() -> None:
            then()
            self._phase = phase

        return entered

    def tick(self, counts: Mapping[str, int]) -> None:
        """Called about each second; ``counts`` so far by transaction."""
        self.counts = counts
        now = time.monotonic()
        done = sum(counts.values())
        self._task.advance(now - self._told, note=f"{self._phase}, {done:,} transactions")
        self._told = now


def _spec(
    params: Mapping[str, Any], engine: Engine, seed: int, journal: Path | None
) -> dict[str, Any]:
    native = _native(engine)
    return {
        "schema": 1,
        "task": "run",
        "backend": native.native_backend(),
        "connection": dict(native.native_connection()),
        "workload": {"name": "tpcc", "params": _workload(params)},
        "statements": _statements(engine),
        "threads": params["client_threads"],
        "connections": params["connections"],
        "terminals": params["users"],
        "mode": _mode(params),
        "ramp_up_ns": duration_ns(params, "ramp_up"),
        "duration_ns": duration_ns(params, "duration"),
        "drain_ns": _DRAIN_NS,
        "series_interval_ns": SERIES_NS,
        "journal": None if journal is None else str(journal / _JOURNAL),
        "seed": seed,
    }


def _native(engine: Engine) -> LoadsNatively:
    if not isinstance(engine, LoadsNatively):
        raise UsageError(
            f"tpcc on {engine.name}",
            "the native client does not speak to this engine: it has no server that many users "
            "connect to"
            if not isinstance(engine, RunsNatively)
            else "the engine has no bulk path for the native client",
            "choose an engine with a server, such as postgres, mysql or mariadb",
        )
    return engine


def _statements(engine: Engine) -> dict[str, str]:
    """The engine's call of each transaction."""
    folder = engine.sql_folder / "tpcc" / "calls" if isinstance(engine, RunsSql) else None
    files = {name: folder / f"{name}.sql" for name in TRANSACTIONS} if folder else {}
    missing = [name for name, file in files.items() if not file.exists()]
    if missing or not files:
        raise UsageError(
            f"tpcc on {engine.name}",
            f"its folder has no sql/tpcc/calls for {', '.join(missing or TRANSACTIONS)}",
            "choose another engine",
        )
    return {name: text_of(file).strip() for name, file in files.items()}


def _check_connections(
    params: Mapping[str, Any], engine: Engine, settings: Mapping[str, str]
) -> None:
    """Where the settings say how many connections the server takes (as all of ours call it)."""
    limit = settings.get("max_connections", "")
    wanted = params["connections"] + _OWN_CONNECTIONS
    if engine.kind == "managed" and limit.isdecimal() and int(limit) < wanted:
        raise UsageError(
            f"{params['connections']} connections with max_connections {limit}",
            f"the server takes fewer than that and the {_OWN_CONNECTIONS} of the harness",
            f"raise it with --set max_connections={wanted}, or lower users or connections",
        )


def _population(params: Mapping[str, Any]) -> dict[str, int]:
    return {"warehouses": params["warehouses"], "data_seed": params["data_seed"]}


def _workload(params: Mapping[str, Any]) -> dict[str, Any]:
    return {**_population(params), "home": params["home"], "mix": params["mix"]}


def _mode(params: Mapping[str, Any]) -> dict[str, Any]:
    if params["rate_per_s"] is not None:
        return {"kind": "open", "rate_per_s": params["rate_per_s"]}
    return {"kind": "closed", "think_time": params["think_time"]}


def _driven(result: Mapping[str, Any], committed_so_far: Mapping[str, int]) -> Driven:
    window_ns = int(result["measured_ns"])
    transactions = {one["type"]: _transaction(one) for one in result["operations"]}
    done = {name: one.committed_count or 0 for name, one in transactions.items()}
    offered = result.get("offered")
    threads = [int(cpu_ns) for cpu_ns in result.get("threads_cpu_ns", ())]
    return Driven(
        driver="loadgen",
        version=result["version"],
        window_ns=window_ns,
        new_orders_per_minute=done["new_order"] * _NS_PER_MIN / window_ns,
        transactions=transactions,
        transactions_per_minute=sum(done.values()) * _NS_PER_MIN / window_ns,
        client_cpu_ns=int(result["client_cpu_ns"]),
        client_threads=len(threads) or None,
        busiest_thread_share=max(threads) / window_ns if threads else None,
        offered_count=offered["count"] if offered else None,
        backlog_count=(offered["backlog_begin"], offered["backlog_end"]) if offered else None,
        retried_by_code=result["errors"],
        series=result["series"],
        committed_so_far=committed_so_far,
        notes=result.get("notes", {}),
    )


def _transaction(one: Mapping[str, Any]) -> Transaction:
    return Transaction(
        committed_count=one["count"],
        rolled_back_count=one["rolled_back"] if one["type"] == "new_order" else None,
        skipped_count=one["skipped"] if one["type"] == "delivery" else None,
        retried_count=one["retried"],
        unfinished_count=one["unfinished"],
        duration_hdr=one["latency_hdr"],
    )


def _hold(checks: list[Check]) -> None:
    """RunFailed where what was loaded is not consistent, or nobody could say."""
    wrong = [check for check in checks if check.status != "passed"]
    if wrong:
        raise RunFailed(
            "load TPC-C",
            "; ".join(check.detail for check in wrong),
            "remove what was loaded and run again",
        )
