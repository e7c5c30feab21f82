"""Our native client as a driver of this workload: its specs, and what its results become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.drivers.loadgen import driver as client
from harness.drivers.loadgen import processes
from harness.drivers.result import SERIES_NS, Operation, WindowCallbacks
from harness.engine import Engine, RunsSql
from harness.errors import RunFailed, UsageError
from harness.native_programs import loadgen_program
from harness.store.result import Check
from harness.workload import Loading, Session
from harness.workloads.tpcc import data
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.drivers import DriverResult
from harness.workloads.tpcc.params import TRANSACTIONS, Mix, TpccParams

_NS_PER_MIN = 60e9
_JOURNAL = "committed.journal"
#: About: ten for each order.
_LINES_PER_WAREHOUSE = 300_000


class Loadgen:
    """``loadgen``: our schema and procedures, our population, our client."""

    name = "loadgen"
    not_kept: Mapping[int, str] = {}
    unseeded = ""

    def __init__(self, params: TpccParams) -> None:
        self._params = params

    @property
    def mix(self) -> Mix:
        """The mix that the parameters name."""
        return self._params.mix

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Whether the client speaks to this engine, and has its module."""
        native = client.loadable(engine, "tpcc")
        loadgen_program(native.native_backend())
        client.calls(engine, "tpcc", {}, TRANSACTIONS)
        params = self._params
        client.check_connections(
            params.connections, engine, settings, "users or connections", params.clients
        )
        if params.client_hosts:
            if params.test == "durability":
                raise UsageError(
                    "test durability with client_hosts",
                    "the journal of commits stays on the host of each client",
                    "leave client_hosts out",
                )
            client.afar(params.client_hosts, engine).hosts.check(native.native_backend())

    def key(self) -> Mapping[str, Any]:
        """The seed, and which rows are made of it."""
        return {"data_seed": self._params.data_seed, "generation": data.GENERATION}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Fill the tables through the engine's bulk path; the conditions must hold then."""
        engine = loading.engine
        native = client.loadable(engine, "tpcc")
        params = self._params
        known = data.row_counts(params.warehouses)
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
            total = sum(known.values()) + _LINES_PER_WAREHOUSE * params.warehouses
            with loading.progress.task("load TPC-C", total, "rows") as task:
                rows = client.Rows(task)
                watch = processes.Watch(on_counts=rows.count)
                told.update(processes.load(spec, loading.clients, watch))
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
        self, session: Session, drives: WindowCallbacks, journal: Path | None = None
    ) -> DriverResult:
        """Offer the load; ``journal``: a folder for the journal of acknowledged commits."""
        params = self._params
        spec = _spec(params, session.engine, session.seed, journal)
        seconds = params.ramp_up.seconds + params.duration.seconds
        with session.progress.task(f"TPC-C, {params.users} users", seconds, "s") as task:
            clock = client.Clock(task, "transactions")
            specs = processes.split(spec, params.clients)
            hosts = params.client_hosts
            afar = client.afar(hosts, session.engine) if hosts else None
            result = processes.drive(specs, session.clients(), clock.watch(drives), afar)
            return _driven(result, clock.counts)

    def journals(self, folder: Path) -> list[Path]:
        """The files that ``drive`` had written into a folder."""
        files = processes.journals(folder / _JOURNAL, self._params.clients)
        return [file for file in files if file.exists()]


def _spec(params: TpccParams, engine: Engine, seed: int, journal: Path | None) -> dict[str, Any]:
    native = client.loadable(engine, "tpcc")
    connection = dict(native.native_connection())
    if params.isolation is not None:
        connection["isolation"] = params.isolation.replace("-", " ")
    open_loop = params.rate_per_s is not None
    return {
        "schema": 1,
        "task": "run",
        "backend": native.native_backend(),
        "connection": connection,
        "workload": {"name": "tpcc", "params": params.native_json()},
        "statements": client.calls(engine, "tpcc", {}, TRANSACTIONS),
        "threads": params.client_threads,
        "connections": params.connections,
        "terminals": params.users,
        "mode": {"kind": "open", "rate_per_s": params.rate_per_s}
        if open_loop
        else {"kind": "closed", "think_time": params.think_time},
        "ramp_up_ns": params.ramp_up.ns,
        "duration_ns": params.duration.ns,
        "drain_ns": client.DRAIN_NS,
        **client.stall_timeout(params.stall_timeout),
        "series_interval_ns": SERIES_NS,
        "journal": None if journal is None else str(journal / _JOURNAL),
        "seed": seed,
    }


def _population(params: TpccParams) -> dict[str, int]:
    return {"warehouses": params.warehouses, "data_seed": params.data_seed}


def _driven(result: Mapping[str, Any], committed_so_far: Mapping[str, int]) -> DriverResult:
    seen = client.seen(result)
    transactions = {name: _transaction(name, one) for name, one in seen["operations"].items()}
    done = {name: one.count or 0 for name, one in transactions.items()}
    per_minute = _NS_PER_MIN / seen["window_ns"]
    return DriverResult(
        **{**seen, "operations": transactions},
        new_orders_per_minute=done["new_order"] * per_minute,
        transactions_per_minute=sum(done.values()) * per_minute,
        committed_so_far=committed_so_far,
    )


def _transaction(name: str, one: Operation) -> Operation:
    """Without the counts that this one cannot have."""
    return replace(
        one,
        rolled_back_count=one.rolled_back_count if name == "new_order" else None,
        skipped_count=one.skipped_count if name == "delivery" else None,
        not_found_count=None,
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
