"""Calls on a modelled tier: which of them wait for its device, and which its page cache answers."""

from dataclasses import replace

import pytest
from modelled_tier import MIB, OPEN_TABLE, STORED, buffered, constant, use
from traced_calls import DATA_READ, DATA_SYNC, DATA_WRITE, counted

from harness.models import durations
from harness.models.device import DeviceModel, SizePoint


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
    # Page 102 is marked by the first stream's window, which ends with page 104.
    "at the mark of another stream": (
        [100, 101, 200, 201, 102, *range(105, 110)],
        [100, 101, 200, 201],
    ),
}


@pytest.mark.parametrize("case", STREAMS)
def test_reads_wait_where_linux_has_not_read_ahead(trace, run, case):
    pages, waiting = STREAMS[case]
    use(trace, buffered(read=10, write=10, sync=10))
    slowly = "import time\nfor page in {}: os.pread(fd, 4096, page * 4096); time.sleep(0.001)"
    run(STORED + slowly.format(list(pages)))
    assert counted(trace, DATA_READ, "modelled") == (len(waiting),)


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
def test_a_reader_fills_the_page_cache_itself(trace, run, virtual_time, program, folios):
    use(trace, replace(buffered(read=10, write=10, sync=10), fill_ns=2_000_000))
    virtual_time()
    elapsed = run(
        STORED + f"import time\nstart = time.monotonic_ns()\n{program}\n"
        "print(time.monotonic_ns() - start)"
    )
    assert int(elapsed) == pytest.approx(folios * 2_000_000, rel=0.05)
    due = trace.page.read().histogram(DATA_READ, "due")
    if due is not None:
        assert due.mean * due.total == pytest.approx(folios * 2_000_000, rel=0.05)


def test_a_scan_of_a_device_that_counts_requests_takes_as_many(trace, run, virtual_time):
    """100 requests a second, of up to 2560 KiB: four windows of that size.

    The first one is of single pages, of which a request has 128, the second of folios of 16 KiB.
    """
    requests = 5 + 2 + 1 + 1
    points = {
        "read": tuple(SizePoint(n, durations.constant(1000), rate=100 * n) for n in (4096, MIB))
    }
    moved = {"read": 100 * (2560 << 10)}
    model = DeviceModel("few", "", "published", True, 64, points, moved)
    use(trace, replace(model, readahead_bytes=2560 << 10))
    virtual_time()
    elapsed = run(
        OPEN_TABLE + "import time\nos.truncate(fd, 10 << 20)\nstart = time.monotonic_ns()\n"
        "for at in range(10): os.pread(fd, 1 << 20, at << 20)\nprint(time.monotonic_ns() - start)"
    )
    assert int(elapsed) >= requests * 10_000_000
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.mean * due.total <= requests * 10_000_000 * 1.02


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


def test_an_eviction_leaves_no_page_that_takes_room(trace, run):
    use(trace, buffered(read=10, write=10, sync=10), size_bytes=2 * MIB)
    reads = OPEN_TABLE + (
        "os.truncate(fd, 4 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "for page in {}: os.pread(fd, 4096, page * 4096)"
    )
    run(reads.format("range(512)"))
    trace.page.evict()
    run(reads.format("[*range(768), *range(768)]"))
    assert counted(trace, DATA_READ, "modelled")[0] > 512 + 768


def test_without_a_page_cache_every_call_reaches_the_device(trace, run):
    use(trace, DeviceModel("dax", "", "published", False, points=constant(read=1, write=1, sync=1)))
    run(
        OPEN_TABLE
        + "for i in range(3): os.pwrite(fd, bytes(4096), 0); os.pread(fd, 4096, 0)\nos.fsync(fd)"
    )
    assert counted(trace, DATA_WRITE, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_READ, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_SYNC, "modelled") == (1,)


