"""The official client as a driver of this workload: its properties, and its result.

Its values are its own: drawn, as its core workload has it, so that an update changes
something. A run of it after the measured one checks whether every record is there, with
all its fields in lengths that they may have. With ``dataintegrity`` it writes values that it makes
of key and field, and that run says whether each is what it should be; but whoever then
updates a field writes what is there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness.counters import difference
from harness.drivers.loadgen import driver as native
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.drivers.ycsb import client
from harness.drivers.ycsb.build import NAME, built, check_buildable, find_java
from harness.drivers.ycsb.client import Request
from harness.drivers.ycsb.metrics import measured
from harness.engine import Engine, FillRequest
from harness.errors import UsageError
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.units import MIB, NS_PER_S
from harness.workload import Clients, Loading, Session
from harness.workloads.window import LoadingDriver
from harness.workloads.ycsb.params import PROPORTIONS, YcsbParams
from harness.workloads.ycsb.records import data_key, record_bytes

#: Parameters that the client has no option for.
_LOADGEN_ONLY = ("client_hosts", "clients", "client_threads", "data_seed", "stall_timeout")
#: Parameters of the native client that are none of the core workload.
_NATIVE_ONLY = ("data_seed", "verify_reads", "update")
_CORE = "site.ycsb.workloads.CoreWorkload"
#: The same, but for the check of what is read, which is done after the measured run.
_UNVERIFIED = "tierbench.ycsb.UnverifiedReads"
#: The same, and its check of what is read looks at the whole record.
_WHOLE = "tierbench.ycsb.WholeRecords"
#: Raised whenever a binding of ours stores the same records in other bytes (Records.java,
#: RocksDbBinding.java, JdbcBinding.java): data that it stored before are then not used.
_GENERATION = 1
#: It counts operations so far, and stops there: more than any window holds.
_MOST_OPERATIONS = 2**31 - 1
_HEAP_BYTES = 256 * MIB
#: Copies of a record in Java's heap at a time, in each thread.
_COPIES = 16
_VERIFY_THREADS = 4
#: Of the window, how late its counters may be read that are said to be those of the window.
_LATE = 0.05
#: What is said of records that are not as they were written, and of those that are.
_WITH_INTEGRITY = (
    "are not whole or have other values than were written",
    "every value is as the client's own dataintegrity has it",
)
_WITHOUT_INTEGRITY = (
    "are not whole: a field is missing, or has another length than requested",
    "each with all its fields in lengths that they may have; their values are random",
)


@dataclass(frozen=True)
class Official(LoadingDriver):
    """``ycsb``: the official client's core, with bindings of our own."""

    params: YcsbParams
    unseeded: ClassVar[str] = "the official client's threads draw from generators without a seed"

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Return whether there is Java, and client and binding can do this."""
        params = self.params
        binding = engine.ycsb_binding()
        find_java()
        check_buildable(binding)
        params.refuse_changed(_LOADGEN_ONLY, "ycsb")
        _check_window(params)
        _check_update(params, engine)
        engine.native_calls("ycsb", params.to_json())
        if not engine.inside_client:
            native.check_connections(params.threads, engine, settings, "--threads")

    def key(self) -> JsonObject:
        """Return its version, how bindings store records, and whether values can be checked."""
        return {
            "builder": NAME,
            "dataintegrity": self.params.dataintegrity,
            "generation": _GENERATION,
        }

    def load(self, loading: Loading) -> dict[str, Any]:
        """Have it insert every record, and check that it acknowledges each."""
        params = self.params
        engine = loading.engine
        records = params.loaded_records
        stored: dict[str, int] = {}

        def fill(connection: JsonObject) -> Mapping[str, int]:
            properties = {
                **_workload(params),
                **engine.ycsb_properties(connection, params.to_json()),
                "tierbench.loading": True,  # bindings of ours may batch inserts
            }
            request = Request(
                properties,
                min(loading.threads, records),
                load=True,
                heap_bytes=_heap(params, loading.threads),
                noun="records",
                total=records,
            )
            done = _run(engine, loading.clients, request, loading.progress)
            stored["usertable"] = sum(
                done.words.total("INSERT", f"Return={status}") for status in ("OK", "BATCHED_OK")
            )
            return stored

        counts = {"usertable": records}
        engine.native_load(FillRequest("ycsb", fill, counts, loading.progress, params.to_json()))
        return {**data_key(params), **self.key(), "row_counts": stored}

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        params = self.params
        engine = session.engine
        request = _request(params, engine)
        done = _run(engine, session.clients(), request, session.progress, drives)
        target = None if params.rate is None else int(params.rate)
        mix = {name for name, share in params.shares.items() if share}
        result = measured(done, mix, target, bounded_by_time=request.duration_s is not None)
        begin, end = (engine.ycsb_counters(reading) for reading in done.engine)
        late_ns = done.late_ns
        if request.duration_s is None:  # its first status line may come after the first operations
            late_ns = abs(done.counted_ns() - result.window_ns)
        in_time = late_ns <= result.window_ns * _LATE
        inserted = done.words.total("INSERT", "Return=OK")
        return replace(
            result,
            client_cpu_ns=done.cpu_ns if in_time else None,
            client_threads=params.threads,
            retried_by_code=done.retried,
            engine_counters=difference(begin[0], end[0]) if in_time else {},
            engine_text=end[1],
            inserted_count=inserted,
            inserts_begun_count=inserted,
            counters_late_ns=None if in_time else late_ns,
            notes={**_notes(params, request), "counters_late_ns": late_ns},
        )

    def verify(self, session: Session, driven: DriverResult) -> list[Check]:
        """Have it read every record again, and report which are as written."""
        params = self.params
        engine = session.engine
        records = params.loaded_records + (driven.inserted_count or 0)
        whole = replace(params, readallfields=True)
        threads = min(_VERIFY_THREADS, records)
        properties = {
            **_workload(whole),
            **dict.fromkeys(PROPORTIONS, 0),
            **engine.ycsb_properties(engine.native_connection(), whole.to_json()),
            "workload": _WHOLE,
            "dataintegrity": True,
            "tierbench.values": params.dataintegrity,
            # The core requires constant to check what it reads.
            "fieldlengthdistribution": "constant",
            "tierbench.shortest": _shortest(params),
            "readproportion": 1,
            "requestdistribution": "sequential",
            "recordcount": params.insertstart + records,
            "insertcount": records,
            "operationcount": records,
        }
        request = Request(
            properties,
            threads,
            heap_bytes=_heap(params, threads),
            noun="records",
            total=records,
        )
        done = _run(engine, session.clients(), request, session.progress)
        return [_records(done, records, params.dataintegrity)]


def _check_window(params: YcsbParams) -> None:
    """The client counts in whole seconds, and whole operations a second."""
    if params.duration is None:
        assert params.operations is not None  # else a duration bounds the window
        _check_operations(params, params.operations)
        return
    for name, time in (("ramp_up", params.ramp_up), ("duration", params.duration)):
        seconds, rest = divmod(time.ns, NS_PER_S)
        if rest:
            raise UsageError(
                f"{name} {time} with driver ycsb",
                "the official client counts whole seconds",
                f"choose --{name.replace('_', '-')} {seconds + 1}s, or --driver loadgen",
            )
    target = params.rate
    if target is not None and (target != int(target) or target < 1):
        raise UsageError(
            f"rate {target} with driver ycsb",
            "the official client offers a whole number of operations a second",
            f"choose --rate {max(1, round(target))}, or --driver loadgen",
        )
    if params.foretells_inserts and params.operations is None:
        seconds = (params.ramp_up.ns + params.duration.ns) // NS_PER_S
        raise UsageError(
            "zipfian keys with inserts and driver ycsb, bounded by time",
            "the official client predicts the number of inserted records from --operations, "
            "and stops when that many operations are done",
            f"add --operations {seconds * 100_000}, say, for both drivers alike",
        )


def _check_operations(params: YcsbParams, operations: int) -> None:
    if params.ramp_up.ns:
        raise UsageError(
            f"ramp_up {params.ramp_up} before {operations:,} operations with driver ycsb",
            "the official client has no ramp-up, and counts operations from its start on",
            "choose --ramp-up 0s, or bound the window with --duration",
        )
    if operations < params.threads:
        raise UsageError(
            f"{operations} operations of {params.threads} threads",
            "the official client starts no more threads than operations",
            "choose fewer --threads",
        )


def _check_update(params: YcsbParams, engine: Engine) -> None:
    if params.update == "merge":
        raise UsageError(
            "update merge with driver ycsb",
            "RocksDB's Java interface takes no merge operator but RocksDB's own, and none of "
            "those changes a field of a record",
            "choose --update read-modify-write or blind, or --driver loadgen",
        )
    if not engine.inside_client:
        params.refuse_update_on_sql(engine.name)
    _check_integrity(params)


def _check_integrity(params: YcsbParams) -> None:
    if params.verify_reads and not params.dataintegrity:
        raise UsageError(
            "verify_reads with driver ycsb",
            "the official client can only check values that its dataintegrity has made",
            "add -p dataintegrity=true, or use --driver loadgen",
        )
    if params.dataintegrity and params.fieldlengthdistribution != "constant":
        raise UsageError(
            f"dataintegrity with fieldlengthdistribution {params.fieldlengthdistribution}",
            "the official client's dataintegrity makes fields of one length",
            "choose constant, or leave dataintegrity out",
        )


def _shortest(params: YcsbParams) -> int:
    """Return the smallest size of a value."""
    drawn = params.fieldlengthdistribution != "constant"
    return int(params.minfieldlength if drawn else params.fieldlength)


def _workload(params: YcsbParams) -> dict[str, object]:
    """Properties of the core workload; whole records where the update is blind."""
    same = {n: v for n, v in params.native_json().items() if n not in _NATIVE_ONLY}
    unread = params.dataintegrity and not params.verify_reads
    return {
        **same,
        "workload": _UNVERIFIED if unread else _CORE,
        "insertcount": params.loaded_records,
        "operationcount": params.operations or _MOST_OPERATIONS,
        "writeallfields": params.writeallfields or params.update == "blind",
        "dataintegrity": params.dataintegrity,
    }


def _request(params: YcsbParams, engine: Engine) -> Request:
    return Request(
        {
            **_workload(params),
            **engine.ycsb_properties(engine.native_connection(), params.to_json()),
            "target": None if params.rate is None else int(params.rate),
        },
        params.threads,
        ramp_up_s=params.ramp_up.ns // NS_PER_S if params.duration else 0,
        duration_s=params.duration.ns // NS_PER_S if params.duration else None,
        heap_bytes=_heap(params, params.threads),
        total=params.operations,
    )


def _heap(params: YcsbParams, threads: int) -> int:
    """Java's heap: always all of it, so that it is the same however long it runs."""
    rows = params.maxscanlength if params.shares["scan"] else 1
    return int(_HEAP_BYTES + threads * _COPIES * record_bytes(params) * rows)


