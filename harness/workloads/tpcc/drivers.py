"""Drivers of TPC-C, and what a driver saw: one shape, so that one driver calibrates another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from harness.drivers import result
from harness.workloads import window
from harness.workloads.tpcc.params import Mix


@dataclass(frozen=True)
class DriverResult(result.DriverResult):
    """The measured window, as its driver reports it; ``operations`` by transaction.

    ``new_orders_per_minute``: committed ones. ``database_transactions_per_minute``: as the
    server counts them, from a driver that queries it: not the transactions of the workload.
    ``committed_so_far``: by transaction since the client began, ramp-up included.
    """

    new_orders_per_minute: float = field(kw_only=True)
    transactions_per_minute: float | None = None
    database_transactions_per_minute: float | None = None
    committed_so_far: Mapping[str, int] | None = None


class Driver(window.Driver[DriverResult], Protocol):
    """A client program that offers TPC-C's load."""

    #: Consistency conditions (by number) that its own transactions or data do not keep, and why.
    not_kept: ClassVar[Mapping[int, str]]

    @property
    def mix(self) -> Mix:
        """The mix that it offers."""
