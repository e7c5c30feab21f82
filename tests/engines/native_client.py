"""The native client next to an engine that a test has started."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lab import execute

from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenResult, LoadgenSpec, LoopMode
from harness.engine import FillRequest
from harness.progress import SilentProgress
from harness.sql_files import text_of
from harness.store.spec import JsonObject
from harness.workload import Clients
from harness.workloads.tpcc.consistency import check_conditions

SECOND = 1_000_000_000
COUNTS = {"warehouse": 1, "district": 10, "customer": 30_000, "history": 30_000,
          "orders": 30_000, "new_order": 9_000, "item": 100_000, "stock": 100_000}  # fmt: skip


class Native:
    """A started engine with TPC-C's schema, and the client beside it."""

    def __init__(self, lab, engine) -> None:
        self.engine = engine
        folder = lab.directory("c")
        self.clients = Clients(lab.supervisor, lab.credentials, folder, joined=engine)
        #: Rows by table, as the client told of its load and as the server counted then.
        self.told: dict[str, int] = {}
        self.counted: dict[str, int] = {}

    def load(self, connection: JsonObject) -> Mapping[str, int]:
        spec = self._spec(connection, {}, task="load", threads=2)
        self.told = dict(processes.drive([spec], self.clients).rows)
        self.counted = {t: self.rows(f"select count(*) from {t}")[0][0] for t in self.told}
        return self.told

    def run(self, *, seconds=1.0, statements=(), mix="deck", watch=None, **more) -> LoadgenResult:
        calls = self.engine.sql_folder / "tpcc" / "calls"
        spec = self._spec(
            self.engine.native_connection(), {"home": "all", "mix": mix},
            threads=1, connections=2,
            statements={f.stem: text_of(f) for f in calls.glob("*.sql")} | dict(statements),
            mode=LoopMode(think_time=False), drain_ns=10 * SECOND, seed=3,
            # So many seconds, or so many operations however long the machine stands still.
            duration_ns=None if "operations" in more else int(seconds * SECOND),
        )  # fmt: skip
        return processes.drive([replace(spec, **more)], self.clients, watch)

    def _spec(self, connection: JsonObject, params: JsonObject, **more) -> LoadgenSpec:
        params = {"warehouses": 1, "data_seed": 1, **params}
        return LoadgenSpec(self.engine.native_backend, connection, "tpcc", params, **more)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return execute(self.engine, sql)

    def holds(self) -> None:
        checks = check_conditions(self.engine, SilentProgress())
        assert [(c.name, c.detail) for c in checks if c.status != "passed"] == []


def started(lab, name: str, settings: Mapping[str, str]) -> Native:
    """A started engine with nothing in it."""
    return Native(lab, lab.started(name, settings))


def loaded(lab, name: str, settings: Mapping[str, str]) -> Native:
    """With one warehouse, loaded by the client."""
    native = started(lab, name, settings)
    native.engine.native_load(FillRequest("tpcc", native.load, COUNTS, SilentProgress()))
    return native
