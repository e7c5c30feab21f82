"""YCSB as a workload: its parameters, its data, its drivers, and the measured phase.

What a run gives is listed in metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.engine import Engine
from harness.experiment.placement import Part
from harness.workload import Loading
from harness.workloads.ycsb import data
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.run import DRIVERS, measure


class Ycsb:
    """Reads, updates, inserts and scans of records by their keys, offered by a client program."""

    name = "ycsb"

    def data_key(self, params: YcsbParams, driver: str) -> dict[str, Any]:
        """The records, and what else the driver's own load depends on."""
        return {**data.key(params), **DRIVERS[driver](params).key()}

    def estimate_bytes(self, params: YcsbParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.ycsb.data."""
        return data.estimate_bytes(params, key_value=not engine_format)

    def loaded_bytes(self, params: YcsbParams) -> int:
        """Of all records with their keys."""
        return params.loaded_records * data.record_bytes(params)

    def check_engine(
        self,
        params: YcsbParams,
        driver: str,
        engine: Engine,
        settings: Mapping[str, str],
    ) -> None:
        """Whether the driver is there, and this engine can be driven by it."""
        DRIVERS[driver](params).check(engine, settings)

    def spends_data(self, params: YcsbParams) -> bool:
        """Where anything is written."""
        return params.writes

    def load(self, params: YcsbParams, loading: Loading) -> dict[str, Any]:
        """By the driver; its facts."""
        return DRIVERS[loading.driver](params).load(loading)

    measure = staticmethod(measure)


WORKLOAD = Ycsb()
