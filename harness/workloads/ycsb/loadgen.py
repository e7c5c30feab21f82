"""The native client as a driver of this workload: its specs and its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.counters import difference
from harness.drivers.loadgen import driver as client
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.result import LoadgenResult, Verified
from harness.drivers.loadgen.spec import LoadgenSpec, Mode
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.engine import Engine
from harness.errors import UsageError
from harness.store.result import Check
from harness.store.spec import JsonObject
from harness.workload import Loading, Session
from harness.workloads.window import LoadingDriver
from harness.workloads.ycsb import data
from harness.workloads.ycsb.params import YcsbParams

_CONNECTIONS_PER_LOOP = 16
_MOST_LOOPS = 8
_VERIFY_CONNECTIONS = 4


@dataclass(frozen=True)
class Loadgen(LoadingDriver):
    """``loadgen``: our client, our records."""

    params: YcsbParams

    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Check that the client speaks to this engine, and the engine runs the operations."""
        params = self.params
        client.check(engine, "ycsb", params.client_hosts)
        _statements(params, engine)
        if engine.inside_client:
            _check_inside(params, engine)
        else:
            client.check_connections(params.threads, engine, settings, "--threads")
        if engine.sql_folder is not None:
            params.refuse_update_on_sql(engine.name)

    def key(self) -> JsonObject:
        """The seed, and which values are made of it."""
        return {"data_seed": self.params.data_seed, "generation": data.GENERATION}

    def load(self, loading: Loading) -> dict[str, Any]:
        """Fill the table through the engine's bulk path."""
        params, records = self.params, self.params.loaded_records
        rows = {"usertable": records}
        native, schema = params.native_json(), params.to_json()
        result = client.load("ycsb", native, rows, loading, records, schema)
        return {
            **data.key(params),
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
            mode=Mode(params.rate),
            operations=params.operations if params.duration is None else None,
        )
        outline = params.outline()
        result, _ = processes.offer(spec, session, drives, outline, "operations")
        return _driven(result, params.shares)

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
    done = {n: one for n, one in driven.operations.items() if shares[n] or one.count}
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


def _lost(acknowledged: Sequence[int], found: Sequence[int]) -> int:
    """Count the groups of fields in which an update is missing."""
    pairs = zip(acknowledged, found, strict=True)
    return sum(1 for expected, highest in pairs if highest < expected)
