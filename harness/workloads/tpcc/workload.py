"""TPC-C as a workload: its parameters, its data, its drivers, and the measured phase.

What a run gives is listed in metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.engine import Engine, LosesCommits
from harness.errors import UsageError
from harness.experiment.placement import Part
from harness.workload import Outcome, Session
from harness.workloads.tpcc import data
from harness.workloads.tpcc.drivers import Driver
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.run import DRIVERS, measure
from harness.workloads.window import DrivenWorkload


class Tpcc(DrivenWorkload[TpccParams, Driver]):
    """Five transactions over an order-entry database, offered by a client program."""

    name = "tpcc"
    drivers = DRIVERS

    def size_key(self, params: TpccParams) -> dict[str, Any]:
        """Number of warehouses."""
        return {"warehouses": params.warehouses}

    def estimate_bytes(self, params: TpccParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.tpcc.data."""
        return data.estimate_bytes(params)

    def check_engine(
        self,
        params: TpccParams,
        driver: str,
        engine: Engine,
        settings: Mapping[str, str],
    ) -> None:
        """Whether the driver is there, and this engine can be driven by it."""
        if params.test == "durability":
            _check_durability(driver, engine)
        super().check_engine(params, driver, engine, settings)

    def spends_data(self, params: TpccParams) -> bool:
        """Always: every transaction but two writes."""
        return True

    def measure(self, params: TpccParams, session: Session) -> Outcome:
        """Offer the load, check the data."""
        return measure(params, session)


def _check_durability(driver: str, engine: Engine) -> None:
    if driver != "loadgen":
        raise UsageError(
            f"test durability with driver {driver}",
            "it writes no journal of acknowledged commits",
            "use --driver loadgen",
        )
    if engine.kind != "managed":
        raise UsageError(
            f"test durability on {engine.name} ({engine.kind})",
            "the harness kills the server, and may kill only its own",
            "let the harness run the engine",
        )
    if isinstance(engine, LosesCommits):
        raise UsageError(
            f"test durability on {engine.name}",
            f"{engine.lost_when_killed} is lost with the server's process, by design",
            "choose another engine",
        )


WORKLOAD = Tpcc()
