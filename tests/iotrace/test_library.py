"""Calls that the preloaded library counts and delays in programs whose calls are known."""

import signal
import subprocess
from dataclasses import replace

import pytest

from harness.drivers.client_program import histogram
from harness.iotrace.page import SIZE_CLASSES, Cell, Delay
from harness.models import durations
from harness.models.device import (
    DeviceModel,
    Point,
    WriteBuffer,
    models_table,
)
from harness.models.page_cache import PageCache

DATA_READ = Cell("data", "read", "foreground")
DATA_WRITE = Cell("data", "write", "foreground")
DATA_SYNC = Cell("data", "sync", "foreground")
WAL_WRITE = Cell("wal", "write", "foreground")
WAL_SYNC = Cell("wal", "sync", "foreground")
#: ``submit(n)``: writes with Linux AIO, one at a time, through the library's names.
AIO = """
import ctypes, struct
lib = ctypes.CDLL(os.environ["LD_PRELOAD"])
context, data, blocks = ctypes.c_ulong(), ctypes.create_string_buffer(512), []
setup = {"x86_64": 206, "aarch64": 0}[os.uname().machine]
ctypes.CDLL(None).syscall(setup, 8, ctypes.byref(context))
def submit(count):
    for _ in range(count):
        block = ctypes.create_string_buffer(struct.pack(
            "<QIiHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(data), 512, 0, 0, 0, 0))
        blocks.append(block)
        one = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        assert lib.io_submit(context, ctypes.c_long(1), one) == 1
def reap(count, call=lib.io_getevents, *number):
    events, all_of_them = ctypes.create_string_buffer(32 * count), ctypes.c_long(count)
    assert call(*number, context, all_of_them, all_of_them, events, None) == count
def reap_by_system_call(count):
    reap(count, ctypes.CDLL(None).syscall, {"x86_64": 208, "aarch64": 4}[os.uname().machine])
def reap_unseen(count):
    libc = ctypes.CDLL("libc.so.6")
    reap(count, libc.syscall, {"x86_64": 208, "aarch64": 4}[os.uname().machine])
"""
#: ``submit_ring(flags)``: three writes in liburing's ``struct io_uring``, as 2.0 to 2.3 have it.
URING = """
import ctypes, struct
from ctypes import c_size_t, c_uint, c_void_p
lib = ctypes.CDLL(os.environ["LD_PRELOAD"])
ctypes.CDLL("./liburing.so", ctypes.RTLD_GLOBAL)
class Ring(ctypes.Structure):
    _fields_ = [
        ("sq_words", c_void_p * 7), ("sqes", c_void_p), ("sqe_head", c_uint), ("sqe_tail", c_uint),
        ("sq_bytes", c_size_t), ("sq_ring", c_void_p), ("sq_sizes", c_uint * 4),
        ("cq_words", c_void_p * 7), ("cq_bytes", c_size_t), ("cq_ring", c_void_p),
        ("cq_sizes", c_uint * 4), ("flags", c_uint), ("rest", c_uint * 8)]
def submit_ring(flags):
    size, mask = 128 if flags else 64, c_uint(3)
    entries = ctypes.create_string_buffer(4 * size)
    for i in range(3):
        struct.pack_into("<BBHiQQI", entries, i * size, 23, 0, 0, fd, 512 * i, 0, 512)
    ring = Ring(sqes=ctypes.addressof(entries), sqe_tail=3, flags=flags)
    ring.sq_words[2] = ctypes.addressof(mask)
    assert lib.io_uring_submit(ctypes.byref(ring)) == 3
"""
OPEN = "fd = os.open({!r}, os.O_RDWR | os.O_CREAT)\n"


def counted(trace, cell, *fields):
    reading = trace.page.read()
    return tuple(reading.value(cell, field) for field in fields)