def _run(
    engine: Engine,
    clients: Clients,
    request: Request,
    progress: Any,
    drives: WindowCallbacks | None = None,
) -> client.Done:
    build = built(engine.ycsb_binding(), progress)
    return client.run(build, clients, request, progress, drives)


def _notes(params: YcsbParams, request: Request) -> dict[str, Any]:
    """Facts for whoever compares it with another driver."""
    notes = {
        "java": find_java().banner,
        "heap_bytes": request.heap_bytes,
        "workload_class": request.properties["workload"],
        "update": params.update,
        "dataintegrity": params.dataintegrity,
        "latency_resolution": "whole microseconds, cut off; stored at their middle",
    }
    if params.shares["read_modify_write"]:
        notes["read_and_update_latencies"] = (
            "those of the reads and updates that a read-modify-write consists of are among them"
        )
    return notes


def _records(done: client.Done, records: int, integrity: bool) -> Check:
    """Check that it found every record whole and, with dataintegrity, with the values it writes."""
    wrong, well = _WITH_INTEGRITY if integrity else _WITHOUT_INTEGRITY
    read = done.words.total("READ", "Return=OK")
    right = done.words.total("VERIFY", "Return=OK")
    if read != records:
        detail = f"{records - read:,} of {records:,} records were not found"
        return Check("records", "failed", detail)
    if right != records:
        return Check("records", "failed", f"{records - right:,} of {records:,} records {wrong}")
    return Check("records", "passed", f"{records:,} records read back; {well}")
