"""Results of a run's checks, of correct and of wrong data; warnings of a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from figures import figures_of
from idle_engine import IdleEngine
from lab import execute
from msgspec import structs
from narrowed import present

from harness.drivers.loadgen.spec import Verified
from harness.drivers.result import DriverResult, Operation
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.store.result import Check, run_status
from harness.workload import Outcome, Session
from harness.workloads.window import window_metrics
from harness.workloads.ycsb.params import PROPORTIONS, YcsbParams
from harness.workloads.ycsb.workload import (
    DRIVERS,
    NOUNS,
    WORKLOAD,
    YcsbLoadgen,
    check_found,
    check_records,
)

PARAMS = YcsbParams.from_mapping({
    "records": 2000, "fieldcount": 3, "fieldlength": 20, "threads": 2,
    "operations": 2000, "ramp_up": 0, "readproportion": 0.4, "updateproportion": 0.2,
    "insertproportion": 0.2, "scanproportion": 0.1, "readmodifywriteproportion": 0.1,
    "maxscanlength": 20, "requestdistribution": "zipfian", "verify_reads": True,
})  # fmt: skip
READING = YcsbParams.from_mapping({
    **PARAMS.to_json(), **dict.fromkeys(PROPORTIONS, 0), "readproportion": 1, "operations": 500,
    "verify_reads": False,
})  # fmt: skip


@pytest.fixture(scope="module", params=["postgres", "rocksdb"])
def loaded(request, running):
    """PostgreSQL, then RocksDB, each with two thousand records."""
    with running(request.param, WORKLOAD, PARAMS) as session:
        yield session


def verified(session: Session, inserted: int = 0, **params):
    """The check of records, as another run of these parameters would find it."""
    driven = DriverResult("loadgen", "1", 1, inserted_count=inserted)
    (check,) = YcsbLoadgen(replace(PARAMS, **params)).verify(session, driven)
    assert check.name == "records"
    return check


def test_loaded_records_are_there_and_others_are_missed(loaded):
    assert verified(loaded).status == "passed"
    more = verified(loaded, records=2001)
    assert (more.status, "1 missing" in more.detail) == ("failed", True)
    fewer = verified(loaded, records=1999)
    assert (fewer.status, "1 unexpected" in fewer.detail) == ("failed", True)


def test_values_of_another_seed_are_malformed(loaded):
    check = verified(loaded, data_seed=2)
    assert check.status == "failed"
    assert "2,000 malformed" in check.detail


def test_a_read_that_is_not_as_it_was_written_ends_the_run(loaded):
    with pytest.raises(RunFailed, match="user"):
        spoiled = replace(READING, data_seed=2, verify_reads=True)
        WORKLOAD.measure(spoiled, loaded)


def test_an_acknowledged_insert_that_is_not_there_is_missed(loaded):
    check = verified(loaded, inserted=3)
    assert check.status == "failed"
    assert "3 missing" in check.detail


def test_a_run_of_all_operations_passes_its_checks_and_leaves_every_insert(loaded):
    """The last on these data, since it changes them."""
    outcome = WORKLOAD.measure(PARAMS, loaded)
    assert run_status(outcome.checks) == "complete", outcome.checks
    assert [check.name for check in outcome.checks] == ["records", "mix", "not_found"]
    counts = {
        m.labels["operation"]: int(present(m.value))
        for m in outcome.metrics
        if m.name == "operation_count"
    }
    assert sum(counts.values()) == 2000
    assert all(counts[name] for name in ("read", "update", "insert", "scan", "read_modify_write"))
    inserted = counts["insert"]
    assert verified(loaded, inserted=inserted).status == "passed"
    assert "unexpected" in verified(loaded, inserted=inserted - 1).detail


#: What somebody does to a record under way, and what is told of it.
SPOILED = {
    "malformed": "UPDATE usertable SET field1 = 'spoiled' WHERE ycsb_key = {key}",
    "missing": "DELETE FROM usertable WHERE ycsb_key = {key}",
    "unexpected": "INSERT INTO usertable SELECT 'user1', field0, field1, field2 FROM usertable "
    "WHERE ycsb_key = {key}",
}


KEPT = ("CREATE TABLE kept AS SELECT * FROM usertable WHERE ycsb_key = {key}",)
UNDONE = (
    "DELETE FROM usertable WHERE ycsb_key IN (SELECT ycsb_key FROM kept) OR ycsb_key = 'user1'",
    "INSERT INTO usertable SELECT * FROM kept",
    "DROP TABLE kept",
)


def spoil(session: Session, *statements: str) -> None:
    last = "(SELECT max(ycsb_key) FROM usertable)"
    execute(session.engine, *(sql.format(key=last) for sql in statements))


def test_a_run_whose_record_was_spoiled_fails(running, monkeypatch):
    class Spoiling(YcsbLoadgen):
        """Our client, and somebody else beside it."""

        def drive(self, session, drives):
            driven = super().drive(session, drives)
            spoil(session, *KEPT, SPOILED[what])
            return driven

    monkeypatch.setitem(DRIVERS, "loadgen", Spoiling)
    with running("postgres", WORKLOAD, READING) as session:
        for what in SPOILED:
            outcome = WORKLOAD.measure(READING, session)
            spoil(session, *UNDONE)
            failed = {c.name: c.detail for c in outcome.checks if c.status == "failed"}
            assert run_status(outcome.checks) == "failed"
            assert set(failed) == {"records"}
            assert f"1 {what} (" in failed["records"]
        assert verified(session).status == "passed"


#: RocksDB throws away what it has in memory when it is closed; no log has it either.
FORGETFUL = {
    "disable_wal": "true", "avoid_flush_during_shutdown": "true", "write_buffer_size": "512M",
}  # fmt: skip


@pytest.mark.parametrize("update", ["read-modify-write", "merge", "blind"])
def test_updates_that_an_engine_has_lost_fail_the_run(running, update):
    """Acknowledged, and gone before the records are read back: each of them is well formed."""
    writing = YcsbParams.from_mapping({
        **READING.to_json(), "readproportion": 0.5, "updateproportion": 0.25,
        "readmodifywriteproportion": 0.25, "update": update,
    })  # fmt: skip
    for settings, status in ((FORGETFUL, "failed"), ({}, "passed")):
        with running("rocksdb", WORKLOAD, writing, **settings) as session:
            golden = session.engine._directories["data"].parent / "golden"
            golden.mkdir()
            session.engine.stop()
            session.engine.snapshot(golden)
            session.engine.restore(golden, session.engine._directories)
            session.engine.start()
            outcome = WORKLOAD.measure(writing, session)
        (records,) = (check for check in outcome.checks if check.name == "records")
        assert records.status == status, records.detail
        assert ("without their update" in records.detail) == (status == "failed")
        assert "missing" not in records.detail and "malformed" not in records.detail


# From what a driver told ---------------------------------------------------------


def seen(**operations: Operation) -> DriverResult:
    return DriverResult("loadgen", "1", 10**9, operations=operations)


def test_missing_records_that_are_not_counted_are_unknown():
    assert check_found(seen(read=Operation(5))).status == "unknown"


def test_a_record_that_was_not_found_fails_the_run():
    read = Operation(500, not_found_count=0)
    assert check_found(seen(read=read)).status == "passed"
    check = check_found(seen(read=replace(read, not_found_count=2)))
    assert check.status == "failed"
    assert "2 of read" in check.detail


def test_fewer_records_than_expected_are_missing_whatever_else_is_told():
    assert check_records(structs.replace(WELL, expected=10)).status == "failed"


WELL = Verified(
    records=9,
    expected=9,
    missing=0,
    malformed=0,
    unexpected=0,
    changed=0,
    updated=(0, 0, 0),
    first=None,
)


def test_updates_that_were_acknowledged_and_are_not_there_fail_the_run():
    """A higher hash is of another field that was updated, too; a lower one lacks this one."""
    for counts, status in (((5, 0, 9), "passed"), ((6, 1, 9), "passed"), ((5, 0, 8), "failed")):
        check = check_records(structs.replace(WELL, changed=2, updated=counts), [5, 0, 9])
        assert check.status == status
    assert figures_of(check.detail)[:2] == [2, 1]  # updated fields looked at, without their update
    assert check_records(WELL, [5, 0, 9]).status == "failed"
    assert check_records(WELL, [0, 0, 0]).status == "passed"
    assert check_records(WELL, None).status == "passed"


# What makes the numbers of a window doubtful, and which of them are not told then ---

SHORT = YcsbParams.from_mapping({"workload": "c", "duration": "10s"})


class Seen:
    """A driver that has seen what it is made with."""

    unseeded = None

    def __init__(self, driven: DriverResult) -> None:
        self.driven = driven

    def drive(self, session, drives):
        drives.on_measuring()
        drives.on_measured()
        return self.driven

    def warnings(self, engine):
        return ()

    def verify(self, session, driven):
        return [Check("records", "passed", "")]


class Counting:
    """Its processes use up 200 ms from one reading to the next."""

    driver = "seen"
    engine = IdleEngine()
    cpu_ns = 0

    @property
    def each(self) -> tuple[Any, ...]:
        return (self,)

    def counters(self, moment: str = "after") -> Mapping[str, float]:
        self.cpu_ns += 200_000_000
        return {"cpu_ns": self.cpu_ns}


def outcome_of(driven: DriverResult, params: YcsbParams = SHORT) -> Outcome:
    with mock.patch.dict(DRIVERS, seen=lambda params: Seen(driven)):
        session: Any = Counting()
        return WORKLOAD.measure(params, session)


def measured(window_ns: int = 10 * 10**9, **seen) -> Outcome:
    reads = {"read": Operation(1000, not_found_count=0)}
    return outcome_of(DriverResult("ycsb", "", window_ns, reads, **seen))


def warning_codes(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.uncontrolled}


def test_a_window_with_counters_of_its_own_tells_them():
    outcome = measured()
    metrics = {metric.name: metric.value for metric in outcome.metrics}
    assert metrics["window_cpu_ns"] == 200_000_000
    assert metrics["server_cpu_per_operation_ns"] == 200_000
    assert "window-too-short" not in warning_codes(outcome)


def test_counters_that_were_read_too_late_are_told_nowhere_and_that_is_said():
    outcome = measured(counters_late_ns=1_830_000_000)
    names = {metric.name for metric in outcome.metrics}
    assert "operations_per_second" in names
    assert {name for name in names if name.startswith("window_")} == {"window_duration_ns"}
    assert "server_cpu_per_operation_ns" not in names
    assert "window-counters-late" in warning_codes(outcome)


def test_a_window_that_is_shorter_than_asked_for_is_told():
    assert "window-too-short" in warning_codes(measured(window_ns=8_300_000_000))


def test_operations_that_were_measured_at_different_times_are_told():
    for apart_ns, told_so in ((0, False), (200_000_000, False), (250_000_000, True)):
        codes = warning_codes(measured(ends_apart_ns=apart_ns))
        assert ("operation-windows-differ" in codes) == told_so


def histogram(count: int) -> str:
    layout = Layout(1, 3_600_000_000_000, 3)
    counts = np.zeros(layout.counters, dtype=np.int64)
    counts[50] = count
    return Histogram(layout, counts).encode()


def test_ages_of_operations_that_nobody_answered_are_told_as_such():
    """In the histogram they look like latencies; where there are no others it is left out."""
    for unfinished, named, has_latencies in (
        (0, "", True), (200, "above p80", True), (1000, "no read", False),
    ):  # fmt: skip
        reads = Operation(500, unfinished_count=unfinished, latency_hdr=histogram(1000))
        outcome = outcome_of(DriverResult("ycsb", "", 10**10, {"read": reads}))
        words = [f.context for f in outcome.uncontrolled if f.code == "unanswered-operations"]
        assert len(words) == bool(named)
        assert named in "".join(words)
        names = {metric.name for metric in outcome.metrics}
        assert ("operation_duration_ns" in names) == has_latencies


def test_operations_beyond_those_that_were_asked_for_are_told():
    asked = YcsbParams.from_mapping({"workload": "c", "operations": 10, "ramp_up": "3s"})
    for done, told_so in ((10, False), (18, True)):
        driven = DriverResult("loadgen", "", 10**7, {"read": Operation(done)})
        outcome = outcome_of(driven, asked)
        assert ("too-many-operations" in warning_codes(outcome)) == told_so


def test_processor_time_of_an_engine_inside_is_not_told_by_operation_where_starts_are_awaited():
    """With a rate the threads that work also wait, part of it computing."""
    seen = DriverResult("loadgen", "", 10**9, {"read": Operation(1000)}, client_cpu_ns=5_000_000)
    for inside, offered, told in (
        (True, None, {"process_cpu_per_operation_ns": 5000}),
        (True, 1000, {}),
        (False, 1000, {"client_cpu_per_operation_ns": 5000}),
    ):
        metrics = window_metrics(replace(seen, offered_count=offered), {}, NOUNS, [], inside)
        assert {m.name: m.value for m in metrics if "per_operation" in m.name} == told