def test_a_full_page_cache_evicts_what_was_not_used_again(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), size_bytes=2 * MIB)
    run(
        OPEN_TABLE + "os.truncate(fd, 64 << 20)\n"
        "for i in range(2):\n    for at in range(0, 64 << 20, 65536): os.pread(fd, 4096, at)"
    )
    calls, modelled = counted(trace, DATA_READ, "calls", "modelled")
    assert calls == 2048
    assert modelled > 1900


def test_a_write_is_free_until_a_sync_pays_for_what_is_dirty_whoever_wrote_it(trace, run):
    by_size = (
        SizePoint(4096, durations.constant(1000)),
        SizePoint(MIB, durations.constant(9_000_000)),
    )
    points = constant(read=1, write=1) | {"sync": by_size}
    use(trace, DeviceModel("disk", "", "published", points=points))
    run(
        OPEN_TABLE + "if os.fork() == 0: os.pwrite(fd, bytes(1 << 20), 0); os._exit(0)\n"
        "os.wait(); os.fsync(fd); os.fsync(fd)"
    )
    assert counted(trace, DATA_WRITE, "modelled", "cached") == (0, 1)
    due = trace.page.read().histogram(DATA_SYNC, "due")
    assert due.total == 2
    assert due.max == pytest.approx(9_000_000, rel=0.01)
    assert due.percentile(50) <= 1100


GONE = {
    "removed": "os.unlink('data/table')",
    "replaced": "os.mkfifo('data/other'); os.rename('data/other', 'data/table')",
    "cut off": "os.ftruncate(fd, 0)",
    "cut off by its name": "os.truncate('data/table', 0)",
    "opened anew": "os.close(os.open('data/table', os.O_RDWR | os.O_TRUNC))",
}


@pytest.mark.parametrize("case", GONE)
def test_what_was_dirty_of_a_file_that_is_gone_is_not_written(trace, run, case):
    """A sync pays for one page, which is written after that, and not for the mebibyte."""
    points = constant(read=1, write=1, sync=1)
    use(trace, DeviceModel("disk", "", "published", True, 1, points, {"write": 10 * MIB}))
    run(
        OPEN_TABLE + f"os.write(fd, bytes(1 << 20))\n{GONE[case]}\n"
        "os.write(fd, bytes(4096)); os.fsync(fd)"
    )
    assert trace.page.read().histogram(DATA_SYNC, "due").max < 10_000_000  # and not 100 ms


def test_another_name_of_a_file_keeps_what_is_dirty_of_it(trace, run):
    points = constant(read=1, write=1, sync=1)
    use(trace, DeviceModel("disk", "", "published", True, 1, points, {"write": 10 * MIB}))
    run(
        OPEN_TABLE + "os.write(fd, bytes(1 << 20)); os.link('data/table', 'data/other')\n"
        "os.unlink('data/table'); os.fsync(fd)"
    )
    assert trace.page.read().histogram(DATA_SYNC, "due").max >= 100_000_000


def test_write_back_that_was_begun_is_waited_for_and_not_paid_for_again(trace, run):
    points = constant(read=1, write=1, sync=1)
    use(trace, DeviceModel("disk", "", "published", True, 1, points, {"write": 10 * MIB}))
    run(
        OPEN_TABLE + "import ctypes\nlib = ctypes.CDLL(os.environ['LD_PRELOAD'])\n"
        "whole = ctypes.c_long(0)\n"
        "os.write(fd, bytes(1 << 20)); assert lib.sync_file_range(fd, whole, whole, 2) == 0\n"
        "import time; time.sleep(0.06); os.fsync(fd); os.fsync(fd)"
    )
    due = trace.page.read().histogram(DATA_SYNC, "due")
    assert due.total == 2
    assert due.percentile(50) < 10_000  # the second one
    assert due.max < 50_000_000  # of 100 ms, what was left


def test_a_writer_waits_where_too_much_is_dirty(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), available=10 * MIB)
    run(OPEN_TABLE + "for at in range(0, 8 << 20, 65536): os.pwrite(fd, bytes(65536), at)")
    modelled, cached = counted(trace, DATA_WRITE, "modelled", "cached")
    assert modelled + cached == 128
    assert cached >= 32  # two MiB are below the limit
