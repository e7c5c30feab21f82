"""HammerDB as a driver of this workload: its options, and its output.

It reports no counts by transaction and no histogram; its TPM are the server's transactions,
not the workload's; its response times are percentiles over ramp-up and window together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.drivers.hammerdb.dialect import differences_of, drivable, target_of
from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import Timed, whole_minutes
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.engine import Engine
from harness.store.spec import JsonObject
from harness.supervise.credentials import unprivileged
from harness.warnings import RunWarning
from harness.workload import Loading, Session
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.window import LoadingDriver

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


def _timed(params: TpccParams) -> Timed:
    return Timed(
        users=params.users,
        ramp_up_min=whole_minutes("ramp_up", params.ramp_up.ns, 0),
        duration_min=whole_minutes("duration", params.duration.ns, 1),
        all_warehouses=params.home == "all",
        think_time=params.think_time,
    )
