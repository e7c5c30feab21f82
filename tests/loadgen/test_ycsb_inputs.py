"""YCSB on an engine inside the client: what is asked and counted, and what cannot be."""

import json
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from ycsb_store import (
    ALL_FIVE,
    MS,
    READ_ONLY,
    RECORDS,
    SHAPE,
    VERBS,
    WHOLE,
    S,
    Store,
    counts_of,
    execute,
    job_of,
    pieces_of,
    spec_of,
)

from harness import hdr
from harness.drivers.loadgen.spec import LoadgenResult, merged

# How much of what ----------------------------------------------------------------


def test_the_hottest_keys_are_the_official_ones(loadgen_build):
    """Rank 0 of the scrambled zipfian: the record whose number is its FNV hash modulo all."""
    params = {"recordcount": 1000, "requestdistribution": "zipfian", "insertorder": "ordered"}
    argv = [str(loadgen_build / "ycsb_keys"), json.dumps(params), "80000", "7"]
    keys: Counter[str] = Counter(
        subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    )
    # As the official ScrambledZipfianGenerator draws them most often, of the numbers 0 … 1000.
    assert [key for key, _ in keys.most_common(3)] == ["user144", "user610", "user213"]
    share = keys["user144"] / 80_000
    assert 0.035 < share < 0.042, "1 / 26.469 and what else falls on it"


def test_operations_have_their_proportions(store):
    counts = counts_of(store.run(ALL_FIVE, operations=10_000))
    for name, share in zip(counts, (0.3, 0.3, 0.1, 0.1, 0.2), strict=True):
        assert abs(counts[name] - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5


@pytest.mark.parametrize("threads", [1, 2], ids=["event loop", "in calls"])
def test_a_number_of_operations_is_kept(store, threads):
    result = store.run(READ_ONLY, operations=12_345, threads=threads)
    assert counts_of(result)["read"] == 12_345
    read = result["operations"]["read"]
    assert hdr.decode(read["latency_hdr"]).total == 12_345
    assert sum(second["counts"]["read"] for second in result["series"]) == 12_345


def test_a_time_is_kept_and_the_engine_tells_of_itself(store):
    inserts = {"insertproportion": 1, "readproportion": 0, "updateproportion": 0}
    bounds = {"operations": None, "duration_ns": 3 * S, "ramp_up_ns": 200 * MS}
    result = store.run(inserts, mode={"kind": "open", "rate_per_s": 2000}, **bounds)
    engine = result["engine"]
    assert result["measured_ns"] == 3 * S
    # A reading may come late.
    assert engine["end"]["store_open_ns"] - engine["begin"]["store_open_ns"] >= 1 * S
    stored = engine["end"]["store_records_count"] - engine["begin"]["store_records_count"]
    assert 0 < stored <= result["inserted"]
    assert engine["text"] == {"store_kind": "hash table"}
    assert len(result["threads_cpu_ns"]) == 2
    assert sum(result["threads_cpu_ns"]) <= result["client_cpu_ns"] * 1.1


def test_an_open_loop_keeps_its_rate(store):
    """Starts are offered evenly; each is begun, and none before its time."""
    bounds = {"operations": None, "duration_ns": 1 * S, "ramp_up_ns": 200 * MS}
    result = store.run(READ_ONLY, mode={"kind": "open", "rate_per_s": 500}, **bounds)
    assert result["offered"]["count"] == 500
    read = result["operations"]["read"]
    assert hdr.decode(read["latency_hdr"]).total == 500
    # Behind the window's end come those that were late for it, and one a connection under way.
    assert read["count"] + result["offered"]["backlog_end"] + 2 >= 500
    result = store.run(READ_ONLY, mode={"kind": "open", "rate_per_s": 1000}, operations=300)
    assert (result["offered"]["count"], result["measured_ns"]) == (300, 300 * MS)


def test_stalls_are_seen_by_what_would_have_come(loadgen_build):
    """An engine inside the client that takes longer than the distance between two starts."""
    mode = {"kind": "open", "rate_per_s": 20_000_000}
    offered = {"mode": mode, "duration_ns": 100 * MS, "drain_ns": 0}
    alone = {"backend": "stub", "operations": None, "threads": 1, "connections": 1}
    spec = spec_of({"embedded": True, "retry_every": 2}, READ_ONLY, **offered, **alone)
    _, result = execute(loadgen_build / "loadgen", spec)
    read = result["operations"]["read"]
    assert read["retried_count"] > 0
    assert result["offered"]["count"] == 2_000_000
    assert result["offered"]["backlog_end"] + read["unfinished_count"] > 1000
    assert hdr.decode(read["latency_hdr"]).percentile(99) > 10 * MS


# Several processes ---------------------------------------------------------------


def test_processes_insert_each_key_once(loadgen_build, tmp_path):
    """Their stores are their own here, so that what each has inserted can be counted."""
    inserts = {"readproportion": 0, "updateproportion": 0, "insertproportion": 1}
    seats = {"terminals": 2, "all_terminals": 4, "shared": str(tmp_path / "shared")}
    stores = [Store(loadgen_build / "loadgen", tmp_path / f"store-{n}") for n in range(2)]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(store.run, inserts, first_terminal=2 * n, **seats)
                for n, store in enumerate(stores)]  # fmt: skip
    results = [run.result() for run in runs]
    records_by_store = [store.records() for store in stores]
    assert not records_by_store[0].keys() & records_by_store[1].keys()
    assert len(records_by_store[0]) == len(records_by_store[1]) == 4000
    assert max(result["inserted"] for result in results) == 8000
    for result in results:  # they are not timed here: as if they had run together
        result["clock"], result["started_monotonic_ns"] = results[0]["clock"], 0
    both = merged([msgspec.convert(result, LoadgenResult) for result in results])
    assert (both.inserted, both.inserts_begun) == (8000, 8000)
    assert both.window().operations["insert"].count == 8000


