"""YCSB as a workload: its parameters, its data, its drivers, and the measured phase.

Every run begins on restored data whose files were evicted: the ramp-up warms the caches.
Afterwards every record is read back, whichever driver offered the load.

The metrics of a run:

================================== =====================================================
metric                             what it is
================================== =====================================================
operations_per_second              operations of the measured window, of all kinds
operation_duration_ns              histogram by ``operation``: from the call to its answer,
                                   or from the intended start where a rate is set; of those
                                   begun in the window. A read-modify-write's is the pair's.
                                   One that was never answered stands there with its age; not
                                   left out if none was answered
operation_percentile_ns            by ``operation`` and ``percentile``, from a driver that
                                   keeps no histogram
operation_count                    by ``operation``: ended in the window (where a rate is set,
                                   of those meant to start in it). A read-modify-write counts
                                   once, as that
operation_not_found_count          of these, those that found no record
operation_retried_count            attempts undone by deadlocks or serialization
operation_unfinished_count         begun in the window, never answered
retried_count                      the same attempts by the engine's error ``code``
offered_operations_per_second      intended starts, where a rate is set
outstanding_count                  due and not answered, ``at`` begin and end of the
                                   window, where a rate is set
client_cpu_per_operation_ns        of the client processes, by operations done
server_cpu_per_operation_ns        of the engine's processes, likewise
process_cpu_per_operation_ns       in place of both where the engine works inside the client:
                                   of that process, whose time cannot be separated. Not
                                   where a rate is set: waiting for starts, and waking up for
                                   them, is computed by the same threads
wait_ns                            of the mean latency, by ``resource`` (docs/waits.md)
wait_cpu_ns                        of the mean latency, on processors
wait_accounted_share               of the mean latency, what they add up to
wait_moments_count                 how often sessions were observed
window_duration_ns                 length of the measured window
window_<counter>                   what the window added to a counter. Of those that an engine
                                   inside the client keeps (hundreds, for what is not in use
                                   too) only what it moved
================================== =====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.drivers.result import DriverResult, WindowCounters
from harness.drivers.validity import Nouns
from harness.engine import TaskTimes
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.store.result import Check
from harness.units import NS_PER_S
from harness.warnings import RunWarning
from harness.workload import Outcome, Session
from harness.workloads.window import (
    DrivenWorkload,
    LoadingDriver,
    check_mix,
    rates_per_second,
    window_outcome,
)
from harness.workloads.ycsb import data
from harness.workloads.ycsb.loadgen import Loadgen
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams

#: A window of less than this share of the requested one is reported, and one of this many more
#: operations.
_SHORT, _MORE = 0.98, 1.01

NOUNS = Nouns(
    operation="operation",
    user="client thread",
    users_option="--threads",
    counts=("count", "not_found_count", "retried_count", "unfinished_count"),
)
DRIVERS: Mapping[str, Callable[[YcsbParams], LoadingDriver]] = {
    "loadgen": Loadgen,
    "ycsb": Official,
}


class Ycsb(DrivenWorkload[YcsbParams]):
    """Reads, updates, inserts and scans of records by their keys, offered by a client program."""

    name = "ycsb"
    drivers = DRIVERS

    def size_key(self, params: YcsbParams) -> dict[str, Any]:
        return data.key(params)

    def estimate_bytes(self, params: YcsbParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.ycsb.data."""
        return data.estimate_bytes(params, key_value=not engine_format)

    def loaded_bytes(self, params: YcsbParams) -> int:
        """Of all records with their keys."""
        return params.loaded_records * data.record_bytes(params)

    def spends_data(self, params: YcsbParams) -> bool:
        return params.writes

    def measure(self, params: YcsbParams, session: Session) -> Outcome:
        driver, engine = self.drivers[session.driver](params), session.engine
        counted = WindowCounters(session)
        driven = driver.drive(session, counted.drives())
        tasks = engine.background_tasks() if engine.inside_client else {}
        _expect_work(params, driven)
        return window_outcome(
            driver,
            driven,
            counted,
            NOUNS,
            params.outline(),
            users=params.threads,
            closed=params.rate is None,
            rates=list(rates_per_second(driven)),
            checks=[
                *driver.verify(session, driven),
                check_mix(driven, NOUNS, params.shares, params.threads),
                check_found(driven),
            ],
            warnings=list(_own_warnings(params, driven)),
            engine=driven.engine_text,
            background=_background(tasks),
        )


def check_found(driven: DriverResult) -> Check:
    """Return whether every requested record was found: none is ever removed."""
    missed = {
        name: one.not_found_count
        for name, one in driven.operations.items()
        if one.not_found_count is not None
    }
    if not missed:
        return Check("not_found", "unknown", f"{driven.driver} does not count missing records")
    found = ", ".join(f"{count:,} of {name}" for name, count in missed.items() if count)
    detail = f"records that are there were not found: {found}" if found else ""
    return Check("not_found", "failed" if found else "passed", detail)


def _background(tasks: TaskTimes) -> dict[str, Any]:
    return {
        task: [{"begin_ns": begin, "end_ns": end} for begin, end in times]
        for task, times in tasks.items()
    }


def _expect_work(params: YcsbParams, driven: DriverResult) -> None:
    """RunFailed for a window in which nothing was done: it would be a rate of 0, and no answer."""
    if driven.done_count != 0:
        return
    raise RunFailed(
        f"measure {params.threads} client threads for {params.duration or 'a window'}",
        "not one operation was done in the measured window",
        "give it a longer --duration",
    )


def _own_warnings(params: YcsbParams, driven: DriverResult) -> Iterator[RunWarning]:
    """A window that is not the requested one, and operations whose windows differ."""
    requested_ns = params.duration.ns if params.duration else driven.window_ns
    if driven.window_ns < requested_ns * _SHORT:
        yield RunWarning(
            code="window-too-short",
            problem="the measurement window is shorter than requested",
            context=f"{driven.window_ns / NS_PER_S:.1f} s, {params.duration} requested: the "
            "client did not report every second in time",
            hint="measure on an otherwise idle machine",
        )
    requested, done = params.operations, driven.done_count
    if params.duration is None and requested and done and done > requested * _MORE:
        yield RunWarning(
            code="too-many-operations",
            problem="more operations are counted than requested",
            context=f"{done:,} counted, {requested:,} requested: operations in progress at the end "
            "of the ramp-up ended in the window",
            hint="leave --ramp-up out, or raise --operations",
        )
    if driven.ends_apart_ns > driven.window_ns * (1 - _SHORT):
        yield RunWarning(
            code="operation-windows-differ",
            problem="the measurement windows of operations differ",
            context=f"by up to {driven.ends_apart_ns / NS_PER_S:.2f} s: the client closes its "
            "histograms one after the other, and the machine was busy",
            hint="measure on an otherwise idle machine, or raise --duration",
        )


WORKLOAD = Ycsb()
