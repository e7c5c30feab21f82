"""How often a modelled sync waits for a processor, on a clock of the test (late_wakes.c)."""

import os
from dataclasses import replace

import pytest
from modelled_tier import (
    OPEN_TABLE,
    ORDINARY,
    PROCESSOR,
    WORK,
    buffered,
    constant,
    place_of_work,
    use,
)

from harness.models.device import InodeWrite


@pytest.fixture
def syncs(trace, run, late_wakes, virtual_time):
    """Make syncs of 100 ms: the sleeps and the milliseconds of each.

    ``processors``: on which they are made in turn.
    """

    def syncs(late_ms, calls, written=4096, moves=0, reserve=0, processors=(), **model):
        use(trace, replace(buffered(read=1, write=1, sync=100_000), **model))
        virtual_time(late_ms)
        printed = run(
            OPEN_TABLE + "import ctypes, time\n"
            f"count = ctypes.c_int.in_dll(ctypes.CDLL({str(late_wakes)!r}), 'sleeps')\n"
            f"ctypes.CDLL(None).fallocate(fd, 1, 0, ctypes.c_long({reserve}))\n"
            f"processors = {list(processors)}\n"
            f"for i in range({calls}):\n"
            "    if processors: os.sched_setaffinity(0, [processors[i % len(processors)]])\n"
            f"    os.pwrite(fd, bytes({written}), i * {moves})\n"
            "    before, start = count.value, time.monotonic_ns()\n"
            "    os.fdatasync(fd)\n"
            "    print(count.value - before, round((time.monotonic_ns() - start) / 1e6))"
        )
        return [tuple(map(int, line.split())) for line in printed.splitlines()]

    return syncs


def test_a_sync_sleeps_for_its_writes_and_for_the_flush(syncs):
    assert syncs([], 3) == [(2, 100)] * 3


def test_the_flush_begins_later_after_a_late_wake(syncs):
    """Of the second call's two wakes, the first is 50 ms late; of the third's, 30 and 20 ms."""
    assert syncs([0, 0, 50, 0, 30, 20], 4) == [(2, 100), (2, 150), (2, 150), (2, 100)]


def test_a_sync_of_a_device_without_a_volatile_cache_sleeps_once(syncs):
    assert syncs([50, 0], 3, sync_waits=1) == [(1, 150), (1, 100), (1, 100)]


def test_where_processors_are_wanted_a_sync_waits_as_often_as_the_device_s_does(syncs):
    """2.75 times in the mean: twice or three times."""
    assert {count for count, _ in syncs([50] * 60, 20, sync_waits=2.75)} == {2, 3}
    assert syncs([0, 50], 2, sync_waits=4) == [(2, 150), (4, 100)]


def test_the_flush_begins_later_where_a_worker_was_late(trace, syncs):
    """A loop device's, by 30 ms; after the first call's late wake, processors are wanted."""
    work = WORK.pack(0, 1 << 40, True, 30_000_000)
    os.pwrite(trace.page.descriptor, work, place_of_work(ORDINARY))
    on_loop = {"outside_ns": {"sync": 1000}, "outside_waits": True, "processors": [PROCESSOR]}
    assert syncs([0, 50], 3, **on_loop) == [(2, 150), (2, 130), (2, 130)]


def test_a_sync_with_nothing_to_write_sleeps_once(syncs):
    assert syncs([50, 0], 3, written=0) == [(1, 150), (1, 100), (1, 100)]


INODE = InodeWrite(50_000_000, 0, 20_000_000)


def test_a_sync_that_writes_the_inode_waits_for_it_too(syncs):
    assert syncs([50, 0], 2, inode_write=INODE) == [(3, 200), (3, 150)]


def test_a_sync_writes_the_inode_after_the_first_write_of_a_tick(syncs):
    """The clock of files' times ticks at 1.2 and 1.6 s, and the first write is at 1 s."""
    durations_ms = [ms for _, ms in syncs([], 6, inode_write=INODE)]
    assert durations_ms == [150, 100, 150, 100, 100, 150]


@pytest.mark.parametrize(("inode_write", "reserved_ms"), [(INODE, 150), (None, 300)])
def test_growth_into_reserved_space_takes_what_the_inode_takes(syncs, inode_write, reserved_ms):
    """Or, with a journal, what any growth takes. The third write is beyond that space."""
    points = constant(read=1, write=1, sync=100_000, grown_sync=300_000)
    growing = {"moves": 4096, "reserve": 8192, "points": points, "inode_write": inode_write}
    assert [ms for _, ms in syncs([], 3, **growing)] == [reserved_ms, reserved_ms, 300]


@pytest.mark.parametrize(("moves", "durations_ms"), [(0, [300, 130, 130]), (4096, [300, 360, 360])])
def test_on_several_processors_syncs_take_longer_after_growth_by_their_own(
    syncs, moves, durations_ms
):
    """The first write grows the file in any case; so far, all calls were on one processor."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        pytest.skip("a single processor")
    in_turn = {
        "processors": processors,
        "points": constant(read=1, write=1, sync=100_000, grown_sync=300_000),
        "elsewhere_ns": {"sync": 30_000_000, "grown_sync": 60_000_000},
    }
    assert [ms for _, ms in syncs([], 3, moves=moves, **in_turn)] == durations_ms


def test_syncs_on_several_processors_are_shorter_where_none_has_to_be_woken(syncs):
    processors = sorted(os.sched_getaffinity(0))[:2]
    in_turn = {"processors": processors, "shorter_elsewhere_ns": {"sync": 30_000_000}}
    assert [ms for _, ms in syncs([], 3, **in_turn)] == [100, 70, 70]


def test_syncs_that_write_the_inode_on_several_processors_have_a_share_of_their_own(syncs):
    processors = sorted(os.sched_getaffinity(0))[:2]
    growing = {"moves": 4096, "reserve": 12288, "inode_write": INODE}
    in_turn = {"processors": processors, "elsewhere_ns": {"sync": 30_000_000}}
    assert [ms for _, ms in syncs([], 3, **growing, **in_turn)] == [150, 170, 170]
