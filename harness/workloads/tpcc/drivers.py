"""The drivers of this workload: the native client, and HammerDB.

HammerDB reports no counts by transaction and no histogram; its TPM are the server's transactions,
not the workload's; its response times are percentiles over ramp-up and window together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from harness.counters import summed
from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import (
    TimedRun,
    differences_of,
    drivable,
    target_of,
    whole_minutes,
)
from harness.drivers.loadgen import driver as client
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import (
    LoadgenResult,
    LoadgenSpec,
    LoopMode,
    journals,
    merged_instances,
)
from harness.drivers.result import DriverResult, Operation, WindowCallbacks
from harness.engine import Engine
from harness.errors import RunFailed, UsageError
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.supervise.credentials import unprivileged
from harness.warnings import RunWarning
from harness.workload import Loading, Session
from harness.workloads.tpcc.consistency import REMOTE_LINES, check_conditions
from harness.workloads.tpcc.params import TRANSACTIONS, TpccParams
from harness.workloads.tpcc.population import GENERATION, row_counts
from harness.workloads.window import LoadingDriver

_JOURNAL = "committed.journal"
#: About: ten for each order.
_LINES_PER_WAREHOUSE = 300_000


@dataclass(frozen=True)
class TpccLoadgen(LoadingDriver):
    """``loadgen``: our schema and procedures, our population, our client."""

    params: TpccParams
    takes_instances: ClassVar[bool] = True

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
            params.connections,
            engine,
            settings,
            "users or connections",
            params.clients,
            params.outline().instances,
        )

    def key(self) -> JsonObject:
        """Return the seed, and which rows are made of it."""
        return {"data_seed": self.params.data_seed, "generation": GENERATION}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Fill the tables through the engine's bulk path; the conditions must hold then."""
        params = self.params
        rows = row_counts(params.warehouses)
        population = {"warehouses": params.warehouses, "data_seed": params.data_seed}
        about = sum(rows.values()) + _LINES_PER_WAREHOUSE * params.warehouses
        result = client.load("tpcc", population, rows, loading, about)
        _require_passed(check_conditions(loading.engine, loading.progress))
        return {
            **population,
            "generation": GENERATION,
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
            mode=LoopMode(params.rate, params.think_time),
            journal=None if journal is None else str(journal / _JOURNAL),
        )
        offered = processes.offer(spec, session, drives, params.outline(), "transactions")
        instances = [_driven(each.result, each.counts) for each in offered]
        if len(instances) == 1:
            return instances[0]
        whole = merged_instances([each.result for each in offered])
        counts = summed(each.counts for each in offered)
        return replace(_driven(whole, counts), instances=instances)

    def journals(self, folder: Path) -> list[Path]:
        """Return the journals that ``drive`` had written into a folder."""
        files = journals(folder / _JOURNAL, self.params.clients)
        return [file for file in files if file.exists()]


def _driven(result: LoadgenResult, counts: Mapping[str, int]) -> DriverResult:
    driven = result.window()
    transactions = {
        name: _transaction(name, operation) for name, operation in driven.operations.items()
    }
    return replace(driven, operations=transactions, finished_counts=counts)


def _transaction(name: str, operation: Operation) -> Operation:
    """Return the transaction without the counts that it cannot have."""
    return replace(
        operation,
        rolled_back_count=operation.rolled_back_count if name == "new_order" else None,
        skipped_count=operation.skipped_count if name == "delivery" else None,
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


#: Parameters that HammerDB has no option for.
_LOADGEN_ONLY = (
    "rate",
    "mix",
    "clients",
    "client_hosts",
    "stall_timeout",
    "isolation",
    "data_seed",
)

#: HammerDB's name of the engine where a remote line may be of the order's own warehouse.
_DRAWS_OWN = "pg"


@dataclass(frozen=True)
class HammerDbDriver(LoadingDriver):
    """HammerDB with its own schema, its own procedures, its own client."""

    params: TpccParams
    unseeded: ClassVar[str] = "HammerDB's users draw from generators that take no seed"
    not_kept: ClassVar[Mapping[int, str]] = {
        10: "HammerDB's Payment adds the amount to C_BALANCE (MySQL, MariaDB), or takes it from "
        "a balance that it has read without a lock (PostgreSQL); its Delivery adds amounts as "
        "whole numbers (SQL Server)",
        11: "HammerDB's Delivery does not count in C_DELIVERY_CNT",
        12: "HammerDB's Payment does not add to C_YTD_PAYMENT",
    }

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Check that HammerDB is installed, knows this engine, and can do this in whole minutes."""
        dialect = drivable(engine)
        installed = find()  # without it all else is in vain
        self.params.refuse_changed(_LOADGEN_ONLY, "hammerdb")
        _timed(self.params)
        if engine.kind == "external":
            target_of(engine)  # the user's login may have characters that it takes apart
        installed.check(dialect, unprivileged())

    def key(self) -> JsonObject:
        """Return HammerDB's version: its schema and procedures are data."""
        return {"builder": find().name}

    def warnings(self, engine: Engine) -> Iterator[RunWarning]:
        """Warn about transactions that are not the specification's."""
        release = find()
        if differences := differences_of(drivable(engine), release.version[0]):
            yield RunWarning(
                code="differs-from-specification",
                problem=f"{release.name}'s transactions differ from the specification",
                context="; ".join(differences),
                hint="compare runs of one driver and release only, or use --driver loadgen",
            )

    def load(self, loading: Loading) -> dict[str, Any]:
        """Have HammerDB build its schema."""
        target, threads = target_of(loading.engine), loading.threads
        warehouses = self.params.warehouses
        return build(find(), target, loading.clients, warehouses, threads, loading.progress)

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        """Have HammerDB drive the schema that it has built."""
        target, options = target_of(session.engine), _timed(self.params)
        return measure(find(), target, session.clients(), options, session.progress, drives)


def _timed(params: TpccParams) -> TimedRun:
    return TimedRun(
        users=params.users,
        ramp_up_min=whole_minutes("ramp_up", params.ramp_up.ns, 0),
        duration_min=whole_minutes("duration", params.duration.ns, 1),
        all_warehouses=params.home == "all",
        think_time=params.think_time,
    )


def remote_lines(driver: LoadingDriver, engine: Engine) -> float:
    """Return the share of order lines that a driver means to have from another warehouse.

    HammerDB's procedure for PostgreSQL draws it from all warehouses, that of the order included.
    """
    if isinstance(driver, HammerDbDriver) and drivable(engine) == _DRAWS_OWN:
        return REMOTE_LINES * (1 - 1 / driver.params.warehouses)
    return REMOTE_LINES
