"""TPC-C as a workload: its parameters, its data, its drivers, and the measured phase.

What a run gives is listed in metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.engine import Engine, LosesCommits
from harness.errors import UsageError
from harness.experiment.placement import Part
from harness.workload import Loading
from harness.workloads.tpcc import data
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.run import DRIVERS, measure


class Tpcc:
    """Five transactions over an order-entry database, offered by a client program."""

    name = "tpcc"

    def data_key(self, params: TpccParams, driver: str) -> dict[str, Any]:
        """Warehouses, and what else the driver's own load depends on."""
        return {"warehouses": params.warehouses, **DRIVERS[driver](params).key()}

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
        DRIVERS[driver](params).check(engine, settings)

    def spends_data(self, params: TpccParams) -> bool:
        """Always: every transaction but two writes."""
        return True

    def load(self, params: TpccParams, loading: Loading) -> dict[str, Any]:
        """By the driver; its facts, and the warehouses."""
        return DRIVERS[loading.driver](params).load(loading)

    measure = staticmethod(measure)


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
