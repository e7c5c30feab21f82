"""Calls that the preloaded library counts in programs whose calls are known."""

import signal
import subprocess

import pytest
from traced_calls import DATA_READ, DATA_WRITE, OPEN, WAL_SYNC, WAL_WRITE, counted

from harness.iotrace.page import SIZE_CLASSES, CounterCell, file_key

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
    cell = CounterCell("wal", operation, "foreground")
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
        "for _ in range(100):\n"
        "    thread = threading.Thread(target=write); thread.start(); thread.join()\n"
        # One that has been joined holds its slot until the kernel has removed it.
        "    while os.path.exists(f'/proc/self/task/{thread.native_id}'): os.sched_yield()\n"
    )
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (100, 700)
    assert trace.page.read().slots <= 2


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
    assert counted(trace, CounterCell("data", "sync", role), "calls") == (1,)


def test_each_file_has_counters_of_its_own(trace, place, run):
    run(
        OPEN.format("data/a") + "os.pwrite(fd, bytes(8192), 0); os.pread(fd, 512, 0)\n"
        "os.fsync(fd)\n" + OPEN.format("data/b") + "os.pwrite(fd, bytes(4096), 0)\n"
        + OPEN.format("elsewhere/c") + "os.pwrite(fd, bytes(4096), 0)"
    )  # fmt: skip
    files = trace.page.read().files
    a, b, c = (file_key((place / name).stat()) for name in ("data/a", "data/b", "elsewhere/c"))
    foreground, background = files[a]
    assert foreground[:, :2].tolist() == [[1, 512], [1, 8192], [1, 0]]
    assert all(foreground[:, 2] > 0) and not background.any()
    assert files[b][0, :, 0].tolist() == [0, 1, 0]
    assert c not in files


def test_mapped_files_are_reported(trace, run):
    run(
        "import mmap\n" + OPEN.format("wal/log") + "os.truncate(fd, 65536)\n"
        "mmap.mmap(fd, 65536)[:5] = b'below'"
    )
    reading = trace.page.read()
    assert {part: size for part, size in reading.mapped_bytes.items() if size} == {"wal": 65536}
    assert reading.value(CounterCell("wal", "write", "foreground"), "calls") == 0


def test_a_killed_process_leaves_its_counts(trace, start):
    with start(
        OPEN.format("data/t") + "os.write(fd, bytes(7))\nprint(1, flush=True)\nimport signal\n"
        "while True: signal.pause()"
    ) as process:
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGKILL)
    assert counted(trace, DATA_WRITE, "calls", "bytes") == (1, 7)


#: Scattered reads of a file on a disk, none of which reads ahead.
SCATTERED = """
fd = os.open("data/table", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(fd, 0, 16 << 20)
os.pwrite(fd, bytes(16 << 20), 0)
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
"""
#: Sixteen reads of 4 KiB are probed in the mean.
READS = "[os.pread(fd, 4096, at << 16) for at in range(256)]\n"


def test_reads_that_are_probed_tell_whether_linux_has_the_pages(trace, start, tmp_path):
    (tmp_path / "data").mkdir()
    trace.directories = {"data": tmp_path / "data"}
    evict = "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
    for read, share in ((evict + READS * 8, 7 / 8), (evict + READS, 0), (READS, 1)):
        probed, cached = counted(trace, DATA_READ, "probed", "cached")
        with start(SCATTERED + read, cwd=tmp_path) as process:
            assert process.wait() == 0
        more = counted(trace, DATA_READ, "probed", "cached")
        assert more[0] > probed
        assert (more[1] - cached) / (more[0] - probed) == pytest.approx(share, abs=0.15)
