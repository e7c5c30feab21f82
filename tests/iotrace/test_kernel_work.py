"""Processor time that modelled calls use outside of their threads, by a program of its own."""

import os
import struct
from dataclasses import replace

import pytest
from modelled_tier import (
    OPEN_TABLE,
    ORDINARY,
    ORDINARY_READS,
    PROCESSOR,
    URGENT,
    WORK,
    buffered,
    place_of_work,
    use,
)
from patience import eventually

from harness.errors import RunFailed
from harness.iotrace.kernel_work import PROGRAM, kernel_work
from harness.supervise.credentials import unprivileged

MS = 1_000_000
#: Prints how long a sync took, and its thread's processor time.
SYNC = OPEN_TABLE + (
    f"import time\nos.sched_setaffinity(0, [{PROCESSOR}])\nos.pwrite(fd, bytes(4096), 0)\n"
    "start = time.monotonic_ns(), time.thread_time_ns()\nos.fdatasync(fd)\n"
    "print(time.monotonic_ns() - start[0], time.thread_time_ns() - start[1])"
)


def work(trace, urgency=URGENT):
    return WORK.unpack(os.pread(trace.page.descriptor, WORK.size, place_of_work(urgency)))


@pytest.fixture
def program(library):
    return library.with_name(PROGRAM)


@pytest.fixture
def running(trace, program):
    with kernel_work(program, trace.page, unprivileged()):
        assert eventually(lambda: all(work(trace, urgency)[2] for urgency in range(3)))
        yield


def sync(trace, run, outside_ms, waits=False):
    """Make a sync of 1 ms for which Linux uses so much time of a processor."""
    model = buffered(read=1, write=1, sync=1000)
    use(trace, replace(model, outside_ns={"sync": round(outside_ms * MS)}, outside_waits=waits))
    return tuple(map(int, run(SYNC).split()))


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("waits", [False, True])
def test_the_program_uses_the_time_in_place_of_the_caller(trace, run, waits):
    _, used_ns = sync(trace, run, 80, waits)
    assert used_ns < 40 * MS
    assert eventually(lambda: work(trace, waits)[:2] == (80 * MS, 80 * MS))
    assert work(trace, not waits)[:2] == (0, 0)


@pytest.mark.usefixtures("running")
def test_a_call_waits_for_a_loop_device_s_workers(trace, run):
    took_ns, _ = sync(trace, run, 80, waits=True)
    assert took_ns >= 79 * MS


@pytest.mark.usefixtures("running")
def test_interrupts_time_is_used_from_50_us_on(trace, run):
    """A sync requests half of its time before each of two sleeps."""
    sync(trace, run, 0.04)
    assert work(trace)[:2] == (40_000, 0)
    sync(trace, run, 0.04)
    assert eventually(lambda: work(trace)[1] >= 60_000)


@pytest.mark.usefixtures("running")
def test_a_read_waits_for_no_sync(trace, run):
    """A loop device has several workers."""
    model = buffered(read=1, write=1, sync=1000)
    use(trace, replace(model, outside_ns={"read": 80 * MS}, outside_waits=True))
    run(
        f"{OPEN_TABLE}os.sched_setaffinity(0, [{PROCESSOR}]); os.pwrite(fd, bytes(4096), 0)\n"
        "os.fdatasync(fd); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(fd, 9, 0)"
    )
    assert work(trace, ORDINARY_READS)[:2] == (80 * MS, 80 * MS)
    assert work(trace, ORDINARY)[:2] == (0, 0)


def test_without_the_program_nothing_is_requested(trace, run):
    took_ns, _ = sync(trace, run, 80_000)
    assert took_ns < 80_000 * MS
    assert work(trace)[:2] == (0, 0)


@pytest.mark.usefixtures("running")
def test_a_request_that_no_call_can_make_is_limited(trace, run):
    """Of 2^63 ns, 100 ms are used."""
    os.pwrite(trace.page.descriptor, struct.pack("<Q", 1 << 63), place_of_work(URGENT))
    sync(trace, run, 80)
    assert eventually(lambda: work(trace)[1] == (1 << 63) + 80 * MS)


def test_a_run_fails_whose_program_has_ended(trace, program):
    """As it does without the page of this version."""
    os.pwrite(trace.page.descriptor, bytes(8), 0)
    with pytest.raises(RunFailed), kernel_work(program, trace.page, unprivileged()) as process:
        process.wait()
