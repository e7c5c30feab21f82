"""Checks of the trace at a run's intervals: coverage, warnings, and what a damaged page leaves."""

import os
import subprocess

import pytest

from harness import structs
from harness.errors import RunFailed
from harness.iotrace.intervals import TimedIo
from harness.iotrace.page import CELL_FIELDS, HEADS_AT, parse_plant
from harness.models import durations
from harness.models.device import DeviceModel, SizePoint
from harness.models.page_cache import PageCache
from harness.models.page_table import models_table
from harness.store.artifacts import kind_of
from harness.supervise.process import process_identity

#: Runs each line that it reads, and prints an empty one.
WORKER = """
import ctypes
raw = ctypes.CDLL(None).syscall
data = os.open('data/table', os.O_RDWR | os.O_CREAT)
wal = os.open('wal/log', os.O_RDWR | os.O_CREAT)
for line in iter(input, ''):
    exec(line)
    print(flush=True)
"""


class Engine:
    """A traced process that runs lines between the ends of an interval."""

    def __init__(self, process, trace):
        self.process = process
        self.timed = TimedIo(trace, self.processes)

    def processes(self):
        process_id = process_identity(self.process.pid)
        return [process_id] if process_id else []

    def run(self, *lines):
        self.timed.begin()
        for line in lines:
            self.execute(line)
        self.timed.end()

    def execute(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "\n"

    def metrics(self, name):
        """Values by part."""
        metrics = [metric for metric in self.timed.metrics() if metric.name == name]
        return {metric.labels["part"]: metric.value for metric in metrics}


def stored(engine):
    """Return the operations that a run would store, as readers accept them."""
    operations = engine.timed.operations()
    structs.convert(operations, kind_of("io-operations"), "io-operations")
    return operations


@pytest.fixture
def engine(trace, start):
    with start(WORKER, stdin=subprocess.PIPE) as process:
        started = Engine(process, trace)
        started.execute("pass")  # it has started
        yield started
        process.kill()


def test_all_calls_of_all_intervals_are_seen(engine):
    engine.run("os.write(data, bytes(50_000))")
    engine.execute("os.write(data, bytes(7_000_000))")  # not timed
    engine.run("os.write(data, bytes(50_000))", "os.write(wal, bytes(1_000))")
    assert engine.metrics("io_bytes") == {"data": 100_000, "wal": 1_000}
    assert engine.metrics("io_trace_coverage_share") == {
        "data": pytest.approx(1, abs=0.01),
        "wal": pytest.approx(1, abs=0.01),
    }
    assert engine.timed.warnings() == []


def test_an_interval_ends_with_the_last_of_nested_ones(engine):
    engine.timed.begin()
    engine.run("os.write(data, bytes(500))")
    assert engine.timed.metrics() == []
    engine.timed.end()
    engine.timed.end()  # none has begun
    assert engine.metrics("io_bytes") == {"data": 500}


def test_raw_system_calls_are_missed_and_reported(engine):
    engine.run("os.write(data, bytes(50_000))", "raw(1, data, bytes(50_000), 50_000)")
    assert engine.metrics("io_trace_coverage_share")["data"] == pytest.approx(0.5, abs=0.01)
    (warning,) = engine.timed.warnings()
    assert warning.code == "io-trace-incomplete"
    assert "raw system calls" in warning.context


def test_mapped_files_are_missed_and_reported(engine):
    engine.run(
        "os.truncate(wal, 99_000); os.write(wal, bytes(1_000))",
        "import mmap; mmap.mmap(wal, 99_000)[:] = bytes(99_000)",
        "os.write(data, bytes(50_000))",
    )
    coverage = engine.metrics("io_trace_coverage_share")
    assert coverage["wal"] == pytest.approx(0.01, abs=0.001)
    assert coverage["data"] > 0.95
    (warning,) = engine.timed.warnings()
    assert "mmap (wal)" in warning.context


def test_an_engine_that_did_not_load_the_library_is_not_seen(engine, trace):
    os.pwrite(trace.page.descriptor, bytes(4), 28)  # no slot is in use
    engine.run()
    assert engine.metrics("io_trace_coverage_share") == {"data": 0, "wal": 0}
    assert [warning.code for warning in engine.timed.warnings()] == ["io-trace-incomplete"]
    with pytest.raises(RunFailed):
        list(engine.timed.check([parse_plant("wal.sync=+1us")]))


def test_a_killed_engine_leaves_what_was_counted(engine):
    engine.timed.begin()
    engine.process.stdin.write("os.write(data, bytes(500)); os.kill(os.getpid(), 9)\n")
    engine.process.stdin.flush()
    engine.process.wait()
    engine.timed.end()
    assert engine.metrics("io_bytes") == {"data": 500}
    assert engine.metrics("io_trace_coverage_share") == {}  # /proc has forgotten the process


def test_a_page_that_the_engine_damages_is_dropped(engine, trace):
    """The servers' user has the descriptor, and can write anything."""
    engine.run("os.write(data, bytes(500))")
    engine.run(f"os.pwrite({trace.page.descriptor}, b'hostile!', {HEADS_AT} + 64)")
    assert engine.timed.metrics() == engine.timed.operations() == []
    (warning,) = engine.timed.warnings()
    assert warning.code == "io-trace-incomplete"


def test_the_length_of_an_unknown_queue_is_stored_as_unknown(engine, trace):
    """An io_uring leaves a submitted call, without the number of calls under way."""
    engine.timed.begin()
    engine.execute("os.write(data, bytes(500))")
    data_write, submitted = HEADS_AT + 64 + 8 * len(CELL_FIELDS), CELL_FIELDS.index("submitted")
    os.pwrite(trace.page.descriptor, b"\1", data_write + 8 * submitted)
    engine.timed.end()
    (write,) = (entry for entry in stored(engine) if entry["part"] == "data")
    assert (write["submitted"], write["queued"]) == (1, None)


def test_durations_on_a_modelled_tier_are_stored_as_due_and_as_achieved(engine, trace):
    slow = {"sync": (SizePoint(4096, durations.constant(2_000_000)),)}
    model = DeviceModel("dax", "", "published", False, points=slow)
    trace.page.model(
        models_table(
            {"wal": model}, {"wal": "fast"}, PageCache(None, 1 << 40, 1 << 40, 30_000_000_000)
        )
    )
    engine.run("os.fsync(wal)")
    (sync,) = (entry for entry in stored(engine) if entry["operation"] == "sync")
    assert sync["due_ns"]["p50"] == pytest.approx(2_000_000, rel=0.01)
    assert sync["achieved_ns"]["p50"] >= 1_990_000
    assert 0 <= sync["distance"] <= 1


def test_delays_that_reach_no_call_are_reported(engine, trace):
    plants = [parse_plant("data.write=+1us"), parse_plant("wal.sync=+1ms~100us")]
    for plant in plants:
        plant.apply(trace.page)
    engine.run("os.write(data, bytes(500))")
    (warning,) = engine.timed.check(plants)
    assert warning.code == "planted-delay-unused"
    assert "wal.sync=+1000us~100us" in warning.context