def test_a_merged_series_ends_with_the_longest(store):
    short = store.run(READ_ONLY, operations=100, series_interval_ns=1 * MS)
    long = store.run(READ_ONLY, series_interval_ns=1 * MS)
    none, last = ({"monotonic_ns": 2**62, "counts": {"read": n}} for n in (0, 7))
    long["series"] += [none] * len(short["series"]) + [last]  # whichever was interrupted
    long["clock"], long["started_monotonic_ns"] = short["clock"], short["started_monotonic_ns"]
    series = merged([msgspec.convert(result, LoadgenResult) for result in (short, long)]).series
    assert (series[-1].monotonic_ns, series[-1].counts) == tuple(last.values())
    assert sum(second.counts["read"] for second in series) == 4107


def test_merged_latencies_are_of_the_operations_of_all(store):
    several = [store.run(READ_ONLY, operations=count, series_interval_ns=1 * MS)
               for count in (100, 4000)]  # fmt: skip
    for result in several:
        result["clock"], result["started_monotonic_ns"] = several[0]["clock"], 0
    both = merged([msgspec.convert(result, LoadgenResult) for result in several])
    for point, latencies in zip(both.series, both.latencies, strict=True):
        histograms = {name: hdr.decode(text).total for name, text in latencies.hdr.items()}
        assert histograms == {name: n for name, n in point.counts.items() if n}


# What cannot be run --------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "changes", "key"),
    [
        ({"fieldcount": 3}, {"statements": {**VERBS, "update": "x :field3"}}, "statements.update"),
        ({}, {"statements": {"read": "get :key"}}, "statements.update"),
        ({}, {"statements": {**VERBS, "update": ["a", "b"]}}, "statements.update"),
        ({}, {"statements": {**VERBS, "read": "get :record"}}, "statements.read"),
        (
            {"writeallfields": True},
            {"statements": {**VERBS, "update": "x :value"}},
            "statements.update",
        ),
        ({"insertproportion": 1}, {"all_terminals": 9}, "shared"),
        ({"recordcount": 0}, {}, "workload.params.recordcount"),
    ],
)
def test_what_cannot_be_run_is_refused_by_key(store, params, changes, key):
    assert store.failed(params, **changes).startswith(f"{key}: ")


# What it costs -------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["zipfian", "latest", "uniform"])
def test_memory_does_not_grow_with_the_records(released_loadgen, distribution):
    """A billion records against a thousand: the same to a megabyte (sanitizers would count)."""
    peaks = []
    for records in (1000, 1_000_000_000):
        mix = {**READ_ONLY, "requestdistribution": distribution, "recordcount": records}
        spec = spec_of({"embedded": True}, mix, backend="stub", operations=400_000)
        status, result = execute(released_loadgen, spec)
        assert status == 0
        peaks.append(result["memory_peak_bytes"])
    assert peaks[1] < peaks[0] + 10**6


# What is loaded, what is left, and what is found of it -------------------------

# What is there -------------------------------------------------------------------


def test_records_are_what_the_official_binding_would_write(store):
    """Length and bytes of name and value, big-endian, field by field; keys of the official core."""
    fields = pieces_of(store.records()[b"user6284781860667377211"])
    assert fields[::2] == [b"field0", b"field1", b"field2", b"field3"]
    assert all(re.fullmatch(rb"0{8}[0-p]{12}", value) for value in fields[1::2])
    assert len(set(fields[1::2])) == 4


def test_all_that_was_loaded_is_read_back(store):
    assert store.verified() == WHOLE


def test_a_part_of_the_records_can_be_loaded(empty):
    part: dict[str, Any] = {"insertstart": 500, "insertcount": 700}
    assert empty.load(**part)["rows"] == {"usertable": 700}
    assert empty.verified(**part) == {**WHOLE, "records": 700, "expected": 700}
    assert empty.verified()["missing"] == RECORDS - 700


