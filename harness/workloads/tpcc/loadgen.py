"""The native client as a driver of this workload: its specs and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.drivers.loadgen import driver as client
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenSpec, Mode, journals
from harness.drivers.result import DriverResult, Operation, WindowCallbacks
from harness.engine import Engine
from harness.errors import RunFailed, UsageError
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.workload import Loading, Session
from harness.workloads.tpcc import data
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.params import TRANSACTIONS, TpccParams
from harness.workloads.window import LoadingDriver

_JOURNAL = "committed.journal"
#: About: ten for each order.
_LINES_PER_WAREHOUSE = 300_000


@dataclass(frozen=True)
class Loadgen(LoadingDriver):
    """``loadgen``: our schema and procedures, our population, our client."""

    params: TpccParams

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Check that the client speaks to this engine, and has its module."""
        params = self.params
        if params.client_hosts and params.test == "durability":
            raise UsageError(
                "test durability with client_hosts",
                "the journal of commits stays on the host of each client",
                "leave client_hosts out",
            )
        client.check(engine, "tpcc", params.client_hosts)
        client.calls(engine, "tpcc", {}, TRANSACTIONS)
        client.check_connections(
            params.connections, engine, settings, "users or connections", params.clients
        )

    def key(self) -> JsonObject:
        """Return the seed, and which rows are made of it."""
        return {"data_seed": self.params.data_seed, "generation": data.GENERATION}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Fill the tables through the engine's bulk path; the conditions must hold then."""
        params = self.params
        rows = data.row_counts(params.warehouses)
        population = {"warehouses": params.warehouses, "data_seed": params.data_seed}
        about = sum(rows.values()) + _LINES_PER_WAREHOUSE * params.warehouses
        result = client.load("tpcc", population, rows, loading, about)
        _require_passed(check_conditions(loading.engine, loading.progress))
        return {
            **population,
            "generation": data.GENERATION,
            "c_load": result.notes["c_load"],
            "row_counts": dict(result.rows),
            "consistency": "all twelve conditions held",
        }

    def drive(
        self, session: Session, drives: WindowCallbacks, journal: Path | None = None
    ) -> DriverResult:
        """Offer the load; ``journal``: a folder for the journal of acknowledged commits."""
        params = self.params
        engine = session.engine
        connection = dict(engine.native_connection())
        if params.isolation is not None:
            connection["isolation"] = params.isolation.replace("-", " ")
        spec = LoadgenSpec(
            client.backend_of(engine, "tpcc"),
            connection,
            "tpcc",
            params.native_json(),
            statements=client.calls(engine, "tpcc", {}, TRANSACTIONS),
            threads=params.client_threads,
            terminals=params.users,
            mode=Mode(params.rate, params.think_time),
            journal=None if journal is None else str(journal / _JOURNAL),
        )
        result, counts = processes.offer(spec, session, drives, params.outline(), "transactions")
        driven = result.window()
        transactions = {name: _transaction(name, one) for name, one in driven.operations.items()}
        return replace(driven, operations=transactions, finished_counts=counts)

    def journals(self, folder: Path) -> list[Path]:
        """Return the journals that ``drive`` had written into a folder."""
        files = journals(folder / _JOURNAL, self.params.clients)
        return [file for file in files if file.exists()]


def _transaction(name: str, one: Operation) -> Operation:
    """Return the transaction without the counts that it cannot have."""
    return replace(
        one,
        rolled_back_count=one.rolled_back_count if name == "new_order" else None,
        skipped_count=one.skipped_count if name == "delivery" else None,
        not_found_count=None,
    )


def _require_passed(checks: list[Check]) -> None:
    """Raise RunFailed if the loaded data are not consistent, or the check failed."""
    wrong = [check for check in checks if check.status != "passed"]
    if wrong:
        raise RunFailed(
            "load TPC-C",
            "; ".join(check.detail for check in wrong),
            "remove what was loaded and run again",
        )
