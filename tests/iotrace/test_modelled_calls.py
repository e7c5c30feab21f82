"""Calls on a device that is not there: which of them wait, for what, and how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.iotrace.page import Cell
from harness.models.device import (
    PROBABILITIES,
    DeviceModel,
    PageCache,
    Point,
    models_table,
    quantile_ns,
)

DATA_READ = Cell("data", "read", "foreground")
DATA_WRITE = Cell("data", "write", "foreground")
DATA_SYNC = Cell("data", "sync", "foreground")
WAL_SYNC = Cell("wal", "sync", "foreground")
MIB = 1 << 20
OPEN = "fd = os.open('data/table', os.O_RDWR | os.O_CREAT)\n"
#: A file on the base tier that the modelled device has, and its page cache has not.
STORED = OPEN + "os.truncate(fd, 1 << 20)\n"


def constant(**points_us):
    """Each operation takes that many microseconds."""
    return {
        name: (Point(4096, ((50.0, duration * 1000),)),) for name, duration in points_us.items()
    }


def use(trace, model, size_bytes=None, available=1 << 40, parts=("data", "wal")):
    models = dict.fromkeys(parts, model)
    tiers = dict.fromkeys(parts, "fast")
    trace.page.model(models_table(models, tiers, PageCache(size_bytes, available)))


def counted(trace, cell, *fields):
    reading = trace.page.read()
    return tuple(reading.value(cell, field) for field in fields)


def buffered(**points_us):
    return DeviceModel("disk", "", "published", points=constant(**points_us))


def test_a_read_waits_unless_the_page_cache_has_the_page(trace, run):
    use(trace, buffered(read=10, write=10, sync=10))
    run(STORED + "for at in (65536, 65536, 262144, 65536): os.pread(fd, 4096, at)")
    assert counted(trace, DATA_READ, "calls", "modelled", "cached") == (4, 2, 2)


#: Offsets in units of 4 KiB, each read 4 KiB long, and those that wait, as Linux does with the
#: default readahead: a mark in each window fetches the next one before it is needed.
STREAMS = {
    "from the start": (range(64), [0]),
    "in the middle": (range(100, 164), [100, 101]),
    "every third page": (range(101, 161, 3), list(range(101, 161, 3))),
    "after cached pages": ([10, 11, 12, 13, 40, 39, 38, 14], [10, 11, 40, 39, 38]),
    "backwards": (range(60, 50, -1), list(range(60, 50, -1))),
}


@pytest.mark.parametrize("case", STREAMS)
def test_reads_wait_where_linux_has_not_read_ahead(trace, run, case):
    pages, waiting = STREAMS[case]
    use(trace, buffered(read=10, write=10, sync=10))
    slowly = "import time\nfor page in {}: os.pread(fd, 4096, page * 4096); time.sleep(0.001)"
    run(STORED + slowly.format(list(pages)))
    assert counted(trace, DATA_READ, "modelled") == (len(waiting),)


@pytest.mark.parametrize("in_engine", [False, True])
def test_a_buffered_read_copies_when_the_device_is_done(trace, run, in_engine):
    """8 MiB cannot be copied in 0.2 ms; an engine's durations contain the copying."""
    points = {"read": (Point(4096, ((50.0, 5_000_000),)),)}
    use(trace, DeviceModel("disk", "", "published", points=points, in_engine=in_engine))
    run(
        OPEN + "os.truncate(fd, 8 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "os.pread(fd, 8 << 20, 0)"
    )
    due_ns = trace.page.read().histogram(DATA_READ, "due").max
    assert (due_ns > 5_200_000) is not in_engine


