"""The population of clause 4.3: how many rows, how many bytes.

The rows themselves are made by the native client (``loadgen/tpcc``), the same for the same
number of warehouses and the same seed, however many threads make them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from harness.experiment.placement import Part
from harness.units import GIB, MIB
from harness.workloads.tpcc.params import TpccParams

#: Raised whenever the native client makes other rows from the same seed: data that it made
#: before are then not used.
GENERATION = 1

_ITEMS = 100_000
#: Rows for each warehouse (clause 4.3.3.1). ORDER-LINE has 5 to 15 for each order, drawn.
_PER_WAREHOUSE: Mapping[str, int] = {
    "warehouse": 1,
    "district": 10,
    "customer": 30_000,
    "history": 30_000,
    "orders": 30_000,
    "new_order": 9_000,
    "stock": 100_000,
}
#: Bytes that a New-Order adds, with its share of the other transactions': the order and
#: its lines, history, and room that updates leave; and so much of the log.
_ORDER_BYTES, _ORDER_INDEX_BYTES, _ORDER_LOG_BYTES = 1_600, 400, 8_000
#: New-Orders a minute of a fast server, where nothing but the server bounds them, and of a
#: terminal that thinks (clause 4.1: 12.86 a warehouse of ten).
_FAST_PER_MIN, _THINKING_PER_MIN = 250_000, 1.3
_NS_PER_MIN = 60e9


def row_counts(warehouses: int) -> dict[str, int]:
    """Return the rows of each table after loading; ORDER-LINE's are not known beforehand."""
    counts = {table: rows * warehouses for table, rows in _PER_WAREHOUSE.items()}
    return {**counts, "item": _ITEMS}


def estimate_bytes(params: TpccParams) -> dict[Part, int]:
    """Return an upper estimate of the bytes in each part, with what the run adds.

    Measured with one warehouse: 0.16 GB on PostgreSQL 15, 0.25 GB on MySQL 9.7, empty
    databases included.
    """
    warehouses, orders = params.warehouses, _orders(params)
    per_warehouse: Mapping[Part, float] = {
        "data": 0.115e9,
        "index": 0.03e9,
        "wal": 0.05e9,
        "temp": 0.01e9,
    }
    per_order: Mapping[Part, float] = {
        "data": _ORDER_BYTES,
        "index": _ORDER_INDEX_BYTES,
        "wal": _ORDER_LOG_BYTES,
        "temp": 0,
    }
    fixed: Mapping[Part, int] = {"data": 160 * MIB, "index": 0, "wal": 64 * MIB, "temp": 0}
    limits: Mapping[Part, float] = {"temp": 4 * GIB}
    return {
        part: int(
            min(
                fixed[part] + bytes_each * warehouses + per_order[part] * orders,
                limits.get(part, math.inf),
            )
        )
        for part, bytes_each in per_warehouse.items()
    }


def _orders(params: TpccParams) -> float:
    """Return the largest number of New-Orders of a run."""
    minutes = (params.ramp_up.ns + params.duration.ns) / _NS_PER_MIN
    if params.rate is not None:
        return minutes * min(60 * params.rate, _FAST_PER_MIN)
    if params.think_time:
        return minutes * min(_THINKING_PER_MIN * params.users, _FAST_PER_MIN)
    return minutes * _FAST_PER_MIN
