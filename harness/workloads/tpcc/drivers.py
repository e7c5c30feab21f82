"""Drivers of TPC-C, and what a driver saw: one shape, so that one driver calibrates another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from harness.drivers import result
from harness.drivers.result import WindowCallbacks
from harness.engine import Engine
from harness.workload import Loading, Session
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


class Driver(Protocol):
    """A client program that offers TPC-C's load, made for a run's parameters."""

    name: ClassVar[str]
    #: Consistency conditions (by number) that its own transactions or data do not keep, and why.
    not_kept: ClassVar[Mapping[int, str]]
    #: Why what its users draw does not follow the run's seed; empty where it does.
    unseeded: ClassVar[str]

    @property
    def mix(self) -> Mix:
        """The mix that it offers."""

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """UsageError for what can be known beforehand: not installed, cannot do this."""

    def key(self) -> Mapping[str, Any]:
        """The facts that its data depend on, in addition to the number of warehouses."""

    def load(self, loading: Loading) -> dict[str, Any]:
        """Load schema and data into the started, empty engine; facts for the fingerprint."""

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        """Offer the load and return the result; RunFailed if the client failed."""
