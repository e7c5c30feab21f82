"""The measured phase: drive, count, and check the records that are there afterwards.

Every run begins on restored data whose files were evicted: the ramp-up warms the caches.
Afterwards every record is read back, whoever drove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from harness.drivers.result import WindowCounters
from harness.drivers.validity import host_warnings, load_warnings
from harness.engine import LogsTasks, RunsInClient, TaskTimes
from harness.errors import RunFailed
from harness.store.result import Check
from harness.units import NS_PER_S
from harness.warnings import RunWarning
from harness.workload import Outcome, Session
from harness.workloads.window import check_mix, explain_window, window_outcome
from harness.workloads.ycsb.drivers import Driver, DriverResult
from harness.workloads.ycsb.keys import HOTTEST, check_keys
from harness.workloads.ycsb.loadgen import Loadgen
from harness.workloads.ycsb.metrics import NOUNS, metrics
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams

#: A window of less than this share of the requested one is reported, and one of this many more
#: operations.
_SHORT, _MORE = 0.98, 1.01


DRIVERS: Mapping[str, Callable[[YcsbParams], Driver]] = {"loadgen": Loadgen, "ycsb": Official}


def measure(params: YcsbParams, session: Session) -> Outcome:
    """See harness.workload.Workload.measure; the metrics are listed in metrics.py."""
    driver = DRIVERS[session.driver](params)
    inside = isinstance(session.engine, RunsInClient)
    counted = WindowCounters(session)
    driven = driver.drive(session, counted.drives())
    engine = session.engine
    tasks = engine.background_tasks() if inside and isinstance(engine, LogsTasks) else {}
    _expect_work(params, driven)
    checks = [
        *driver.verify(session, driven),
        check_mix(driven, NOUNS, params.shares, params.threadcount),
        check_found(driven),
        *check_keys(params, driven),
    ]
    in_time = driven.counters_late_ns is None
    closed = params.target is None
    waits, counters = explain_window(
        driven,
        counted.counters(driven) if in_time else {},
        params.threadcount,
        closed and not inside,
    )
    hosts = params.client_hosts
    return window_outcome(
        driven,
        NOUNS,
        metrics(driven, counters, inside),
        checks,
        [
            *load_warnings(driven, NOUNS, closed=closed, inside=inside),
            *_window(params, driven),
            *host_warnings(session.engine, driven, counted, hosts, driver.unseeded),
        ],
        waits,
        keys=_keys(driven),
        engine=driven.engine_text,
        background=_background(tasks),
    )


def check_found(driven: DriverResult) -> Check:
    """Whether every requested record was found: none is ever removed."""
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


def _keys(driven: DriverResult) -> dict[str, Any]:
    """The keys that were chosen most often, as they are kept with the run."""
    if not driven.key_counts:
        return {}
    hottest = [
        {name: value for name, value in asdict(one).items() if value is not None}
        for one in driven.key_counts[:HOTTEST]
    ]
    return {"chosen": driven.chosen_count, "hottest": hottest}


def _expect_work(params: YcsbParams, driven: DriverResult) -> None:
    """RunFailed for a window in which nothing was done: it would be a rate of 0, and no answer."""
    if driven.done_count != 0:
        return
    raise RunFailed(
        f"measure {params.threadcount} client threads for {params.duration or 'a window'}",
        "not one operation was done in the measured window",
        "give it a longer --duration",
    )


def _window(params: YcsbParams, driven: DriverResult) -> Iterator[RunWarning]:
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
    requested, done = params.operationcount, driven.done_count
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
