"""YCSB as a workload: its parameters, its data, its drivers, and the measured phase.

What a run gives is listed in metrics.py.
"""

from __future__ import annotations

from typing import Any

from harness.experiment.placement import Part
from harness.workload import Outcome, Session
from harness.workloads.window import DrivenWorkload
from harness.workloads.ycsb import data
from harness.workloads.ycsb.drivers import Driver
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.run import DRIVERS, measure


class Ycsb(DrivenWorkload[YcsbParams, Driver]):
    """Reads, updates, inserts and scans of records by their keys, offered by a client program."""

    name = "ycsb"
    drivers = DRIVERS

    def size_key(self, params: YcsbParams) -> dict[str, Any]:
        """Which records there are."""
        return data.key(params)

    def estimate_bytes(self, params: YcsbParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.ycsb.data."""
        return data.estimate_bytes(params, key_value=not engine_format)

    def loaded_bytes(self, params: YcsbParams) -> int:
        """Of all records with their keys."""
        return params.loaded_records * data.record_bytes(params)

    def spends_data(self, params: YcsbParams) -> bool:
        """Where anything is written."""
        return params.writes

    def measure(self, params: YcsbParams, session: Session) -> Outcome:
        """Offer the load, check the data."""
        return measure(params, session)


WORKLOAD = Ycsb()