@pytest.mark.parametrize(
    ("call", "operation", "size"),
    [
        ("os.write(fd, bytes(9000))", "write", 9000),
        ("os.pwrite(fd, bytes(9000), 5)", "write", 9000),
        ("os.writev(fd, [bytes(4000), bytes(5000)])", "write", 9000),
        ("os.pwritev(fd, [bytes(4000), bytes(5000)], 5)", "write", 9000),
        ("os.pwritev(fd, [bytes(9000)], 5, os.RWF_DSYNC)", "write", 9000),
        ("os.read(fd, 9000)", "read", 0),
        ("os.truncate(fd, 9000); os.pread(fd, 9000, 0)", "read", 9000),
        ("os.truncate(fd, 9000); os.readv(fd, [bytearray(9000)])", "read", 9000),
        ("os.truncate(fd, 9000); os.preadv(fd, [bytearray(9000)], 0)", "read", 9000),
        ("os.fsync(fd)", "sync", 0),
        ("os.fdatasync(fd)", "sync", 0),
    ],
)
def test_each_call_is_counted_by_part_and_operation(trace, run, call, operation, size):
    run(OPEN.format("wal/log") + call)
    reading = trace.page.read()
    cell = Cell("wal", operation, "foreground")
    assert reading.value(cell, "calls") == reading.value(cell, "timed") == 1
    assert reading.value(cell, "bytes") == size
    histogram = reading.histogram(cell)
    assert histogram.total == 1
    low, high = histogram.layout.bounds()
    counter = int(reading.details["durations"][cell].argmax())
    assert low[counter] <= reading.value(cell, "ns") <= high[counter]
    if operation != "sync":
        smallest = next(i for i, most in enumerate(SIZE_CLASSES) if size <= most)
        assert list(reading.sizes[cell].nonzero()[0]) == [smallest]


def test_a_copy_is_a_read_of_one_part_and_a_write_of_another(trace, run):
    run(
        OPEN.format("data/table")
        + "to = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.truncate(fd, 5000)\n"
        + "os.copy_file_range(fd, to, 3000); os.sendfile(to, fd, 3000, 2000)"
    )
    assert counted(trace, DATA_READ, "calls", "bytes") == (2, 5000)
    assert counted(trace, WAL_WRITE, "calls", "bytes") == (2, 5000)


def test_what_a_planted_delay_of_the_read_takes_is_no_time_of_the_write(trace, run):
    trace.page.plant([DATA_READ], Delay(500_000_000))
    run(
        OPEN.format("data/table") + "os.write(fd, bytes(10))\n"
        "to = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.copy_file_range(fd, to, 10, 0)"
    )
    (delay_ns,) = counted(trace, DATA_READ, "delay_ns")
    (ns,) = counted(trace, WAL_WRITE, "ns")
    assert 0 < ns < delay_ns


def test_a_file_belongs_to_its_part_by_whatever_name_it_was_opened(trace, run):
    run(
        "os.symlink(os.path.abspath('data'), 'elsewhere/link')\n"
        "for name in ('data/a', './data/../data/b', 'elsewhere/link/c'):\n"
        "    fd = os.open(name, os.O_RDWR | os.O_CREAT); os.write(fd, b'x' * 10)\n"
        "    os.unlink(name); os.write(os.dup(fd), b'x' * 10); os.close(fd)\n"
        "fd = os.open('elsewhere/file', os.O_RDWR | os.O_CREAT); os.write(fd, b'x' * 10)\n"
    )
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (6, 60)


def test_failed_calls_are_errors_without_a_duration(trace, run):
    run(
        "fd = os.open('data/table', os.O_RDONLY | os.O_CREAT)\n"
        "try: os.write(fd, b'x')\nexcept OSError as error: assert error.errno == 9"
    )
    assert counted(trace, DATA_WRITE, "calls", "errors", "timed", "bytes") == (1, 1, 0, 0)


def test_how_a_file_is_written_is_counted(trace, run):
    run(
        "fd = os.open('data/table', os.O_RDWR | os.O_CREAT | os.O_DSYNC)\n"
        "for at in (0, 100, 200, 50): os.pwrite(fd, bytes(100), at)"
    )
    assert counted(trace, DATA_WRITE, "calls", "durable", "sequential") == (4, 4, 2)


