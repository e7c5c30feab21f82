"""The population of clause 4.3: how many rows, how many bytes.

The rows themselves are made by the native client (``loadgen/tpcc``), the same for the same
number of warehouses and the same seed, however many threads make them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.placement import Part
from harness.units import GIB, MIB
from harness.workloads.tpcc.options import duration_ns

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
#: What a minute of a fast server adds: orders, their lines, history, and room that updates leave.
_GROWTH_BYTES = 400_000_000
_NS_PER_MIN = 60e9


def row_counts(warehouses: int) -> dict[str, int]:
    """Rows that each table must have after loading; ORDER-LINE's are not known beforehand."""
    counts = {table: rows * warehouses for table, rows in _PER_WAREHOUSE.items()}
    return {**counts, "item": _ITEMS}


def estimate_bytes(params: Mapping[str, Any]) -> dict[Part, int]:
    """Upper estimate of the bytes in each part, with what the run adds.

    Measured with 10 warehouses: PostgreSQL 18 has 0.95 GB of tables and 0.20 GB of
    indexes. ``wal`` is bounded by the usual limits of a log.
    """
    warehouses = params["warehouses"]
    minutes = (duration_ns(params, "ramp_up") + duration_ns(params, "duration")) / _NS_PER_MIN
    per_warehouse: Mapping[Part, float] = {
        "data": 0.115e9, "index": 0.03e9, "wal": 0.05e9, "temp": 0.01e9,
    }  # fmt: skip
    growth: Mapping[Part, float] = {
        "data": _GROWTH_BYTES, "index": _GROWTH_BYTES / 4, "wal": 5 * _GROWTH_BYTES, "temp": 0,
    }  # fmt: skip
    fixed: Mapping[Part, int] = {"data": 80 * MIB, "index": 0, "wal": 64 * MIB, "temp": 0}
    limits: Mapping[Part, float] = {"wal": 4 * GIB, "temp": 4 * GIB}
    return {
        part: int(
            min(
                fixed[part] + bytes_each * warehouses + growth[part] * minutes,
                limits.get(part, math.inf),
            )
        )
        for part, bytes_each in per_warehouse.items()
    }
