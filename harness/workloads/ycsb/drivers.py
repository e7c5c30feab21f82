"""Drivers of YCSB, and what a driver saw: one shape, so that one driver calibrates another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.drivers import result
from harness.store.result import Check
from harness.workload import Session
from harness.workloads import window


@dataclass(frozen=True)
class KeyCount:
    """How often a key was chosen; ``number``: of its record, from 0 in the order of loading.

    Of a distribution that chooses by the distance from the newest record (``latest``,
    ``exponential``) it is that distance that was counted, as ``behind_newest``: new records
    make it another key all the time.
    """

    key: str | None = None
    number: int | None = None
    count: int = 0
    behind_newest: int | None = None


@dataclass(frozen=True)
class DriverResult(result.DriverResult):
    """The measured window, as its driver reports it; ``operations`` by params.OPERATIONS.

    A read-modify-write counts once, as that: neither as the read nor as the update that
    it consists of (the official client's report has it in all three). ``key_counts``: the
    keys that were chosen most often, the most frequent first; None from a driver that does
    not count them. ``chosen_count``: how many choices that is out of. ``inserted_count``:
    records that were acknowledged as inserted since the client began, its ramp-up included;
    ``inserts_begun_count``: those and what had no answer yet at its end; None where it does
    not report it. ``updated``: a sample of the fields whose update was acknowledged, see
    harness.workloads.ycsb.loadgen.check_records.
    """

    key_counts: Sequence[KeyCount] | None = None
    chosen_count: int | None = None
    inserted_count: int | None = None
    inserts_begun_count: int | None = None
    updated: Sequence[int] | None = None


class Driver(window.Driver[DriverResult], Protocol):
    """A client program that offers YCSB's load."""

    def verify(self, session: Session, driven: DriverResult) -> list[Check]:
        """Read every record back, and check that each is there and well formed."""