def test_writes_beyond_what_was_written_are_extending(trace, run):
    run(
        OPEN.format("data/table") + "for at in (0, 50, 100): os.pwrite(fd, bytes(100), at)\n"
        "other = os.open('data/table', os.O_RDWR); os.pwrite(other, bytes(150), 0)\n"
        "os.pwrite(fd, bytes(50), 300); os.pwrite(other, bytes(50), 250)\n"
        "os.write(os.open('data/table', os.O_WRONLY | os.O_APPEND), bytes(7))"
    )
    assert counted(trace, DATA_WRITE, "calls", "extending") == (7, 5)


def test_a_sync_counts_what_was_written_since_the_last(trace, run):
    run(
        OPEN.format("wal/log")
        + "os.write(fd, bytes(700)); os.write(fd, bytes(800)); os.fsync(fd)\n"
        "os.write(fd, bytes(600)); os.fdatasync(fd); os.fdatasync(fd)"
    )
    assert counted(trace, WAL_SYNC, "calls", "datasync", "dirtied_bytes") == (3, 2, 2100)
    assert trace.page.read().sizes[WAL_SYNC].tolist()[:4] == [0, 1, 1, 0]


def test_a_hint_to_write_back_is_no_sync(trace, run):
    run(
        OPEN.format("wal/log") + "import ctypes; libc = ctypes.CDLL(None)\n"
        "os.write(fd, bytes(700)); assert libc.sync_file_range(fd, 0, 700, 2) == 0; os.fsync(fd)"
    )
    assert counted(trace, WAL_SYNC, "calls", "dirtied_bytes") == (1, 700)


def test_a_descriptor_keeps_its_position_when_its_flags_change(trace, run):
    run(
        OPEN.format("wal/log") + "import fcntl\n"
        "os.write(fd, bytes(700)); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)\n"
        "os.write(fd, bytes(800)); fcntl.fcntl(fd, fcntl.F_SETFL, 0); os.lseek(fd, 0, 0)\n"
        "os.write(fd, bytes(100)); os.fsync(fd)"
    )
    assert counted(trace, WAL_WRITE, "calls", "extending", "sequential") == (3, 2, 1)
    assert counted(trace, WAL_SYNC, "dirtied_bytes") == (1600,)


@pytest.mark.parametrize("reopened", ["os.close(fd)", "os.dup2(os.open('data/b', 2), fd)"])
def test_another_file_does_not_inherit_a_position(trace, run, reopened):
    """One that was set before the descriptor's first use."""
    run(
        "for name in ('a', 'b'):\n"
        "    with open(f'data/{name}', 'wb', 0) as file: file.truncate(9000)\n"
        f"fd = os.open('data/a', os.O_RDWR); os.lseek(fd, 8500, 0); {reopened}\n"
        "fd = os.open('data/b', os.O_RDWR) if 'close' in "
        f"{reopened!r} else fd\n"
        "for _ in range(2): os.write(fd, bytes(1000))"
    )
    assert counted(trace, DATA_WRITE, "calls", "extending") == (2, 0)


def test_a_duplicate_of_itself_stays_as_it_is(trace, run):
    run(
        OPEN.format("wal/log") + "os.write(fd, bytes(700)); assert os.dup2(fd, fd) == fd\n"
        "os.fsync(fd); os.close(fd)\n"
        "try: os.dup2(fd, fd)\nexcept OSError as error: assert error.errno == 9"
    )
    assert counted(trace, WAL_SYNC, "dirtied_bytes") == (700,)


def test_a_stream_that_opens_another_file_changes_its_part(trace, run):
    run(
        "import ctypes; libc = ctypes.CDLL(None); libc.fopen.restype = ctypes.c_void_p\n"
        "libc.freopen.restype = ctypes.c_void_p\n"
        "stream = ctypes.c_void_p(libc.fopen(b'data/table', b'w'))\n"
        "os.write(libc.fileno(stream), bytes(7))\n"
        "assert libc.freopen(b'wal/log', b'w', stream); os.write(libc.fileno(stream), bytes(8))"
    )
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (1, 7)
    assert counted(trace, WAL_WRITE, "calls", "bytes") == (1, 8)