@pytest.mark.parametrize(
    ("program", "folios"),
    [
        ("os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM); os.pread(fd, 65536, 0)", 16),
        ("os.pread(fd, 65536, 65536); os.pread(fd, 65536, 65536)", 16),
        # Windows of 4, 8, 16 and three times 32 pages, in folios of 1, 4, 16 and 32.
        ("for page in range(64): os.pread(fd, 4096, page * 4096)", 4 + 2 + 1 + 3),
        ("os.posix_fadvise(fd, 0, 65536, os.POSIX_FADV_WILLNEED)", 16),
    ],
)
def test_a_reader_fills_the_page_cache_itself(trace, run, program, folios):
    use(trace, replace(buffered(read=10, write=10, sync=10), fill_ns=2_000_000))
    used = run(
        STORED + f"import time\nstart = time.process_time_ns()\n{program}\n"
        "print(time.process_time_ns() - start)"
    )
    assert int(used) >= folios * 2_000_000 * 0.98
    due = trace.page.read().histogram(DATA_READ, "due")
    if due is not None:
        assert due.mean * due.total == pytest.approx(folios * 2_000_000, rel=0.05)


def test_what_an_engine_saw_contains_the_waiting_for_processors(trace, run):
    """64 MiB end late, so that calls after it end earlier than they are due."""
    points = constant(read=100, write=1, sync=1)
    use(trace, DeviceModel("disk", "", "published", points=points, in_engine=True))
    run(
        OPEN + "os.truncate(fd, 65 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "os.pread(fd, 64 << 20, 0)\n"
        "for page in range(10): os.pread(fd, 4096, (64 << 20) + page * 4096)"
    )
    reading = trace.page.read()
    assert reading.histogram(DATA_READ, "due").percentile(50) >= 99_000
    assert reading.histogram(DATA_READ, "achieved").percentile(10) < 99_000


def test_random_advice_stops_readahead_and_wanted_pages_are_fetched_ahead(trace, run):
    use(trace, buffered(read=10, write=10, sync=10))
    run(
        STORED + "import time\nos.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "for page in range(8): os.pread(fd, 4096, page * 4096)\n"
        "os.posix_fadvise(fd, 1 << 19, 65536, os.POSIX_FADV_WILLNEED); time.sleep(0.01)\n"
        "for page in range(128, 144): os.pread(fd, 4096, page * 4096)\n"
        "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(fd, 4096, 0)"
    )
    assert counted(trace, DATA_READ, "modelled", "cached") == (8 + 1, 16)


def test_after_an_eviction_pages_are_read_again(trace, run):
    use(trace, buffered(read=10, write=10, sync=10))
    read = STORED + "os.pread(fd, 4096, 0)"
    run(read)
    run(read)
    assert counted(trace, DATA_READ, "modelled", "cached") == (1, 1)
    trace.page.evict()
    run(read)
    assert counted(trace, DATA_READ, "modelled", "cached") == (2, 1)


def test_without_a_page_cache_every_call_reaches_the_device(trace, run):
    use(trace, DeviceModel("dax", "", "published", False, points=constant(read=1, write=1, sync=1)))
    run(
        OPEN
        + "for i in range(3): os.pwrite(fd, bytes(4096), 0); os.pread(fd, 4096, 0)\nos.fsync(fd)"
    )
    assert counted(trace, DATA_WRITE, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_READ, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_SYNC, "modelled") == (1,)


def test_a_write_is_free_until_a_sync_pays_for_what_is_dirty_whoever_wrote_it(trace, run):
    by_size = (Point(4096, ((50.0, 1000),)), Point(MIB, ((50.0, 9_000_000),)))
    points = constant(read=1, write=1) | {"sync": by_size}
    use(trace, DeviceModel("disk", "", "published", points=points))
    run(
        OPEN + "if os.fork() == 0: os.pwrite(fd, bytes(1 << 20), 0); os._exit(0)\n"
        "os.wait(); os.fsync(fd); os.fsync(fd)"
    )
    assert counted(trace, DATA_WRITE, "modelled", "cached") == (0, 1)
    due = trace.page.read().histogram(DATA_SYNC, "due")
    assert due.total == 2
    assert due.max == pytest.approx(9_000_000, rel=0.01)
    assert due.percentile(50) <= 1100


