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
instance_operations_per_second,    by ``instance``, of several databases at once: the metrics
instance_operation_duration_ns     without ``instance_`` are their sum, and all their latencies
worst_instance_operations_per_second  the lowest of them
worst_instance_share               the share of the sum that it has
window_duration_ns                 length of the measured window
window_<counter>                   what the window added to a counter. Of those that an engine
                                   inside the client keeps (hundreds, for what is not in use
                                   too) only what it moved
================================== =====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness.counters import difference
from harness.drivers.loadgen import driver as client
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import (
    LoadgenResult,
    LoadgenSpec,
    LoopMode,
    Verified,
    merged_instances,
)
from harness.drivers.result import DriverResult, WindowCallbacks, WindowCounters
from harness.drivers.validity import Nouns
from harness.engine import Engine
from harness.errors import RunFailed, UsageError, naming_instance
from harness.experiment.placement import Part
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.units import NS_PER_S
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session
from harness.workloads.window import (
    DrivenWorkload,
    LoadingDriver,
    check_mix,
    instance_metrics,
    of_instances,
    rates_per_second,
    window_outcome,
)
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.records import GENERATION, data_key, estimate_bytes, record_bytes

_CONNECTIONS_PER_LOOP = 16
_MOST_LOOPS = 8
_VERIFY_CONNECTIONS = 4


@dataclass(frozen=True)
class YcsbLoadgen(LoadingDriver):
    """``loadgen``: our client, our records."""

    params: YcsbParams
    takes_instances: ClassVar[bool] = True

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Check that the client speaks to this engine, and the engine runs the operations."""
        params = self.params
        client.check(engine, "ycsb", params.client_hosts)
        _statements(params, engine)
        if engine.inside_client:
            _check_inside(params, engine)
        else:
            instances = params.outline().instances
            client.check_connections(
                params.threads, engine, settings, "--threads", instances=instances
            )
        if engine.sql_folder is not None:
            params.refuse_update_on_sql(engine.name)

    def key(self) -> JsonObject:
        """The seed, and which values are made of it."""
        return {"data_seed": self.params.data_seed, "generation": GENERATION}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Fill the table through the engine's bulk path."""
        params, records = self.params, self.params.loaded_records
        rows = {"usertable": records}
        native, schema = params.native_json(), params.to_json()
        result = client.load("ycsb", native, rows, loading, records, schema)
        return {
            **data_key(params),
            **self.key(),
            "row_counts": dict(result.rows),
            # Of an engine inside the client: how it has ordered what it was given.
            **result.engine.text,
        }

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        params = self.params
        engine = session.engine
        spec = LoadgenSpec(
            client.backend_of(engine, "ycsb"),
            engine.native_connection(),
            "ycsb",
            params.native_json(),
            statements=_statements(params, engine),
            threads=_loops(params, engine),
            terminals=params.threads,
            mode=LoopMode(params.rate),
            operations=params.operations if params.duration is None else None,
        )
        outline = params.outline()
        offered = processes.offer(spec, session, drives, outline, "operations")
        results = [each.result for each in offered]
        instances = [_driven(result, params.shares) for result in results]
        if len(instances) == 1:
            return instances[0]
        return replace(_driven(merged_instances(results), params.shares), instances=instances)

    def verify(self, session: Session, driven: DriverResult) -> list[Check]:
        """Read every record back, in pages of many where the engine scans."""
        params = self.params
        engine = session.engine
        whole = replace(params, readallfields=True)
        connections = min(_VERIFY_CONNECTIONS, params.threads)
        inserted = driven.inserted_count or 0
        native = {
            **whole.native_json(),
            "inserted": inserted,
            "inserts_begun": max(driven.inserts_begun_count or 0, inserted),
        }
        spec = LoadgenSpec(
            client.backend_of(engine, "ycsb"),
            engine.native_connection(),
            "ycsb",
            native,
            task="verify",
            statements=client.calls(engine, "ycsb", whole.to_json(), ("read", "scan")),
            threads=connections,
            connections=connections,
        )
        total = params.loaded_records + inserted
        with session.progress.task("verify YCSB", total, "records") as task:
            watch = WindowCallbacks(on_counts=client.rows_moving(task))
            result = processes.drive([spec], session.clients(), watch)
        assert result.verified is not None
        return [check_records(result.verified, driven.updated)]


def _check_inside(params: YcsbParams, engine: Engine) -> None:
    """Raise UsageError for clients that an engine inside the client cannot have."""
    loops = params.client_threads
    if params.clients != 1:
        raise UsageError(
            f"{params.clients} client processes on {engine.name}",
            "the engine works inside the client, and one process at a time can have its data open",
            "leave clients out",
        )
    if loops is not None and loops != params.threads:
        raise UsageError(
            f"client_threads {loops} for {params.threads} threads on {engine.name}",
            "the engine works inside the client: each client thread is an event loop of its own",
            "leave client_threads out",
        )


def _statements(params: YcsbParams, engine: Engine) -> dict[str, str | list[str]]:
    """The engine's texts of the requested operations."""
    names = {name for name, share in params.shares.items() if share}
    if "read_modify_write" in names:
        names |= {"read", "update"}
    return client.calls(engine, "ycsb", params.to_json(), names - {"read_modify_write"})