def test_asynchronous_calls_count_others_under_way(trace, run):
    run(OPEN.format("data/table") + AIO + "submit(3)\nreap(3)\nsubmit(2)\nreap_by_system_call(2)")
    assert counted(trace, DATA_WRITE, "calls", "submitted", "timed") == (5, 5, 5)
    assert counted(trace, DATA_WRITE, "queue_known", "queued") == (5, 0 + 1 + 2 + 0 + 1)


def test_how_many_are_under_way_is_unknown_where_an_end_was_not_seen(trace, run):
    """A block that is submitted again has ended."""
    run(
        OPEN.format("data/table") + AIO + "submit(2)\nreap_unseen(2)\n"
        "again = (ctypes.c_void_p * 1)(ctypes.addressof(blocks[0]))\n"
        "for _ in range(3):\n"
        "    assert lib.io_submit(context, ctypes.c_long(1), again) == 1; reap(1)"
    )
    assert counted(trace, DATA_WRITE, "submitted", "timed", "queue_known") == (5, 3, 2)


@pytest.mark.parametrize("flags", [0, 1 << 10])  # entries of 64 bytes, and of 128
def test_entries_of_an_io_uring_are_counted_and_their_queue_is_unknown(trace, run, place, flags):
    accepts = b"int io_uring_submit(void *ring) { (void)ring; return 3; }"
    command = ["cc", "-shared", "-fPIC", "-o", place / "liburing.so", "-x", "c", "-"]
    subprocess.run(command, input=accepts, check=True)
    run(OPEN.format("data/table") + URING + f"submit_ring({flags})")
    assert counted(trace, DATA_WRITE, "calls", "bytes", "submitted") == (3, 1536, 3)
    assert counted(trace, DATA_WRITE, "queue_known", "queued", "timed") == (0, 0, 0)


def test_forked_children_threads_and_executed_programs_are_counted(trace, run):
    write = "os.write(os.open('data/t', os.O_WRONLY | os.O_CREAT), bytes(7))"
    run(
        f"import threading, time\n{write}\n"
        f"thread = threading.Thread(target=lambda: {write}); thread.start(); thread.join()\n"
        "while os.path.exists(f'/proc/self/task/{thread.native_id}'): time.sleep(0.001)\n"
        f"if os.fork() == 0: {write}; os._exit(0)\n"
        "os.wait()\n"
        "import sys; os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', "
        f'"import os; {write}"])'
    )
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (4, 28)
    assert trace.page.read().slots == 2  # a program that is executed keeps its slot


def test_slots_of_ended_threads_are_used_again(trace, run):
    run(
        "import threading\n"
        "def write(): os.write(os.open('data/t', os.O_WRONLY | os.O_CREAT), bytes(7))\n"
        "for _ in range(1100):\n"
        "    thread = threading.Thread(target=write); thread.start(); thread.join()\n"
    )
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (1100, 7700)
    # One that has been joined holds its slot until the kernel has removed it.
    assert trace.page.read().slots < 100


@pytest.mark.parametrize(
    ("name", "role"), [("flusher-3", "background"), ("connection", "foreground")]
)
def test_the_role_is_that_of_the_threads_name(trace, run, name, role):
    run(
        "import ctypes, threading\n"
        "def work():\n"
        f"    ctypes.CDLL(None).prctl(15, b{name!r}, 0, 0, 0)\n"
        "    os.fsync(os.open('data/t', os.O_RDWR | os.O_CREAT))\n"
        "threading.Thread(target=work).start()"
    )
    assert counted(trace, Cell("data", "sync", role), "calls") == (1,)


def test_mapped_files_are_reported(trace, run):
    run(
        "import mmap\n" + OPEN.format("wal/log") + "os.truncate(fd, 65536)\n"
        "mmap.mmap(fd, 65536)[:5] = b'below'"
    )
    reading = trace.page.read()
    assert reading.mapped_bytes == {"data": 0, "wal": 65536, "temp": 0, "index": 0}
    assert reading.value(Cell("wal", "write", "foreground"), "calls") == 0


