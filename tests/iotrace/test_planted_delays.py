"""Delays that are planted in the calls of programs, on a clock of the test (late_wakes.c)."""

import pytest
from traced_calls import DATA_READ, OPEN, WAL_SYNC, WAL_WRITE, counted

from harness.iotrace.page import Delay


@pytest.fixture(autouse=True)
def no_lateness(virtual_time):
    """All sleeps end in time."""
    virtual_time()


def syncs(trace, run, delay):
    """Return the histogram of 500 syncs, each of which takes a microsecond."""
    trace.page.plant([WAL_SYNC], delay)
    trace.page.check_delays()
    run(OPEN.format("wal/log") + "for _ in range(500): os.fdatasync(fd)")
    reading = trace.page.read()
    assert reading.value(WAL_SYNC, "delayed") == 500
    spent_ns = reading.value(WAL_SYNC, "ns") + reading.value(WAL_SYNC, "delay_ns")
    histogram = reading.histogram(WAL_SYNC)
    assert histogram.mean == pytest.approx(spent_ns / 500, rel=0.01)
    return histogram


def test_a_planted_delay_is_in_the_histogram(trace, run):
    histogram = syncs(trace, run, Delay(200_000))
    assert histogram.percentile(0) >= 200_000
    assert histogram.max <= 205_000


def test_a_jittered_delay_is_spread_evenly(trace, run):
    histogram = syncs(trace, run, Delay(200_000, 50_000))
    assert histogram.percentile(0) >= 150_000
    assert histogram.max <= 255_000
    # Quartiles of 500 even draws have a standard deviation of 2 us.
    quartiles = histogram.percentiles([25, 50, 75])
    assert quartiles == pytest.approx([175_000, 200_000, 225_000], abs=15_000)


def test_a_delay_is_changed_while_the_program_runs(trace, start):
    program = (
        OPEN.format("wal/log") + "import sys\nfor _ in iter(input, ''): os.fsync(fd); print(1)"
    )
    with start(program.replace("print(1)", "print(1, flush=True)"), stdin=-1) as process:
        for delay_ns in (0, 20_000_000, 0):
            trace.page.plant([WAL_SYNC], Delay(delay_ns))
            before = trace.page.read()
            process.stdin.write("x\n")
            process.stdin.flush()
            process.stdout.readline()
            spent = trace.page.read() - before
            assert spent.value(WAL_SYNC, "delayed") == (delay_ns > 0)
        process.stdin.write("\n")


def test_what_a_planted_delay_of_the_read_takes_is_no_time_of_the_write(trace, run):
    trace.page.plant([DATA_READ], Delay(500_000_000))
    run(
        OPEN.format("data/table") + "os.write(fd, bytes(10))\n"
        "to = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.copy_file_range(fd, to, 10, 0)"
    )
    (delay_ns,) = counted(trace, DATA_READ, "delay_ns")
    (ns,) = counted(trace, WAL_WRITE, "ns")
    assert 0 < ns < delay_ns
