"""YCSB on an engine inside the client: what is asked, counted, verified, and found out."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import hdr, schemas
from harness.loadgen import merged
from harness.natives import loadgen_program

MS, S = 10**6, 10**9
RECORDS = 2000
SHAPE = {"recordcount": RECORDS, "fieldcount": 4, "fieldlength": 20, "data_seed": 7}
VERBS = {
    "read": "get :key",
    "update": "modify :key :change",
    "insert": "put :key :record",
    "scan": "scan :key :length",
}
ALL_FIVE = {
    "readproportion": 0.3,
    "updateproportion": 0.3,
    "insertproportion": 0.1,
    "scanproportion": 0.1,
    "readmodifywriteproportion": 0.2,
    "maxscanlength": 20,
}
READ_ONLY = {"readproportion": 1, "updateproportion": 0}

Run = Callable[..., dict[str, Any]]


def spec_of(connection: dict[str, Any], params: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "backend": "store",
        "connection": connection,
        "workload": {"name": "ycsb", "params": {**SHAPE, **params}},
        "statements": VERBS,
        "threads": 2,
        "connections": 2,
        "mode": {"kind": "closed"},
        "ramp_up_ns": 0,
        "operations": 4000,
        "seed": 1,
        **changes,
    }


def execute(program: Path, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    schemas.validate(spec, "loadgen-spec", "the test's spec")
    done = subprocess.run(
        [program, "-"], input=json.dumps(spec), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


class Store:
    """The store's file and the client on it."""

    def __init__(self, program: Path, file: Path) -> None:
        self.program, self.file = program, file

    def connection(self) -> dict[str, Any]:
        return {"file": str(self.file)}

    def run(self, params: dict[str, Any], **changes: Any) -> dict[str, Any]:
        status, result = execute(self.program, spec_of(self.connection(), params, **changes))
        assert (status, result["status"]) == (0, "complete"), result
        schemas.validate(result, "loadgen-result", "the result")
        return result

    def failed(self, params: dict[str, Any], **changes: Any) -> str:
        status, result = execute(self.program, spec_of(self.connection(), params, **changes))
        assert (status, result["status"]) == (1, "failed")
        return str(result["error"])

    def load(self, **params: Any) -> dict[str, Any]:
        return self._job("load", params, {})

    def verified(self, statements: dict[str, str] = VERBS, **params: Any) -> dict[str, Any]:
        """What was found of the records, without what was found of updates."""
        found = self.verification(statements, **params)
        return {name: found[name] for name in WHOLE}

    def verification(self, statements: dict[str, str] = VERBS, **params: Any) -> dict[str, Any]:
        found = self._job("verify", params, {"statements": statements})["verified"]
        assert isinstance(found, dict)
        return found

    def _job(self, task: str, params: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        spec = {
            "schema": 1,
            "task": task,
            "backend": "store",
            "connection": self.connection(),
            "workload": {"name": "ycsb", "params": {**SHAPE, **params}},
            "threads": 2,
            **more,
        }
        status, result = execute(self.program, spec)
        assert (status, result["error"]) == (0, None)
        schemas.validate(result, "loadgen-result", "the result")
        return result

    def records(self) -> dict[bytes, bytes]:
        pieces, rest = [], self.file.read_bytes()
        while rest:
            (length,) = struct.unpack(">I", rest[:4])
            pieces.append(rest[4 : 4 + length])
            rest = rest[4 + length :]
        return dict(zip(pieces[::2], pieces[1::2], strict=True))

    def keep(self, records: dict[bytes, bytes]) -> None:
        pieces = (piece for pair in records.items() for piece in pair)
        self.file.write_bytes(b"".join(struct.pack(">I", len(p)) + p for p in pieces))


@pytest.fixture
def empty(loadgen_build: Path, tmp_path: Path) -> Store:
    return Store(loadgen_build / "loadgen", tmp_path / "store")


@pytest.fixture
def store(empty: Store) -> Store:
    assert empty.load()["rows"] == {"usertable": RECORDS}
    return empty


def counts_of(result: dict[str, Any], what: str = "count") -> dict[str, int]:
    return {one["type"]: one[what] for one in result["operations"]}


WHOLE = {
    "records": RECORDS, "expected": RECORDS, "missing": 0, "malformed": 0, "unexpected": 0,
    "first": None,
}  # fmt: skip


# What is there -------------------------------------------------------------------


def test_records_are_what_the_official_binding_would_write(store: Store) -> None:
    """Length and bytes of name and value, big-endian, field by field; keys of the official core."""
    record = store.records()[b"user6284781860667377211"]
    fields = []
    while record:
        (length,) = struct.unpack(">I", record[:4])
        fields.append(record[4 : 4 + length])
        record = record[4 + length :]
    assert fields[::2] == [b"field0", b"field1", b"field2", b"field3"]
    assert all(re.fullmatch(rb"0{8}[0-p]{12}", value) for value in fields[1::2])
    assert len(set(fields[1::2])) == 4


@pytest.mark.parametrize("statements", [VERBS, {"read": VERBS["read"]}], ids=["scan", "by key"])
def test_all_that_was_loaded_is_read_back(store: Store, statements: dict[str, str]) -> None:
    assert store.verified(statements) == WHOLE


def test_a_part_of_the_records_can_be_loaded(empty: Store) -> None:
    part = {"insertstart": 500, "insertcount": 700}
    assert empty.load(**part)["rows"] == {"usertable": 700}
    assert empty.verified(**part) == {**WHOLE, "records": 700, "expected": 700}
    assert empty.verified()["missing"] == RECORDS - 700


def test_the_same_seed_loads_the_same_whatever_the_threads(empty: Store) -> None:
    empty.load()
    first = empty.records()
    empty.file.unlink()
    empty.load(data_seed=8)
    assert empty.records().keys() == first.keys()
    assert not set(empty.records().values()) & set(first.values())


@pytest.mark.parametrize(
    "update", ["modify :key :change", "merge :key :change", "put :key :record"]
)
@pytest.mark.parametrize("request_distribution", ["zipfian", "latest", "uniform"])
def test_what_five_operations_leave_is_read_back(
    store: Store, update: str, request_distribution: str
) -> None:
    """Every read on the way is checked, too."""
    mix = {**ALL_FIVE, "requestdistribution": request_distribution, "verify_reads": True}
    result = store.run({**mix, "operationcount": 4000}, statements={**VERBS, "update": update})
    counts, inserted = counts_of(result), result["inserted"]
    assert sum(counts.values()) == 4000
    assert all(counts.values())
    assert sum(counts_of(result, "not_found").values()) == 0
    assert inserted == result["inserts_begun"] == counts["insert"]
    found = store.verified(inserted=inserted)
    assert found == {**WHOLE, "records": RECORDS + inserted, "expected": RECORDS + inserted}
    changed = [r for r in store.records().values() if b"00000000" not in r[:30]]
    assert len(changed) > 100


@pytest.mark.parametrize(
    "shape",
    [
        {"fieldlength": 1, "fieldcount": 1},
        {"fieldlength": 9, "fieldcount": 64},
        {"fieldlengthdistribution": "uniform", "fieldlength": 300},
        {"fieldlengthdistribution": "zipfian", "fieldlength": 50, "minfieldlength": 10},
        {"insertorder": "ordered", "zeropadding": 12},
        {"writeallfields": True, "readallfields": False},
    ],
)
def test_records_of_every_shape_hold(empty: Store, shape: dict[str, Any]) -> None:
    empty.load(**shape)
    result = empty.run({**ALL_FIVE, **shape, "verify_reads": True}, operations=2000)
    assert empty.verified(**shape, inserted=result["inserted"])["first"] is None
    assert empty.verified(**shape, inserted=result["inserted"])["missing"] == 0


def test_inserts_without_an_answer_may_be_there_or_not(store: Store) -> None:
    """Those that were acknowledged must be; what was begun behind them is no finding."""
    inserts = {"readproportion": 0, "updateproportion": 0, "insertproportion": 1}
    assert store.run(inserts, operations=10)["inserted"] == 10
    assert store.verified(inserted=8, inserts_begun=15)["unexpected"] == 0
    assert store.verified(inserted=8, inserts_begun=15)["missing"] == 0
    assert store.verified(inserted=8)["unexpected"] == 2
    assert store.verified(inserted=12)["missing"] == 2


def rows_load(program: Path, connection: dict[str, Any], **params: Any) -> dict[str, Any]:
    """A load of rows as text, as servers take them."""
    spec = {
        "schema": 1,
        "task": "load",
        "backend": "record",
        "connection": connection,
        "workload": {"name": "ycsb", "params": {**SHAPE, **params}},
        "threads": 3,
    }
    return execute(program, spec)[1]


def test_servers_get_rows_of_text(loadgen_build: Path, tmp_path: Path, store: Store) -> None:
    """The very values that a key-value engine gets; packages end where the next one begins."""
    # 33 records of a megabyte are more than a package.
    large = {"fieldcount": 1, "fieldlength": 1_000_000, "recordcount": 70}
    for name, params in (("small", {}), ("large", large)):
        (tmp_path / name).mkdir()
        told = rows_load(loadgen_build / "loadgen", {"directory": str(tmp_path / name)}, **params)[
            "rows"
        ]
        records = params.get("recordcount", RECORDS)
        assert told == {"usertable": records}
        files = sorted((tmp_path / name).glob("usertable.*.rows"))
        assert len(files) == (1 if name == "small" else 3)
        fields = params.get("fieldcount", 4)
        columns = ", ".join(["ycsb_key", *(f"field{i}" for i in range(fields))])
        rows = []
        for file in files:
            first, *lines = file.read_text().splitlines()
            assert first == columns
            rows += [line.split("\t") for line in lines]
        assert len({row[0] for row in rows}) == len(rows) == records
        if name == "small":
            kept = store.records()
            assert all(value.encode() in kept[row[0].encode()] for row in rows for value in row[1:])


def test_records_that_were_not_stored_fail_the_load(loadgen_build: Path, tmp_path: Path) -> None:
    result = rows_load(
        loadgen_build / "loadgen", {"directory": str(tmp_path), "loses": "usertable"}
    )
    assert result["status"] == "failed"
    assert result["error"] == "load records 0 to 1999: 2000 were sent, the engine stored 1999"


def values_of(record: bytes) -> list[bytes]:
    pieces = []
    while record:
        (length,) = struct.unpack(">I", record[:4])
        pieces.append(record[4 : 4 + length])
        record = record[4 + length :]
    return pieces[1::2]


def last_updated(records: dict[bytes, bytes]) -> int:
    """Fields whose version is even and not that of what was loaded, by its last digit."""
    versions = (value[:8] for record in records.values() for value in values_of(record))
    return sum(version[-1:] != b"0" and (version[-1] - ord("0")) % 2 == 0 for version in versions)


@pytest.mark.parametrize("statements", [VERBS, {"read": VERBS["read"]}], ids=["scan", "by key"])
@pytest.mark.parametrize(
    "update", ["modify :key :change", "merge :key :change", "put :key :record"]
)
@pytest.mark.parametrize("shape", [{}, {"fieldlength": 1}, {"writeallfields": True}])
def test_every_updated_field_is_found_and_a_lost_one_missed(
    empty: Store, update: str, shape: dict[str, Any], statements: dict[str, str]
) -> None:
    """Counted here as well; in a copy from before a part of the run its updates are missing."""
    empty.load(**shape)
    before = empty.records()
    mix = {"readproportion": 0.3, "updateproportion": 0.5, "insertproportion": 0.1}
    mix |= {"readmodifywriteproportion": 0.1, **shape}
    result = empty.run(mix, statements={**VERBS, "update": update}, operations=3000)
    after = empty.records()

    def verification() -> tuple[int, list[bool]]:
        found = empty.verification(statements, **shape, inserted=result["inserted"])
        assert (found["missing"], found["malformed"]) == (0, 0)
        assert len(found["updated"]) == 2048
        pairs = zip(found["updated"], result["updated"], strict=True)
        return found["changed"], [seen < acknowledged for seen, acknowledged in pairs]

    changed, lower = verification()
    assert changed == last_updated(after) > 1000
    assert not any(lower)
    for every in (1, 10):  # all are lost; those of each tenth record are
        spoiled = dict(after)
        spoiled.update({key: before[key] for key in list(before)[::every]})
        empty.keep(spoiled)
        changed, lower = verification()
        assert changed == last_updated(spoiled)
        assert any(lower)


# What is wrong -------------------------------------------------------------------


@pytest.mark.parametrize("statements", [VERBS, {"read": VERBS["read"]}], ids=["scan", "by key"])
def test_planted_errors_are_found(store: Store, statements: dict[str, str]) -> None:
    """One record is gone, one cut, two are in each other's place, one came from nowhere."""
    records = store.records()
    keys = sorted(records)
    gone, cut, one, other = keys[0], keys[400], keys[900], keys[-1]
    del records[gone]
    records[cut] = records[cut][:-3]
    records[one], records[other] = records[other], records[one]
    scans = "scan" in statements
    if scans:
        records[b"user77"] = records[keys[5]]
    store.keep(records)
    found = store.verified(statements)
    assert found == {
        "records": RECORDS - 1 + scans,
        "expected": RECORDS,
        "missing": 1,
        "malformed": 3 + scans,
        "unexpected": int(scans),
        "first": found["first"],
    }
    assert re.match(r"record user\d+: .*|record user\d+ is not there", found["first"])


def test_a_single_record_that_is_missing_is_named(store: Store) -> None:
    records = store.records()
    gone = sorted(records)[1234]
    del records[gone]
    store.keep(records)
    found = store.verified()
    assert found["missing"] == 1
    assert found["first"] == f"record {gone.decode()} is not there"


def test_one_record_for_another_is_told_though_the_number_is_right(store: Store) -> None:
    records = store.records()
    records[b"user5"] = records.pop(sorted(records)[3])
    store.keep(records)
    found = store.verified()
    assert (found["records"], found["missing"], found["unexpected"]) == (RECORDS, 1, 1)


@pytest.mark.parametrize(
    "operation", ["readproportion", "scanproportion", "readmodifywriteproportion"]
)
def test_a_read_of_what_nobody_wrote_ends_the_run(store: Store, operation: str) -> None:
    store.keep({key: record[:-1] + b"~" for key, record in store.records().items()})
    mix = {"readproportion": 0, "updateproportion": 0, operation: 1}
    error = store.failed({**mix, "verify_reads": True})
    assert re.search(r"record user\d+: a field of it is not as it was ever written", error)
    assert sum(counts_of(store.run(mix)).values()) == 4000, "nobody has asked to look at them"


def test_what_is_not_found_is_counted(store: Store) -> None:
    records = store.records()
    store.keep(dict(sorted(records.items())[: RECORDS // 2]))
    mix = {"readproportion": 0.4, "updateproportion": 0.3, "readmodifywriteproportion": 0.3}
    result = store.run({**mix, "requestdistribution": "sequential"}, threads=1, connections=1)
    missing = counts_of(result, "not_found")
    assert sum(missing.values()) == 2000, "each record was asked for twice"
    assert all(missing[name] for name in ("read", "update", "read_modify_write"))


# How much of what ----------------------------------------------------------------


def test_the_hottest_keys_are_counted_and_are_the_official_ones(store: Store) -> None:
    """Rank 0 of the scrambled zipfian: the record whose number is its FNV hash modulo all."""
    mix = {**READ_ONLY, "requestdistribution": "zipfian", "count_keys": 10, "recordcount": 1000}
    result = store.run(mix, operations=80_000)
    keys = result["key_counts"]
    # As the official ScrambledZipfianGenerator draws them most often, of the numbers 0 … 1000.
    assert [one["number"] for one in keys[:5]] == [144, 610, 213, 679, 10]
    assert result["draws"] == 80_000
    assert all(a["count"] >= b["count"] for a, b in pairwise(keys))
    assert keys[0]["key"].startswith("user")
    share = keys[0]["count"] / 80_000
    assert 0.035 < share < 0.042, "1 / 26.469 and what else falls on it"


@pytest.mark.parametrize("distribution", ["latest", "exponential"])
def test_what_is_counted_from_the_newest_record_is_told_so(store: Store, distribution: str) -> None:
    mix = {"readproportion": 0.5, "updateproportion": 0, "insertproportion": 0.5}
    result = store.run({**mix, "requestdistribution": distribution, "count_keys": 5})
    assert result["inserted"] > 1000
    assert all(one.keys() == {"behind_newest", "count"} for one in result["key_counts"])
    if distribution == "latest":
        assert result["key_counts"][0]["behind_newest"] == 0
    both = merged([result, result])
    assert both["key_counts"] == [
        {**one, "count": 2 * one["count"]} for one in result["key_counts"]
    ]


def test_what_is_asked_does_not_depend_on_the_threads(store: Store) -> None:
    mix = {**READ_ONLY, "requestdistribution": "zipfian", "count_keys": 2000}
    drawn = [
        {
            one["number"]: one["count"]
            for one in store.run(mix, threads=threads, connections=4, operations=4000)["key_counts"]
        }
        for threads in (2, 2)
    ]
    assert sum(drawn[0].values()) == sum(drawn[1].values()) == 4000


def test_operations_have_their_proportions(store: Store) -> None:
    counts = counts_of(store.run(ALL_FIVE, operations=10_000))
    for name, share in zip(counts, (0.3, 0.3, 0.1, 0.1, 0.2), strict=True):
        assert abs(counts[name] - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5


@pytest.mark.parametrize("threads", [1, 2], ids=["event loop", "in calls"])
def test_a_number_of_operations_is_kept(store: Store, threads: int) -> None:
    result = store.run(READ_ONLY, operations=12_345, threads=threads)
    assert counts_of(result)["read"] == 12_345
    (read,) = (one for one in result["operations"] if one["type"] == "read")
    assert hdr.decode(read["latency_hdr"]).total == 12_345
    assert sum(one["counts"]["read"] for one in result["series"]) == 12_345


def test_a_time_is_kept_and_the_engine_tells_of_itself(store: Store) -> None:
    bounds = {"operations": None, "duration_ns": 500 * MS, "ramp_up_ns": 200 * MS}
    result = store.run(
        {"insertproportion": 1, "readproportion": 0, "updateproportion": 0}, **bounds
    )
    engine = result["engine"]
    assert result["measured_ns"] == 500 * MS
    window_ns = engine["end"]["store_open_ns"] - engine["begin"]["store_open_ns"]
    assert window_ns >= 450 * MS
    stored = engine["end"]["store_records_count"] - engine["begin"]["store_records_count"]
    assert 0 < stored <= result["inserted"]
    assert engine["text"] == {"store_kind": "hash table"}
    assert len(result["threads_cpu_ns"]) == 2
    assert sum(result["threads_cpu_ns"]) <= result["client_cpu_ns"] * 1.1


def test_an_open_loop_keeps_its_rate(store: Store) -> None:
    """Starts are offered evenly; each is begun, and none before its time."""
    bounds = {"operations": None, "duration_ns": 1 * S, "ramp_up_ns": 200 * MS}
    result = store.run(READ_ONLY, mode={"kind": "open", "rate_per_s": 500}, **bounds)
    assert result["offered"]["count"] == 500
    (read,) = (one for one in result["operations"] if one["type"] == "read")
    assert hdr.decode(read["latency_hdr"]).total == 500
    assert read["count"] + read["unfinished"] >= 490


def test_a_number_of_operations_at_a_rate_ends_when_all_were_offered(store: Store) -> None:
    result = store.run(READ_ONLY, mode={"kind": "open", "rate_per_s": 1000}, operations=300)
    assert result["offered"]["count"] == 300
    assert result["measured_ns"] == 300 * MS


def test_stalls_are_seen_by_what_would_have_come(loadgen_build: Path) -> None:
    """An engine inside the client that takes longer than the distance between two starts."""
    spec = spec_of(
        {"embedded": True, "retry_every": 2},
        READ_ONLY,
        backend="stub",
        mode={"kind": "open", "rate_per_s": 200_000},
        operations=None,
        duration_ns=500 * MS,
        threads=1,
        connections=1,
    )
    _, result = execute(loadgen_build / "loadgen", spec)
    (read,) = (one for one in result["operations"] if one["type"] == "read")
    assert read["retried"] > 0
    assert result["offered"]["count"] == 100_000
    assert result["offered"]["backlog_end"] + read["unfinished"] > 1000
    assert hdr.decode(read["latency_hdr"]).percentile(99) > 10 * MS


def test_an_engine_that_hangs_in_a_call_is_noticed(loadgen_build: Path) -> None:
    spec = spec_of({"hang_connecting": True}, READ_ONLY, backend="stub", stall_timeout_ns=300 * MS)
    status, result = execute(loadgen_build / "loadgen", spec)
    assert status == 1
    assert "let no connection in" in result["error"]


# Several processes ---------------------------------------------------------------


def test_processes_insert_each_key_once(loadgen_build: Path, tmp_path: Path) -> None:
    """Their stores are their own here, so that what each has inserted can be counted."""
    inserts = {"readproportion": 0, "updateproportion": 0, "insertproportion": 1}
    running = []
    for number in range(2):
        spec = spec_of(
            {"file": str(tmp_path / f"store-{number}")},
            {**inserts, "count_keys": 3},
            terminals=2,
            first_terminal=2 * number,
            all_terminals=4,
            shared=str(tmp_path / "shared"),
        )
        process = subprocess.Popen(
            [loadgen_build / "loadgen", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append((process, spec))
    for process, spec in running:
        assert process.stdin
        process.stdin.write(json.dumps(spec))
        process.stdin.close()
        process.stdin = None
    results = [json.loads(process.communicate()[0]) for process, _ in running]
    stores = [Store(loadgen_build / "loadgen", tmp_path / f"store-{n}").records() for n in range(2)]
    assert not stores[0].keys() & stores[1].keys()
    assert len(stores[0]) == len(stores[1]) == 4000
    assert max(result["inserted"] for result in results) == 8000
    for result in results:  # they are not timed here: as if they had run together
        result["clock"], result["started_monotonic_ns"] = results[0]["clock"], 0
    both = merged(results)
    schemas.validate(both, "loadgen-result", "both")
    assert (both["inserted"], both["inserts_begun"]) == (8000, 8000)
    assert counts_of(both)["insert"] == 8000


def test_a_merged_series_ends_with_the_longest(store: Store) -> None:
    short = store.run(READ_ONLY, operations=100, series_interval_ns=1 * MS)
    long = store.run(READ_ONLY, series_interval_ns=1 * MS)
    long["series"] += [{"monotonic_ns": 2**62, "counts": {"read": 7}}]
    long["clock"], long["started_monotonic_ns"] = short["clock"], short["started_monotonic_ns"]
    series = merged([short, long])["series"]
    assert series[-1] == long["series"][-1]
    assert sum(one["counts"]["read"] for one in series) == 4107


def test_counts_of_keys_are_added_up(store: Store) -> None:
    mix = {**READ_ONLY, "requestdistribution": "zipfian", "count_keys": 5}
    one, other = store.run(mix), store.run(mix, seed=2)
    other["clock"], other["started_monotonic_ns"] = one["clock"], one["started_monotonic_ns"]
    both = merged([one, other])
    assert both["draws"] == one["draws"] + other["draws"]
    total: Counter[int] = Counter()
    for result in (one, other):
        total.update({key["number"]: key["count"] for key in result["key_counts"]})
    assert [key["count"] for key in both["key_counts"]] == [n for _, n in total.most_common(5)]


# What cannot be run --------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "changes", "told"),
    [
        ({"fieldcount": 3}, {"statements": {**VERBS, "update": "x :field3"}}, "is no :field3"),
        ({}, {"statements": {"read": "get :key"}}, "statements.update: is missing"),
        ({}, {"statements": {**VERBS, "update": ["a", "b"]}}, "2 texts are given, 4 wanted"),
        ({}, {"statements": {**VERBS, "read": "get :record"}}, "offers no :record"),
        ({"writeallfields": True}, {"statements": {**VERBS, "update": "x :value"}}, "one :value"),
        ({"insertproportion": 1}, {"all_terminals": 9}, "need a file in common"),
        ({"recordcount": 0}, {}, "workload.params.recordcount: an integer from 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told_beforehand(
    store: Store, params: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    assert told in store.failed(params, **changes)


def test_an_operation_that_is_never_asked_needs_no_statement(store: Store) -> None:
    assert counts_of(store.run(READ_ONLY, statements={"read": "get :key"}))["read"] == 4000


# What it costs -------------------------------------------------------------------


def installed(backend: str, spec: dict[str, Any]) -> dict[str, Any]:
    """By the program as it is installed: the sanitizers would count with it."""
    status, result = execute(loadgen_program(backend), spec)
    assert status == 0
    return result


@pytest.mark.parametrize("distribution", ["zipfian", "latest", "uniform"])
def test_memory_does_not_grow_with_the_records(distribution: str) -> None:
    """A billion records against a thousand: the same to a megabyte."""
    peaks = []
    for records in (1000, 1_000_000_000):
        mix = {**READ_ONLY, "requestdistribution": distribution, "recordcount": records}
        spec = spec_of({"embedded": True}, {**mix, "count_keys": 1000}, backend="stub")
        peaks.append(installed("stub", {**spec, "operations": 400_000})["memory_peak_bytes"])
    # Tables of counted keys are full in one case and not in the other: 2 MB a thread at most.
    assert peaks[1] < peaks[0] + 6 * 10**6


def test_the_client_is_little_beside_an_engine_s_call() -> None:
    """Keys and counting included: a microsecond of processor time, on whatever machine."""
    mix = {**READ_ONLY, "requestdistribution": "zipfian", "recordcount": 1_000_000}
    spec = spec_of({"embedded": True}, mix, backend="stub", threads=1, connections=1)
    costs = []
    for _ in range(3):
        result = installed("stub", {**spec, "operations": 1_000_000})
        costs.append(result["client_cpu_ns"] / 1_000_000)
    bare = installed(
        "stub",
        {
            **spec,
            "workload": {"name": "ping", "params": {}},
            "statements": {"ping": "x"},
            "operations": 1_000_000,
        },
    )
    # Measured: 0.1 µs for the loop, 0.1 µs for a key; as shares, so that no machine decides.
    assert min(costs) < 6 * bare["client_cpu_ns"] / 1_000_000
