"""HammerDB as a driver of this workload: its options, and its output.

It reports no counts by transaction and no histogram; its TPM are the server's transactions,
not the workload's; its response times are percentiles over ramp-up and window together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.drivers.hammerdb.dialect import drivable, target_of
from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.metrics import Measured
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import Build, Timed, whole_minutes
from harness.drivers.result import Operation, WindowCallbacks
from harness.engine import Engine
from harness.supervise.credentials import unprivileged
from harness.workload import Loading, Session
from harness.workloads.tpcc.drivers import DriverResult
from harness.workloads.tpcc.params import TpccParams

#: Parameters that HammerDB has no option for.
_LOADGEN_ONLY = (
    "rate_per_s",
    "mix",
    "clients",
    "client_hosts",
    "stall_timeout",
    "isolation",
    "data_seed",
)


@dataclass(frozen=True)
class HammerDbDriver:
    """Its own schema, its own procedures, its own client."""

    params: TpccParams
    name: ClassVar[str] = "hammerdb"
    unseeded: ClassVar[str] = "HammerDB's users draw from generators that take no seed"
    #: Its users draw from the deck of clause 5.2.4.2.
    mix: ClassVar[str] = "deck"
    not_kept: ClassVar[Mapping[int, str]] = {
        10: "HammerDB's Payment adds the amount to C_BALANCE (MySQL, MariaDB), or takes it from "
        "a balance that it has read without a lock (PostgreSQL)",
        11: "HammerDB's Delivery does not count in C_DELIVERY_CNT",
        12: "HammerDB's Payment does not add to C_YTD_PAYMENT",
    }

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Whether it is installed, knows this engine, and can do this in whole minutes."""
        dialect = drivable(engine)
        installed = find()  # without it all else is in vain
        self.params.refuse_changed(_LOADGEN_ONLY, "hammerdb")
        _timed(self.params)
        installed.check(dialect, unprivileged())

    def key(self) -> Mapping[str, Any]:
        """Its version: its schema and procedures are data."""
        return {"builder": find().name}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Have it build its schema."""
        options = Build(self.params.warehouses, loading.threads)
        target = target_of(loading.engine)
        return build(find(), target, loading.clients, options, loading.progress)

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        """Have it drive what it has built."""
        found = measure(
            find(),
            target_of(session.engine),
            session.clients(),
            _timed(self.params),
            session.progress,
            drives,
        )
        return _driven(found)


def _timed(params: TpccParams) -> Timed:
    return Timed(
        users=params.users,
        ramp_up_min=whole_minutes("ramp_up", params.ramp_up.ns, 0),
        duration_min=whole_minutes("duration", params.duration.ns, 1),
        all_warehouses=params.home == "all",
        think_time=params.think_time,
    )


def _driven(found: Measured) -> DriverResult:
    times = {
        name: Operation(
            percentiles_ns={"50": one.p50_ns, "95": one.p95_ns, "99": one.p99_ns},
            called_count=one.calls,
        )
        for name, one in found.response_times.items()
    }
    return DriverResult(
        driver="hammerdb",
        version=found.version,
        window_ns=found.duration_ns,
        new_orders_per_minute=found.new_orders_per_minute,
        operations=times,
        database_transactions_per_minute=found.transactions_per_minute,
        client_cpu_ns=found.client_cpu_ns,
        client_threads=found.users,
        retried_by_code=found.refused,
        notes={"database_version": found.database_version},
    )