def _loops(params: YcsbParams, engine: Engine) -> int:
    """Event loops of a client process."""
    threads = params.threads
    if engine.inside_client:
        return threads
    if params.client_threads is not None:
        return params.client_threads
    mine = math.ceil(threads / params.clients / _CONNECTIONS_PER_LOOP)
    return min(_MOST_LOOPS, mine)


def _driven(result: LoadgenResult, shares: Mapping[str, float]) -> DriverResult:
    """Return the window of a result, without operations that have no share."""
    driven = result.window()
    done = {
        n: operation for n, operation in driven.operations.items() if shares[n] or operation.count
    }
    return replace(
        driven,
        operations=done,
        engine_counters=difference(result.engine.begin, result.engine.end),
        engine_text=result.engine.text,
        inserted_count=result.inserted,
        inserts_begun_count=result.inserts_begun,
        updated=result.updated,
    )


def check_records(verified: Verified, updated: Sequence[int] | None = None) -> Check:
    """Return the check of the client's verification .

    ``updated``: of a run with updates, of each group of fields the highest hash among those
    whose update was acknowledged. Verification has the like of all fields that were last
    written by an update: none can be lower, unless an update was lost.
    """
    counts = {name: getattr(verified, name) for name in ("missing", "malformed", "unexpected")}
    wrong = [f"{count:,} {name}" for name, count in counts.items() if count]
    if updated is not None and (lost := _lost(updated, verified.updated)):
        looked_at = sum(1 for highest in updated if highest)
        wrong.insert(0, f"of {looked_at:,} updated fields looked at {lost:,} without their update")
    said = f"{verified.records:,} records read back, {verified.expected:,} expected"
    if not wrong and verified.records < verified.expected:
        wrong = [f"{verified.expected - verified.records:,} missing"]
    if wrong:
        first = f" ({verified.first})" if verified.first else ""
        return Check("records", "failed", f"{', '.join(wrong)}{first}; {said}")
    changed = "" if updated is None else f", {verified.changed:,} fields were last updated"
    return Check("records", "passed", f"{said}; every one is well formed{changed}")


def _lost(acknowledged: Sequence[int], stored: Sequence[int]) -> int:
    """Count the groups of fields in which an update is missing."""
    pairs = zip(acknowledged, stored, strict=True)
    return sum(1 for expected, highest in pairs if highest < expected)


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
    "loadgen": YcsbLoadgen,
    "ycsb": Official,
}


class Ycsb(DrivenWorkload[YcsbParams]):
    """Reads, updates, inserts and scans of records by their keys, offered by a client program."""

    name = "ycsb"
    drivers = DRIVERS

    def size_key(self, params: YcsbParams) -> dict[str, Any]:
        return data_key(params)

    def tables(self, params: YcsbParams, engine: Engine) -> Collection[str]:
        return ("usertable",)

    def estimate_bytes(self, params: YcsbParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.ycsb.params."""
        return estimate_bytes(params, key_value=not engine_format)

    def loaded_bytes(self, params: YcsbParams) -> int:
        """Bytes of all records with their keys."""
        return params.loaded_records * record_bytes(params)

    def spends_data(self, params: YcsbParams) -> bool:
        return params.writes

    def measure(self, params: YcsbParams, session: Session) -> Outcome:
        driver, engine = self.drivers[session.driver](params), session.engine
        counted = WindowCounters(session)
        driven = driver.drive(session, counted.drives())
        tasks = engine.background_tasks() if engine.inside_client else {}
        for number, result in enumerate(driven.each, 1):
            with naming_instance(number, len(driven.each)):
                _expect_work(params, result)
        return window_outcome(
            driver,
            driven,
            counted,
            NOUNS,
            params.outline(),
            users=params.threads * len(driven.each),
            closed=params.rate is None,
            rates=[
                *rates_per_second(driven),
                *instance_metrics(driven, NOUNS, rates_per_second),
            ],
            checks=of_instances(
                [
                    [
                        *driver.verify(instance, result),
                        check_mix(result, NOUNS, params.shares, params.threads),
                        check_found(result),
                    ]
                    for instance, result in zip(session.each, driven.each, strict=True)
                ]
            ),
            warnings=list(_own_warnings(params, driven)),
            engine=driven.engine_text,
            background={
                task: [{"begin_ns": begin, "end_ns": end} for begin, end in times]
                for task, times in tasks.items()
            },
        )


def check_found(driven: DriverResult) -> Check:
    """Return whether every requested record was found: none is ever removed."""
    missed = {
        name: operation.not_found_count
        for name, operation in driven.operations.items()
        if operation.not_found_count is not None
    }
    if not missed:
        return Check("not_found", "unknown", f"{driven.driver} does not count missing records")
    counts = ", ".join(f"{count:,} of {name}" for name, count in missed.items() if count)
    detail = f"records that are there were not found: {counts}" if counts else ""
    return Check("not_found", "failed" if counts else "passed", detail)


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
