"""The result of a timed run of HammerDB.

It reports no histogram of latencies and no counts by transaction in the measurement window, and
of transactions that it gave up only the server's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.drivers.hammerdb.time_profile import ResponseTimes


@dataclass(frozen=True)
class Measured:
    """One timed run.

    ``new_orders_per_minute``: from the growth of d_next_o_id. ``transactions_per_minute``:
    the server's commits and rollbacks, whoever made them. ``started_ns``, ``duration_ns``:
    the window between HammerDB's two counts, on the monotonic clock; HammerDB divides by its
    whole minutes. ``client_cpu_ns``: of its process in that window. ``refused``: transactions
    that it gave up, by the server's error number, its ramp-up included.
    """

    version: str
    database_version: str | None
    users: int
    new_orders_per_minute: int
    transactions_per_minute: int
    started_ns: int
    duration_ns: int
    client_cpu_ns: int | None
    refused: Mapping[str, int] = field(default_factory=dict)
    response_times: Mapping[str, ResponseTimes] = field(default_factory=dict)

    @property
    def transactions(self) -> float:
        """In the measured window, after HammerDB's rate of them."""
        return self.transactions_per_minute * self.duration_ns / 60e9