def test_a_killed_process_leaves_its_counts(trace, start):
    with start(
        OPEN.format("data/t") + "os.write(fd, bytes(7))\nprint(1, flush=True)\nimport signal\n"
        "while True: signal.pause()"
    ) as process:
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGKILL)
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (1, 7)


def syncs(trace, run, delay):
    """Histogram of 500 syncs, which take next to nothing on a tmpfs.

    A busy machine wakes some threads late, or gives their processor to others in the middle of a
    call: it lengthens delays and calls, never shortens them.
    """
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
    assert histogram.percentile(5) <= 210_000


def test_a_jittered_delay_is_spread_evenly(trace, run):
    histogram = syncs(trace, run, Delay(200_000, 50_000))
    assert histogram.percentile(0) >= 150_000
    assert histogram.percentile(5) <= 166_000
    assert histogram.percentile(95) >= 235_000


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


# Calls on a device that is not there: which wait, for what, and how long --------

MIB = 1 << 20
OPEN_TABLE = OPEN.format("data/table")
#: A file on the base tier that the modelled device has, and its page cache has not.
STORED = OPEN_TABLE + "os.truncate(fd, 1 << 20)\n"


def constant(**points_us):
    """Each operation takes that many microseconds."""
    return {
        name: (Point(4096, durations.constant(duration * 1000)),)
        for name, duration in points_us.items()
    }


