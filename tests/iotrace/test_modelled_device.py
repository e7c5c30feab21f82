"""How long calls wait for the modelled device of a tier."""

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from modelled_tier import MIB, OPEN_TABLE, STORED, buffered, constant, use
from traced_calls import DATA_READ, DATA_SYNC, DATA_WRITE, WAL_SYNC, WAL_WRITE, counted

from harness.drivers.client_program import histogram
from harness.models import durations
from harness.models.device import BusyTimes, DeviceModel, Extra, SizePoint, WriteBuffer


@pytest.mark.parametrize("in_engine", [False, True])
def test_a_buffered_read_copies_when_the_device_is_done(trace, run, in_engine):
    """8 MiB cannot be copied in 0.2 ms; an engine's durations contain the copying."""
    points = {"read": (SizePoint(4096, durations.constant(5_000_000)),)}
    use(trace, DeviceModel("disk", "", "published", points=points, in_engine=in_engine))
    run(
        OPEN_TABLE + "os.truncate(fd, 8 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "os.pread(fd, 8 << 20, 0)"
    )
    due_ns = trace.page.read().histogram(DATA_READ, "due").max
    assert (due_ns > 5_200_000) is not in_engine


def test_what_an_engine_saw_contains_the_waiting_for_processors(trace, run):
    """64 MiB end late, so that calls after it end earlier than they are due."""
    points = constant(read=100, write=1, sync=1)
    use(trace, DeviceModel("disk", "", "published", points=points, in_engine=True))
    run(
        OPEN_TABLE + "os.truncate(fd, 65 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
        "os.pread(fd, 64 << 20, 0)\n"
        "for page in range(10): os.pread(fd, 4096, (64 << 20) + page * 4096)"
    )
    reading = trace.page.read()
    assert reading.histogram(DATA_READ, "due").percentile(50) >= 99_000
    assert reading.histogram(DATA_READ, "achieved").percentile(10) < 99_000


def test_direct_and_durable_writes_wait_at_once(trace, run):
    use(trace, buffered(read=1, write=5, sync=50))
    run(
        "fd = os.open('data/table', os.O_RDWR | os.O_CREAT | os.O_DSYNC)\n"
        "os.pwrite(fd, bytes(4096), 0)"
    )
    reading = trace.page.read()
    assert reading.value(DATA_WRITE, "modelled") == 1
    assert reading.histogram(DATA_WRITE, "due").max == pytest.approx(50_000, rel=0.02)


@pytest.mark.parametrize(("flags", "due_ns"), [("0", 80_000), ("os.O_DIRECT", 20_000)])
def test_a_sync_moves_what_was_written_through_the_page_cache(trace, run, flags, due_ns):
    """What was written directly is on the device, whose cache it flushes."""
    sizes = ((4096, 20_000), (1 << 20, 80_000))
    syncs = tuple(SizePoint(size, durations.constant(ns)) for size, ns in sizes)
    use(
        trace,
        DeviceModel("disk", "", "published", points=constant(read=1, write=1) | {"sync": syncs}),
    )
    with TemporaryDirectory(dir="/var/tmp") as folder:  # a tmpfs has O_DIRECT since Linux 6.6
        trace.directories = {"data": Path(folder)}
        run(
            f"import mmap\nfd = os.open({folder!r} + '/table', os.O_RDWR | os.O_CREAT | {flags})\n"
            "os.pwrite(fd, mmap.mmap(-1, 1 << 20), 0)\nos.fsync(fd)"
        )
    due = trace.page.read().histogram(DATA_SYNC, "due")
    assert due.max == pytest.approx(due_ns, rel=0.02)


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


def test_a_sync_with_its_processor_time_uses_it_and_is_not_passed_on(trace, run, virtual_time):
    """Linux syncs no pipe, which a modelled sync does not find out."""
    stated = replace(buffered(read=1, write=1, sync=9000), processor_ns={"sync": 8_000_000})
    use(trace, stated)
    virtual_time()
    used = run(
        "import time\nos.mkfifo('wal/pipe')\nfd = os.open('wal/pipe', os.O_RDWR)\n"
        "start = time.thread_time_ns()\nos.fsync(fd)\nprint(time.thread_time_ns() - start)"
    )
    assert int(used) == pytest.approx(8_000_000, rel=0.01)
    achieved_ns = trace.page.read().histogram(WAL_SYNC, "achieved").max
    assert achieved_ns == pytest.approx(9_000_000, rel=0.01)


