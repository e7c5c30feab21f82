"""YCSB by the native client on real servers, by the engines' own SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lab import execute
from narrowed import present

from harness import hdr
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenResult, LoadgenSpec, LoopMode, Verified, split
from harness.drivers.result import WindowCallbacks, WindowCounters
from harness.drivers.validity import late_publication
from harness.engine import FillRequest
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.workload import Clients

RECORDS = 3000
SECOND = 1_000_000_000
SHAPE = {
    "recordcount": RECORDS, "fieldcount": 5, "fieldlength": 40, "data_seed": 5,
    "readallfields": True, "writeallfields": False,
}  # fmt: skip
MIX = {
    "readproportion": 0.25, "updateproportion": 0.25, "insertproportion": 0.1,
    "scanproportion": 0.2, "readmodifywriteproportion": 0.2, "maxscanlength": 1000,
    "verify_reads": True,
}  # fmt: skip
SETTINGS = {
    "postgres": {"max_connections": "60"},
    "mysql": {"innodb_buffer_pool_size": "268435456"},
}


class Ycsb:
    """A started engine with the table, loaded by the client."""

    def __init__(self, lab, engine) -> None:
        self.engine = engine
        self.clients = Clients(lab.supervisor, lab.credentials, lab.directory("c"))
        self.updated: Sequence[int] | None = None  # by the last run on these data

    def _spec(self, params: Mapping[str, Any], **more) -> LoadgenSpec:
        engine = self.engine
        connection = more.pop("connection", engine.native_connection())
        given = {**SHAPE, **params}
        return LoadgenSpec(engine.native_backend, connection, "ycsb", given, threads=2, **more)

    def load(self) -> None:
        def fill(connection: Mapping[str, Any]) -> Mapping[str, int]:
            spec = self._spec({}, task="load", connection=connection)
            rows = processes.drive([spec], self.clients).rows
            assert rows == {"usertable": RECORDS}
            return rows

        self.engine.native_load(
            FillRequest("ycsb", fill, {"usertable": RECORDS}, SilentProgress(), SHAPE)
        )

    def calls(self, params: Mapping[str, Any]) -> dict[str, Any]:
        texts = self.engine.native_calls("ycsb", {**SHAPE, **params})
        return {name: t if isinstance(t, str) else list(t) for name, t in texts.items()}

    def run(self, params, clients: int = 1, watch=None, **changes) -> LoadgenResult:
        spec = self._spec(
            params,
            statements=self.calls(params),
            connections=8,
            mode=LoopMode(),
            drain_ns=20 * SECOND,
            seed=3,
            operations=None if "duration_ns" in changes else 3000,
        )
        specs = split(replace(spec, **changes), clients)
        result = processes.drive(specs, self.clients, watch)
        self.updated = result.updated
        return result

    def verified(self, **params) -> dict[str, Any]:
        spec = self._spec(params, task="verify", statements=self.calls({}))
        verified = present(processes.drive([spec], self.clients).verified)
        return {name: getattr(verified, name) for name in _sound(0)} | self._updates(verified)

    def _updates(self, verified: Verified) -> dict[str, Any]:
        """Nothing, where all acknowledged ones of the last run are there."""
        acknowledged = self.updated or [0] * 2048
        pairs = zip(verified.updated, acknowledged, strict=True)
        lost = sum(seen < told for seen, told in pairs)
        return {"lost": lost} if lost else {}

    def copy(self, table: str, other: str) -> None:
        """Make the other table of the rows of this table."""
        made = LIKE[self.engine.name].format(other, table)
        self.execute(made, f"insert into {other} select * from {table}")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return execute(self.engine, *statements)


#: Statements that make a table like another, with its keys.
LIKE = {
    "postgres": "create table {} (like {} including all)",
    "mysql": "create table {} like {}",
}


@pytest.fixture(scope="module", params=sorted(SETTINGS))
def golden(request, module_lab):
    """Loaded; the table as it was loaded is in another one, too."""
    name = request.param
    engine = module_lab.started(name, SETTINGS[name])
    ycsb = Ycsb(module_lab, engine)
    ycsb.load()
    ycsb.copy("usertable", "loaded")
    yield ycsb
    engine.kill()


@pytest.fixture
def ycsb(golden):
    """With the table as it was loaded."""
    golden.execute("drop table usertable")
    golden.copy("loaded", "usertable")
    golden.updated = None
    return golden


@pytest.mark.only("postgres")
@pytest.mark.parametrize("rate", [None, 2000.0])
def test_counters_of_a_window_are_those_of_the_acknowledged_operations(ycsb, rate):
    """Sessions of PostgreSQL publish by themselves once a second: half of this window."""
    session: Any = SimpleNamespace(
        engine=ycsb.engine, counters=lambda moment="": ycsb.engine.counters()
    )
    counted = WindowCounters(session)
    result = ycsb.run(
        {"readproportion": 0.5, "updateproportion": 0.5},
        clients=2,
        watch=WindowCallbacks(counted.begin, counted.end),
        mode=LoopMode(rate),
        ramp_up_ns=int(1.5 * SECOND),
        duration_ns=2 * SECOND,
    )
    driven = result.window()
    assert driven.published_sessions == 8
    commits = counted.counters(driven)["postgres_commits_count"]
    # At each end, a session may be in an operation that it publishes and the client counts, or not;
    # the counters are read in a transaction of its own, which the later ones have.
    assert -8 <= commits - present(driven.done_count) <= 8 + 1
    assert not list(late_publication(ycsb.engine, driven, counted))
    silent = replace(driven, published_sessions=0)
    (warning,) = late_publication(ycsb.engine, silent, counted)
    assert warning.code == "counters-published-late"


@pytest.mark.only("mysql")
def test_the_server_has_counted_every_acknowledged_operation_at_once(ycsb):
    """Two statements of read-modify-write are two transactions."""
    name = "server_handler_commits_count"
    before = ycsb.engine.counters()[name]
    counts = _by_type(ycsb.run(MIX), "count")
    transactions = sum(counts.values()) + counts["read_modify_write"]
    # MySQL looks up a new connection's database, and a table at its first use, in a transaction.
    assert 0 <= ycsb.engine.counters()[name] - before - transactions <= 0.01 * transactions


def _by_type(result: LoadgenResult, what: str) -> dict[str, int]:
    return {name: getattr(operation, what) for name, operation in result.operations.items()}


def _sound(records: int) -> dict[str, Any]:
    return {
        "records": records, "expected": records, "missing": 0, "malformed": 0, "unexpected": 0,
        "first": None,
    }  # fmt: skip


def test_five_operations(ycsb, monkeypatch):
    """Each row that is read on the way is checked, and all of them at the end."""
    # One engine is enough for two processes. The machine may stand still as they are started.
    monkeypatch.setattr(processes, "_TOGETHER_S", 15.0)
    clients = 2 if ycsb.engine.name == "postgres" else 1
    assert ycsb.verified() == _sound(RECORDS)
    result = ycsb.run({**MIX, "requestdistribution": "latest"}, clients=clients)
    counts = _by_type(result, "count")
    assert sum(counts.values()) == 3000
    assert all(counts.values())
    assert sum(_by_type(result, "not_found_count").values()) == 0
    assert result.inserted == result.inserts_begun == counts["insert"]
    assert ycsb.verified(inserted=counts["insert"]) == _sound(RECORDS + counts["insert"])
    ((stored,),) = ycsb.execute("select count(*) from usertable")
    assert stored == RECORDS + counts["insert"]
    changed = ycsb.execute(
        "select count(*) from usertable where "
        + " or ".join(f"field{i} not like '00000000%'" for i in range(5))
    )
    assert changed[0][0] > counts["insert"] + 100
    for operation in result.operations.values():
        assert hdr.decode(present(operation.latency_hdr)).total == operation.count


def test_one_field_is_read_and_all_are_written(ycsb):
    """A text for each field; the others are left alone."""
    some = {**MIX, "readallfields": False, "writeallfields": True}
    result = ycsb.run({**some, "requestdistribution": "zipfian"})
    inserted = result.inserted
    assert ycsb.verified(inserted=inserted) == _sound(RECORDS + present(inserted))
    versions = ycsb.execute(
        "select count(*) from usertable where substring(field0, 1, 8) <> substring(field4, 1, 8)"
    )
    assert versions[0][0] == 0, "all fields of a record are of one writing"


def test_scans_of_a_thousand_rows_are_received_whole(ycsb):
    long = {"readproportion": 0, "updateproportion": 0, "scanproportion": 1, "verify_reads": True}
    result = ycsb.run({**long, "minscanlength": 1000, "maxscanlength": 1000}, operations=200)
    assert _by_type(result, "count")["scan"] == 200
    assert present(result.memory_peak_bytes) < 100 * 10**6


def test_changes_by_others_are_found(ycsb):
    first, second, third = (
        key for (key,) in ycsb.execute("select ycsb_key from usertable order by ycsb_key limit 3")
    )
    ycsb.execute(
        f"delete from usertable where ycsb_key = '{first}'",
        f"update usertable set field2 = substring(field2, 1, 39) where ycsb_key = '{second}'",
        f"update usertable set field3 = null where ycsb_key = '{third}'",
    )
    verified = ycsb.verified()
    assert (verified["records"], verified["missing"], verified["malformed"]) == (RECORDS - 1, 1, 2)
    assert second in verified["first"] or third in verified["first"]
    reads = {"readproportion": 1, "updateproportion": 0, "requestdistribution": "sequential"}
    with pytest.raises(RunFailed, match=r"record user\d+: a field"):
        ycsb.run({**reads, "verify_reads": True})
    result = ycsb.run(reads, operations=RECORDS)
    assert _by_type(result, "not_found_count")["read"] == 1


def test_updates_of_what_is_not_there_are_counted(ycsb):
    """An update that finds its record counts, even where it changes nothing in it."""
    ycsb.execute("delete from usertable where ycsb_key like 'user1%'")
    ((left,),) = ycsb.execute("select count(*) from usertable")
    updates = {"readproportion": 0, "updateproportion": 1, "requestdistribution": "sequential"}
    for _ in range(2):
        result = ycsb.run(updates, operations=RECORDS)
        assert _by_type(result, "count")["update"] == RECORDS
        assert _by_type(result, "not_found_count")["update"] == RECORDS - left > 0


def test_a_key_that_is_there_already_ends_the_run(ycsb):
    inserts = {"readproportion": 0, "updateproportion": 0, "insertproportion": 1}
    ycsb.run(inserts, operations=10)
    with pytest.raises(RunFailed, match="insert of terminal"):
        ycsb.run(inserts, operations=10)