def test_the_same_seed_loads_the_same_whatever_the_threads(empty):
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
def test_what_five_operations_leave_is_read_back(store, update, request_distribution):
    """All reads on the way are checked, too."""
    mix = {**ALL_FIVE, "requestdistribution": request_distribution, "verify_reads": True}
    result = store.run({**mix, "operationcount": 4000}, statements={**VERBS, "update": update})
    counts, inserted = counts_of(result), result["inserted"]
    assert sum(counts.values()) == 4000
    assert all(counts.values())
    assert sum(counts_of(result, "not_found_count").values()) == 0
    assert inserted == result["inserts_begun"] == counts["insert"]
    verified = store.verified(inserted=inserted)
    assert verified == {**WHOLE, "records": RECORDS + inserted, "expected": RECORDS + inserted}
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
def test_records_of_every_shape_hold(empty, shape):
    empty.load(**shape)
    result = empty.run({**ALL_FIVE, **shape, "verify_reads": True}, operations=2000)
    assert empty.verified(**shape, inserted=result["inserted"])["first"] is None
    assert empty.verified(**shape, inserted=result["inserted"])["missing"] == 0


def test_inserts_without_an_answer_may_be_there_or_not(store):
    """Acknowledged records must be there; later ones that were only begun may be."""
    inserts = {"readproportion": 0, "updateproportion": 0, "insertproportion": 1}
    assert store.run(inserts, operations=10)["inserted"] == 10
    assert store.verified(inserted=8, inserts_begun=15)["unexpected"] == 0
    assert store.verified(inserted=8, inserts_begun=15)["missing"] == 0
    assert store.verified(inserted=8)["unexpected"] == 2
    assert store.verified(inserted=12)["missing"] == 2


def test_records_that_were_not_stored_fail_the_load(loadgen_build, tmp_path):
    """Rows as text, as servers take them."""
    connection = {"directory": str(tmp_path), "loses": "usertable"}
    spec = job_of("ycsb", connection, SHAPE, task="load", backend="record", threads=3)
    _, result = execute(loadgen_build / "loadgen", spec)
    assert result["status"] == "failed"
    assert result["error"] == "load records 0 to 1999: the engine stored 1999 of 2000 rows"


def last_updated(records: dict[bytes, bytes]) -> int:
    """Fields whose version is even and not that of what was loaded, by its last digit."""
    versions = (value[:8] for record in records.values() for value in pieces_of(record)[1::2])
    return sum(version[-1:] != b"0" and (version[-1] - ord("0")) % 2 == 0 for version in versions)


@pytest.mark.parametrize(
    "update", ["modify :key :change", "merge :key :change", "put :key :record"]
)
@pytest.mark.parametrize("shape", [{}, {"fieldlength": 1}, {"writeallfields": True}])
def test_every_updated_field_is_found_and_a_lost_one_missed(empty, update, shape):
    """Counted here as well; in a copy from before a part of the run its updates are missing."""
    empty.load(**shape)
    before = empty.records()
    mix = {"readproportion": 0.3, "updateproportion": 0.5, "insertproportion": 0.1}
    mix |= {"readmodifywriteproportion": 0.1, **shape}
    result = empty.run(mix, statements={**VERBS, "update": update}, operations=3000)
    after = empty.records()

    def verification() -> tuple[int, list[bool]]:
        counts = empty.verification(**shape, inserted=result["inserted"])
        assert (counts["missing"], counts["malformed"]) == (0, 0)
        assert len(counts["updated"]) == 2048
        pairs = zip(counts["updated"], result["updated"], strict=True)
        return counts["changed"], [seen < acknowledged for seen, acknowledged in pairs]

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


def test_planted_errors_are_found(store):
    """One record is gone, one cut, two are in each other's place, one came from nowhere."""
    records = store.records()
    keys = sorted(records)
    gone, cut, swapped, other = keys[0], keys[400], keys[900], keys[-1]
    del records[gone]
    records[cut] = records[cut][:-3]
    records[swapped], records[other] = records[other], records[swapped]
    records[b"user77"] = records[keys[5]]
    store.keep(records)
    counts = store.verified()
    wrong = {"missing": 1, "malformed": 4, "unexpected": 1, "first": counts["first"]}
    assert counts == WHOLE | wrong
    assert re.match(r"record user\d+: .*|record user\d+ is not there", counts["first"])


@pytest.mark.parametrize(
    "operation", ["readproportion", "scanproportion", "readmodifywriteproportion"]
)
def test_a_read_of_what_nobody_wrote_ends_the_run(store, operation):
    store.keep({key: record[:-1] + b"~" for key, record in store.records().items()})
    mix = {"readproportion": 0, "updateproportion": 0, operation: 1}
    error = store.failed({**mix, "verify_reads": True})
    assert re.search(r"record user\d+: a field .* not as", error)
    assert sum(counts_of(store.run(mix)).values()) == 4000


def test_what_is_not_found_is_counted(store):
    records = store.records()
    store.keep(dict(sorted(records.items())[: RECORDS // 2]))
    mix = {"readproportion": 0.4, "updateproportion": 0.3, "readmodifywriteproportion": 0.3}
    result = store.run({**mix, "requestdistribution": "sequential"}, threads=1, connections=1)
    missing = counts_of(result, "not_found_count")
    assert sum(missing.values()) == 2000
    assert all(missing[name] for name in ("read", "update", "read_modify_write"))