CALLS = {
    "sync": "os.pwrite(fd, bytes(4096), 0); start = used(); os.fsync(fd)",
    "read": "start = used(); os.pread(fd, 4096, 0)",
}


@pytest.mark.parametrize("operation", CALLS)
def test_a_call_uses_the_processor_time_of_the_device_and_sleeps_once(
    trace, run, late_wakes, virtual_time, operation
):
    model = replace(
        buffered(read=6000, write=1, sync=6000),
        page_cache=operation == "sync",
        processor_ns={operation: 2_000_000},
        sync_waits=1,
    )
    use(trace, model)
    virtual_time()
    printed = run(
        STORED + "import ctypes, time\n"
        f"slept = ctypes.c_int.in_dll(ctypes.CDLL({str(late_wakes)!r}), 'sleeps')\n"
        "used = lambda: (slept.value, time.thread_time_ns())\n"
        "sleeps, processor_ns = [], 0\n"
        f"for _ in range(20): {CALLS[operation]}; end = used(); "
        "sleeps.append(end[0] - start[0]); processor_ns += end[1] - start[1]\n"
        "print(processor_ns, *sleeps)"
    )
    processor_ns, *sleeps = map(int, printed.split())
    assert processor_ns == pytest.approx(20 * 2_000_000, rel=0.05)
    assert sleeps == [1] * 20


def test_a_call_uses_less_of_a_processor_that_others_want(trace, run, virtual_time):
    """As the calls after one that was woken 50 ms late."""
    model = DeviceModel("disk", "", "published", False, points=constant(read=10_000))
    busy = {"read": BusyTimes(1_000_000, 0)}
    use(trace, replace(model, processor_ns={"read": 2_000_000}, busy=busy))
    virtual_time([50])
    printed = run(
        "import time\n" + STORED + "for _ in range(3):\n"
        "    start = time.thread_time_ns()\n"
        "    os.pread(fd, 4096, 0)\n"
        "    print(time.thread_time_ns() - start)"
    )
    used_ms = [round(int(line) / 1e6) for line in printed.splitlines()]
    assert used_ms == [2, 1, 1]


def test_a_call_takes_longer_after_the_thread_has_worked(trace, run, virtual_time):
    """In full after 300 us of its own processor time, of which it uses less between two calls."""
    model = DeviceModel("disk", "", "published", False, points=constant(read=10, write=1, sync=1))
    use(trace, replace(model, after_work={"read": Extra(300_000_000, 0)}))
    virtual_time()
    run(
        "import time\n" + STORED + "read = lambda: os.pread(fd, 4096, 0)\n"
        "def work():\n"
        "    start = time.thread_time_ns()\n"
        "    while time.thread_time_ns() - start < 1e6: pass\n"
        "work(); read(); read(); work(); read()"
    )
    due = trace.page.read().histogram(DATA_READ, "due")
    low, _ = due.layout.bounds()
    assert due.counts[low > 290_000_000].sum() == 2
    assert due.total == 3


def test_a_call_takes_longer_after_a_pause_of_the_thread_or_of_all(trace, run, virtual_time):
    """By halves of what is stated after half of the pause, and by no more after a longer one."""
    model = DeviceModel("disk", "", "published", False, points=constant(read=10, write=1, sync=1))
    pauses = {4_000_000: {"read": Extra(200_000_000, 0)}}
    use(trace, replace(model, after_pause=pauses))
    virtual_time()
    run(
        "import time\n" + STORED + "read = lambda: os.pread(fd, 4096, 0)\n"
        "def pause(clock, ns):\n"
        "    start = clock()\n"
        "    while clock() - start < ns: pass\n"
        "read(); read(); pause(time.thread_time_ns, 2e6); read()\n"
        "pause(time.monotonic_ns, 5e6); read()"
    )
    due = trace.page.read().histogram(DATA_READ, "due")
    low, _ = due.layout.bounds()
    counts = [due.counts[(low > at - 20_000_000) & (low < at + 20_000_000)].sum()
              for at in (0, 100_000_000, 200_000_000)]  # fmt: skip
    assert counts == [2, 1, 1]


