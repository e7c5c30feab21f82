"""Drivers, and what a driver saw: one shape, so that one driver calibrates another.

What a driver does not tell is None or absent, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.engine import Engine
from harness.workload import Loading, Session


@dataclass(frozen=True)
class Transaction:
    """One type of transaction in the measured window.

    ``committed_count``: those that only read are among them; of New-Order without the 1 %
    that roll back. ``skipped_count``: of these deliveries, those that had no order to deliver
    in a district or more. ``duration_hdr``: HdrHistogram V2 compressed, base64, of nanoseconds;
    ``percentiles_ns``: by percentile (``"95"``), from a driver that tells no histogram;
    ``called_count``: calls from the client's start on, from one that counts no others.
    """

    committed_count: int | None = None
    rolled_back_count: int | None = None
    skipped_count: int | None = None
    retried_count: int | None = None
    unfinished_count: int | None = None
    duration_hdr: str | None = None
    percentiles_ns: Mapping[str, float] = field(default_factory=dict)
    called_count: int | None = None


@dataclass(frozen=True)
class Driven:
    """The measured window, as its driver tells it.

    ``window_ns``: its length. ``new_orders_per_minute``: committed ones.
    ``database_transactions_per_minute``: as the server counts them, from a driver that asks
    it: not the transactions of the workload. ``client_cpu_ns``: of the client's processes
    in the window; ``busiest_thread_share``: of the window, how much its busiest thread
    computed. ``offered_count``: intended starts in the window of an open loop;
    ``backlog_count``: of those due, how many were not begun at the window's beginning and
    end. ``series``: ``{"monotonic_ns", "counts": {transaction: done}}`` by interval.
    ``committed_so_far``: by transaction since the client began, ramp-up included.
    ``notes``: facts about the client for the result.
    """

    driver: str
    version: str
    window_ns: int
    new_orders_per_minute: float
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    transactions_per_minute: float | None = None
    database_transactions_per_minute: float | None = None
    client_cpu_ns: int | None = None
    client_threads: int | None = None
    busiest_thread_share: float | None = None
    offered_count: int | None = None
    backlog_count: tuple[int, int] | None = None
    retried_by_code: Mapping[str, int] = field(default_factory=dict)
    series: Sequence[Mapping[str, Any]] = ()
    committed_so_far: Mapping[str, int] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Drives:
    """What a driver calls as the measured window begins and ends, in the calling thread or not."""

    on_measuring: Callable[[], None]
    on_measured: Callable[[], None]


class Driver(Protocol):
    """A client program that offers TPC-C's load. Every verb says what it must do, in one line."""

    name: str
    #: Consistency conditions (by number) that its own transactions or data do not keep, and why.
    not_kept: Mapping[int, str]

    def check(self, params: Mapping[str, Any], engine: Engine, settings: Mapping[str, str]) -> None:
        """UsageError for what can be known beforehand: not installed, cannot do this."""

    def key(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the data that it builds depend on, beside the number of warehouses."""

    def mix(self, params: Mapping[str, Any]) -> str | Mapping[str, float]:
        """The mix it offers: ``deck``, or weights by transaction."""

    def load(self, params: Mapping[str, Any], loading: Loading) -> dict[str, Any]:
        """Schema and data into the started, empty engine; facts for the fingerprint."""

    def drive(self, params: Mapping[str, Any], session: Session, drives: Drives) -> Driven:
        """Offer the load and return what was seen; RunFailed where it did not go well."""