def use(trace, model, size_bytes=None, available=1 << 40, parts=("data", "wal")):
    """``size_bytes``: of the page cache; ``available``: a fifth of it may be dirty."""
    models = dict.fromkeys(parts, model)
    tiers = dict.fromkeys(parts, "fast")
    cache = PageCache(size_bytes, available // 10, available // 5, 30_000_000_000)
    trace.page.model(models_table(models, tiers, cache))


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


@pytest.mark.parametrize("in_engine", [False, True])
def test_a_buffered_read_copies_when_the_device_is_done(trace, run, in_engine):
    """8 MiB cannot be copied in 0.2 ms; an engine's durations contain the copying."""
    points = {"read": (Point(4096, durations.constant(5_000_000)),)}
    use(trace, DeviceModel("disk", "", "published", points=points, in_engine=in_engine))
    run(
        OPEN_TABLE + "os.truncate(fd, 8 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
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
        OPEN_TABLE + "os.truncate(fd, 65 << 20); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)\n"
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
        OPEN_TABLE
        + "for i in range(3): os.pwrite(fd, bytes(4096), 0); os.pread(fd, 4096, 0)\nos.fsync(fd)"
    )
    assert counted(trace, DATA_WRITE, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_READ, "modelled", "cached") == (3, 0)
    assert counted(trace, DATA_SYNC, "modelled") == (1,)


def test_a_write_is_free_until_a_sync_pays_for_what_is_dirty_whoever_wrote_it(trace, run):
    by_size = (Point(4096, durations.constant(1000)), Point(MIB, durations.constant(9_000_000)))
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


def test_a_sync_with_its_processor_time_uses_it_and_is_not_passed_on(trace, run):
    """Linux syncs no pipe, which a modelled sync does not find out."""
    stated = replace(buffered(read=1, write=1, sync=9000), processor_ns={"sync": 8_000_000})
    use(trace, stated)
    used = run(
        "import time\nos.mkfifo('wal/pipe')\nfd = os.open('wal/pipe', os.O_RDWR)\n"
        "start = time.thread_time_ns()\nos.fsync(fd)\nprint(time.thread_time_ns() - start)"
    )
    assert int(used) >= 7_500_000
    assert trace.page.read().histogram(WAL_SYNC, "achieved").max >= 9_000_000


def test_durations_are_drawn_from_the_distribution_of_their_size(trace, run):
    """Reads of 10 us, of which one in fifty stalls for 300 us."""
    measured = histogram([10_000, 300_000], [980, 20])
    points = {
        "read": (
            Point(4096, durations.of_histogram(measured)),
            Point(16384, durations.constant(400_000)),
        )
    }
    use(trace, DeviceModel("disk", "", "published", False, points=points))
    run(STORED + "for i in range(8000): os.pread(fd, 4096, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    _, high = due.layout.bounds()
    assert due.counts[high < 20_000].sum() / 8000 == pytest.approx(0.98, abs=0.02)
    assert due.mean == pytest.approx(980 * 10 + 20 * 300, rel=0.15)  # of some 160 stalls


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


def test_a_small_sync_does_not_wait_for_the_whole_of_a_large_one(trace, run):
    """256 MiB take 128 ms of a device of 2 GB/s: small syncs have their turns in between."""
    points = {"sync": (Point(8192, durations.constant(30_000)),)} | constant(read=1, write=1)
    use(trace, DeviceModel("disk", "", "published", True, 64, points, {"write": 2 * 10**9}))
    run(
        OPEN_TABLE + "import threading\n"
        "log = os.open('wal/log', os.O_RDWR | os.O_CREAT)\n"
        "for _ in range(32): os.write(fd, bytes(8 << 20))\n"
        "large = threading.Thread(target=os.fsync, args=(fd,))\n"
        "large.start()\n"
        "while large.is_alive(): os.pwrite(log, bytes(8192), 0); os.fdatasync(log)"
    )
    reading = trace.page.read()
    assert reading.histogram(DATA_SYNC, "due").max >= 128_000_000
    assert reading.histogram(WAL_SYNC, "due").percentile(90) < 10 * 34_000


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


def test_a_burst_passes_before_the_bandwidth_limits(trace, run):
    moved, burst = {"read": 10 * MIB}, {"read": 2 * MIB}
    use(trace, DeviceModel("disk", "", "published", False, 64, constant(read=1), moved, burst))
    run(STORED + "for _ in range(4): os.pread(fd, 1 << 20, 0)")
    due = trace.page.read().histogram(DATA_READ, "due")
    assert due.percentile(50) < 10_000
    assert 20_000_000 < due.percentile(100) <= 101_000_000  # less what the calls themselves took


def test_writes_complete_in_a_buffer_until_it_is_full(trace, run):
    buffer = WriteBuffer(MIB, 64 << 10, 2_000_000)
    moved = {"write": 10 * MIB}
    points = constant(read=1, write=5, sync=5)
    use(trace, DeviceModel("ssd", "", "published", False, 4, points, moved, write_buffer=buffer))
    run(
        OPEN_TABLE + "for _ in range(8): os.pwrite(fd, bytes(16384), 0)\n"  # programs twice
        "log = os.open('wal/log', os.O_RDWR | os.O_CREAT); os.fsync(log); os.fsync(log)\n"
        "for _ in range(16): os.pwrite(fd, bytes(131072), 0)"
    )
    reading = trace.page.read()
    syncs = reading.histogram(WAL_SYNC, "due")
    assert 1_000_000 < syncs.max < 14_000_000  # 128 KiB at 10 MiB/s, and no more
    assert syncs.percentile(50) < 10_000  # the second one
    writes = reading.histogram(DATA_WRITE, "due")
    assert writes.percentile(50) < 10_000
    assert writes.max > 10_000_000  # of 12.5 ms, once it is full


def test_a_full_page_cache_evicts_what_was_not_used_again(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), size_bytes=2 * MIB)
    run(
        OPEN_TABLE + "os.truncate(fd, 64 << 20)\n"
        "for i in range(2):\n    for at in range(0, 64 << 20, 65536): os.pread(fd, 4096, at)"
    )
    calls, modelled = counted(trace, DATA_READ, "calls", "modelled")
    assert calls == 2048
    assert modelled > 1900


def test_a_writer_waits_where_too_much_is_dirty(trace, run):
    use(trace, buffered(read=1, write=1, sync=1), available=10 * MIB)
    run(OPEN_TABLE + "for at in range(0, 8 << 20, 65536): os.pwrite(fd, bytes(65536), at)")
    modelled, cached = counted(trace, DATA_WRITE, "modelled", "cached")
    assert modelled + cached == 128
    assert cached >= 32  # two MiB are below the limit