def test_a_call_takes_longer_while_calls_are_made_on_several_processors(trace, run):
    """Within a millisecond, before which the longer calls are not over."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        pytest.skip("a single processor")
    first, second = processors
    model = DeviceModel("disk", "", "published", False, points=constant(read=10, write=1, sync=1))
    use(trace, replace(model, elsewhere_ns={"read": 300_000_000}))
    run(
        STORED + f"for processor in {[first, first, second, second, first]}:\n"
        "    os.sched_setaffinity(0, [processor]); os.pread(fd, 4096, 0)"
    )
    due = trace.page.read().histogram(DATA_READ, "due")
    low, _ = due.layout.bounds()
    assert due.counts[low > 290_000_000].sum() == 2
    assert due.total == 5


def test_durations_are_drawn_from_the_distribution_of_their_size(trace, run):
    """Reads of 10 us, of which one in fifty stalls for 300 us."""
    measured = histogram([10_000, 300_000], [980, 20])
    points = {
        "read": (
            SizePoint(4096, durations.of_histogram(measured)),
            SizePoint(16384, durations.constant(400_000)),
        )
    }
    use(trace, DeviceModel("disk", "", "published", False, points=points))
    run(STORED + "for i in range(8000): os.pread(fd, 4096, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    _, high = due.layout.bounds()
    assert due.counts[high < 20_000].sum() / 8000 == pytest.approx(0.98, abs=0.02)
    assert due.mean == pytest.approx(980 * 10 + 20 * 300, rel=0.15)  # of some 160 stalls


#: ``fetch``: has a page read ahead, in the background; ``read``: waits for one.
PAGES = STORED + (
    "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
    "fetch = lambda page: os.posix_fadvise(fd, page << 12, 4096, os.POSIX_FADV_WILLNEED)\n"
    "read = lambda page: os.pread(fd, 4096, page << 12)\n"
)


def test_requests_wait_for_a_free_server(trace, run, virtual_time):
    use(trace, DeviceModel("disk", "", "published", True, 1, constant(read=20_000)))
    virtual_time()
    run(PAGES + "fetch(16); fetch(32); fetch(48); read(64)")
    due_ns = trace.page.read().histogram(DATA_READ, "due").max
    assert due_ns == pytest.approx(80_000_000, rel=0.01)


@pytest.mark.parametrize(
    "longer_ns",
    [
        {4096: (100_000_000, 200_000_000)},
        {2048: (0, 0), 6144: (200_000_000, 400_000_000)},
        {1024: (0, 0), 4096: (100_000_000, 200_000_000)},
        {16384: (100_000_000, 200_000_000)},
    ],
    ids=["its size", "between sizes", "the largest", "smaller than all"],
)
def test_a_read_takes_longer_where_others_are_under_way(trace, run, virtual_time, longer_ns):
    """Next to none, one and two others: 0, 100 and 150 ms longer."""
    model = DeviceModel("disk", "", "published", True, 4, constant(read=200_000))
    use(trace, replace(model, depth_longer_ns=longer_ns))
    virtual_time()
    run(PAGES + "read(16); fetch(32); read(48); fetch(64); fetch(80); read(96)")
    due = trace.page.read().histogram(DATA_READ, "due")
    low, high = due.layout.bounds()
    assert [
        due.counts[(low > least) & (high < most)].sum()
        for least, most in ((190e6, 210e6), (290e6, 310e6), (340e6, 360e6))
    ] == [1, 1, 1]


def test_bandwidth_limits_what_all_requests_move(trace, run):
    model = DeviceModel("disk", "", "published", False, 64, constant(read=1), {"read": 100 * MIB})
    use(trace, model)
    run(STORED + "for _ in range(4): os.pread(fd, 1 << 20, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.percentile(25) == pytest.approx(10_000_000, rel=0.01)


@pytest.mark.parametrize(
    ("size", "due_ms"), [(64 << 10, 2), (128 << 10, 4), (192 << 10, 4), (512 << 10, 5.12)]
)
def test_the_rate_of_a_size_limits_what_its_requests_move(trace, run, size, due_ms):
    """250 requests of 128 KiB a second: a larger one takes as long, or longer by the bandwidth."""
    sizes = {128 << 10: 32_768_000, 256 << 10: 0}
    points = {
        "read": tuple(SizePoint(n, durations.constant(1000), rate=r) for n, r in sizes.items())
    }
    use(trace, DeviceModel("disk", "", "published", False, 64, points, {"read": 102_400_000}))
    run(STORED + f"for _ in range(4): os.pread(fd, {size}, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.percentile(25) == pytest.approx(due_ms * 1e6, rel=0.02)


def test_a_sync_takes_the_device_for_as_long_as_its_own_rate_states(trace, run):
    """10 ms, in place of the 5 ms of a write."""
    rates = {"write": 819_200, "sync": 409_600}
    points = {
        name: (SizePoint(4096, durations.constant(1000), rate=r),) for name, r in rates.items()
    }
    use(trace, DeviceModel("disk", "", "published", False, 64, points))
    run(OPEN_TABLE + "for _ in range(4): os.pwrite(fd, bytes(4096), 0)")
    run("fd = os.open('wal/log', os.O_RDWR | os.O_CREAT | os.O_DSYNC)\n"
        "for _ in range(4): os.pwrite(fd, bytes(4096), 0)")  # fmt: skip
    reading = trace.page.read()
    for cell, due_ns in ((DATA_WRITE, 5e6), (WAL_WRITE, 10e6)):
        due = reading.histogram(cell, "due")
        assert due.percentile(50) == pytest.approx(due_ns, rel=0.02)


@pytest.mark.parametrize("directions", ["shared", "separate"])
@pytest.mark.parametrize("limit", ["servers", "rate"])
def test_reads_and_writes_share_the_device_or_have_each_their_own(
    trace, run, virtual_time, limit, directions
):
    """A read in the background takes 400 ms, and a sync 5 ms, or twice as long next to it."""
    read_ns, rate = (400_000_000, 0) if limit == "servers" else (1000, 10_240)
    points = {
        "read": (SizePoint(4096, durations.constant(read_ns), rate=rate),),
        "write": (SizePoint(4096, durations.constant(1000), rate=819_200),),
        "sync": (SizePoint(4096, durations.constant(1000)),),
    }
    parallel = 1 if limit == "servers" else 64
    model = DeviceModel("disk", "", "published", True, parallel, points, directions=directions)
    use(trace, model)
    virtual_time()
    run(
        STORED
        + "log = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.pwrite(log, bytes(4096), 0)\n"
        "os.posix_fadvise(fd, 0, 4096, os.POSIX_FADV_WILLNEED); os.fsync(log)"
    )
    due_ns = trace.page.read().histogram(WAL_SYNC, "due").max
    if directions == "shared" and limit == "servers":
        assert 20e6 < due_ns <= 408e6  # less what the program took in between
    else:
        assert due_ns == pytest.approx(10e6 if directions == "shared" else 5e6, rel=0.02)


@pytest.mark.parametrize("in_order", [False, True])
def test_a_small_sync_waits_for_the_whole_of_a_large_one_in_order_alone(trace, run, in_order):
    """256 MiB take 128 ms of a device of 2 GB/s: small syncs have their turns in between."""
    points = {"sync": (SizePoint(8192, durations.constant(30_000)),)} | constant(read=1, write=1)
    model = DeviceModel("disk", "", "published", True, 64, points, {"write": 2 * 10**9})
    use(trace, replace(model, in_order=in_order))
    run(
        OPEN_TABLE + "import threading\n"
        "log = os.open('wal/log', os.O_RDWR | os.O_CREAT)\n"
        "for _ in range(32): os.write(fd, bytes(8 << 20))\n"
        "large = threading.Thread(target=os.fsync, args=(fd,))\n"
        "large.start()\n"
        "while True:\n"
        "    under_way = large.is_alive(); os.pwrite(log, bytes(8192), 0); os.fdatasync(log)\n"
        "    if not under_way: break"
    )
    reading = trace.page.read()
    assert reading.histogram(DATA_SYNC, "due").max >= 128_000_000
    small = reading.histogram(WAL_SYNC, "due")
    # Those that lose their processor meanwhile wait for longer.
    assert small.max >= 12_800_000 if in_order else small.percentile(50) < 12_800_000


def test_writes_complete_in_a_buffer_until_it_is_full(trace, run, virtual_time):
    buffer = WriteBuffer(MIB, 64 << 10, 2_000_000)
    moved = {"write": 10 * MIB}
    points = constant(read=1, write=5, sync=5)
    use(trace, DeviceModel("ssd", "", "published", False, 4, points, moved, write_buffer=buffer))
    virtual_time()
    run(
        OPEN_TABLE + "for _ in range(8): os.pwrite(fd, bytes(16384), 0)\n"  # programs twice
        "log = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.fsync(log); os.fsync(log)\n"
        "for _ in range(16): os.pwrite(fd, bytes(131072), 0)"
    )
    reading = trace.page.read()
    syncs = reading.histogram(WAL_SYNC, "due")
    assert syncs.max == pytest.approx(12_500_000, rel=0.02)  # 128 KiB at 10 MiB/s, and no more
    assert syncs.percentile(50) < 10_000  # the second one
    writes = reading.histogram(DATA_WRITE, "due")
    assert writes.percentile(50) < 10_000
    assert writes.max > 10_000_000  # of 12.5 ms, once it is full