def test_direct_and_durable_writes_wait_at_once(trace, run):
    use(trace, buffered(read=1, write=5, sync=50))
    run(
        "fd = os.open('data/table', os.O_RDWR | os.O_CREAT | os.O_DSYNC)\n"
        "os.pwrite(fd, bytes(4096), 0)"
    )
    reading = trace.page.read()
    assert reading.value(DATA_WRITE, "modelled") == 1
    assert reading.histogram(DATA_WRITE, "due").max == pytest.approx(50_000, rel=0.02)


@pytest.mark.parametrize(
    ("model", "calls"),
    [
        (DeviceModel("zero", "", "constant"), 0),
        (buffered(read=1, write=1, sync=1), 1),
    ],
)
def test_a_device_of_no_latency_models_no_call(trace, run, model, calls):
    use(trace, model)
    run("fd = os.open('wal/log', os.O_RDWR | os.O_CREAT)\nos.fsync(fd)")
    assert counted(trace, WAL_SYNC, "calls", "modelled") == (1, calls)


def test_durations_are_drawn_from_the_quantiles_of_their_size(trace, run):
    quantiles = ((1.0, 2_000), (50.0, 10_000), (90.0, 20_000), (100.0, 40_000))
    points = {"read": (Point(4096, quantiles), Point(16384, ((50.0, 100_000),)))}
    use(trace, DeviceModel("disk", "", "published", False, points=points))
    run(STORED + "for i in range(4000): os.pread(fd, 4096, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    _, high = due.layout.bounds()
    point = Point(4096, quantiles)
    for percent in PROBABILITIES[1:-1]:
        below = due.counts[high <= quantile_ns(point, percent)].sum()
        assert below / 4000 == pytest.approx(percent / 100, abs=0.05)


def test_requests_wait_for_a_free_server_in_virtual_time(trace, run):
    model = DeviceModel("disk", "", "published", False, 1, constant(read=20_000))
    use(trace, model)
    threads = (
        "import threading\ngate = threading.Barrier(4)\n"
        "def work(): gate.wait(); os.pread(fd, 4096, 0)\n"
        "all_of_them = [threading.Thread(target=work) for _ in range(4)]\n"
        "for one in all_of_them: one.start()\nfor one in all_of_them: one.join()"
    )
    run(STORED + threads)
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.max > 25_000_000  # queued after at least one other one


def test_bandwidth_limits_what_all_requests_move(trace, run):
    model = DeviceModel("disk", "", "published", False, 64, constant(read=1), {"read": 100 * MIB})
    use(trace, model)
    run(STORED + "for _ in range(4): os.pread(fd, 1 << 20, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.percentile(25) == pytest.approx(10_000_000, rel=0.01)


def test_a_burst_passes_before_the_bandwidth_limits(trace, run):
    moved, burst = {"read": 10 * MIB}, {"read": 2 * MIB}
    use(trace, DeviceModel("disk", "", "published", False, 64, constant(read=1), moved, burst))
    run(STORED + "for _ in range(4): os.pread(fd, 1 << 20, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.percentile(50) < 10_000
    assert 20_000_000 < due.percentile(100) <= 101_000_000  # less what the calls themselves took


def test_a_full_page_cache_evicts_what_was_not_used_again(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), size_bytes=2 * MIB)
    run(
        OPEN + "os.truncate(fd, 64 << 20)\n"
        "for i in range(2):\n    for at in range(0, 64 << 20, 65536): os.pread(fd, 4096, at)"
    )
    calls, modelled = counted(trace, DATA_READ, "calls", "modelled")
    assert calls == 2048
    assert modelled > 1900


def test_a_writer_waits_where_too_much_is_dirty(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), available=10 * MIB)
    run(OPEN + "for at in range(0, 8 << 20, 65536): os.pwrite(fd, bytes(65536), at)")
    modelled, cached = counted(trace, DATA_WRITE, "modelled", "cached")
    assert modelled + cached == 128
    assert cached >= 32  # two MiB are below the limit
