"""YCSB on an engine inside the client: what is loaded, what is left, and what is found of it."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from ycsb_store import (
    ALL_FIVE,
    RECORDS,
    SHAPE,
    VERBS,
    WHOLE,
    Store,
    counts_of,
    execute,
)

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


def test_all_that_was_loaded_is_read_back(store: Store) -> None:
    assert store.verified() == WHOLE


def test_a_part_of_the_records_can_be_loaded(empty: Store) -> None:
    part: dict[str, Any] = {"insertstart": 500, "insertcount": 700}
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


def test_records_that_were_not_stored_fail_the_load(loadgen_build: Path, tmp_path: Path) -> None:
    result = rows_load(
        loadgen_build / "loadgen", {"directory": str(tmp_path), "loses": "usertable"}
    )
    assert result["status"] == "failed"
    assert result["error"] == "load records 0 to 1999: the engine stored 1999 of 2000 rows"


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


@pytest.mark.parametrize(
    "update", ["modify :key :change", "merge :key :change", "put :key :record"]
)
@pytest.mark.parametrize("shape", [{}, {"fieldlength": 1}, {"writeallfields": True}])
def test_every_updated_field_is_found_and_a_lost_one_missed(
    empty: Store, update: str, shape: dict[str, Any]
) -> None:
    """Counted here as well; in a copy from before a part of the run its updates are missing."""
    empty.load(**shape)
    before = empty.records()
    mix = {"readproportion": 0.3, "updateproportion": 0.5, "insertproportion": 0.1}
    mix |= {"readmodifywriteproportion": 0.1, **shape}
    result = empty.run(mix, statements={**VERBS, "update": update}, operations=3000)
    after = empty.records()

    def verification() -> tuple[int, list[bool]]:
        found = empty.verification(**shape, inserted=result["inserted"])
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


def test_planted_errors_are_found(store: Store) -> None:
    """One record is gone, one cut, two are in each other's place, one came from nowhere."""
    records = store.records()
    keys = sorted(records)
    gone, cut, one, other = keys[0], keys[400], keys[900], keys[-1]
    del records[gone]
    records[cut] = records[cut][:-3]
    records[one], records[other] = records[other], records[one]
    records[b"user77"] = records[keys[5]]
    store.keep(records)
    found = store.verified()
    assert found == {
        "records": RECORDS,
        "expected": RECORDS,
        "missing": 1,
        "malformed": 4,
        "unexpected": 1,
        "first": found["first"],
    }
    assert re.match(r"record user\d+: .*|record user\d+ is not there", found["first"])


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
