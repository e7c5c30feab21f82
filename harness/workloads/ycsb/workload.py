"""YCSB as a workload: its parameters, its data, its drivers, and the measured phase.

What a run gives is listed in metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engine import Engine
from harness.experiment.placement import Part
from harness.workload import Loading, Outcome, Session
from harness.workloads.ycsb import data, properties
from harness.workloads.ycsb.drivers import Driver
from harness.workloads.ycsb.loadgen import Loadgen
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.options import PARAMETERS, loaded_records, normalise, writes
from harness.workloads.ycsb.run import measure


class Ycsb:
    """Reads, updates, inserts and scans of records by their keys, offered by a client program."""

    name = "ycsb"
    title = "YCSB core workloads a to f: records by key; throughput and latency"
    parameters = PARAMETERS
    smaller = "fewer --records"
    options: Mapping[str, str] = {
        "records": "recordcount",
        "operations": "operationcount",
        "threads": "threadcount",
        "rate": "target",
    }
    drivers: Mapping[str, str] = {
        "loadgen": "our native client",
        "ycsb": "the official client: YCSB 0.17.0 on Java, with bindings of our own",
    }

    def normalise(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters with defaults filled in; see harness.workloads.ycsb.options."""
        return normalise(params)

    def property_parameters(self, files: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
        """What property files of the official client ask for; see properties.py."""
        return properties.parameters(files)

    def given_parameters(self, pairs: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
        """The same of properties on the command line."""
        return properties.given(pairs)

    def data_key(self, params: Mapping[str, Any], driver: str) -> dict[str, Any]:
        """The records, and what else the driver's own load depends on."""
        return {**data.key(params), **_driver(driver).key(params)}

    def estimate_bytes(self, params: Mapping[str, Any], engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.ycsb.data."""
        return data.estimate_bytes(params, key_value=not engine_format)

    def loaded_bytes(self, params: Mapping[str, Any]) -> int:
        """Of all records with their keys."""
        return loaded_records(params) * data.record_bytes(params)

    def check_engine(
        self,
        params: Mapping[str, Any],
        driver: str,
        engine: Engine,
        settings: Mapping[str, str],
    ) -> None:
        """Whether the driver is there, and this engine can be driven by it."""
        _driver(driver).check(params, engine, settings)

    def spends_data(self, params: Mapping[str, Any]) -> bool:
        """Where anything is written."""
        return writes(params)

    def load(self, params: Mapping[str, Any], loading: Loading) -> dict[str, Any]:
        """By the driver; its facts."""
        return _driver(loading.driver).load(params, loading)

    def measure(self, params: Mapping[str, Any], session: Session) -> Outcome:
        """Drive, count and check; see harness.workloads.ycsb.run."""
        return measure(params, session, _driver(session.driver))


def _driver(name: str) -> Driver:
    made: Mapping[str, type[Driver]] = {"loadgen": Loadgen, "ycsb": Official}
    return made[name]()
