"""Reads and writes of files: which calls are made, what is timed, and what is left behind."""

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from microbench_build import execute, jobs, measured, spec_of

KIB, MIB, MS = 1 << 10, 1 << 20, 1_000_000
#: Of all architectures.
SYS_IO_URING_SETUP = 425
CALL = re.compile(
    r"\b(fadvise64|pread64|pwrite64|fsync|fdatasync|ftruncate|utimensat|io_uring_enter)\("
)


@pytest.fixture(params=["disk", "memory"])
def place(request, tmp_path):
    """A directory on the tests' disk, and one on a tmpfs."""
    if request.param == "disk":
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def memory():
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def file(**keys) -> dict[str, Any]:
    """A job that reads pages at random."""
    return {
        "kind": "file", "operation": "read", "pattern": "random", "access_bytes": 4 * KIB, **keys,
    }  # fmt: skip


def log(**keys) -> dict[str, Any]:
    """A job that writes a log."""
    return file(**{"operation": "write", "pattern": "sequential", "sync": "fdatasync", **keys})


def target(place: Path, size_bytes: int = 4 * MIB) -> dict[str, Any]:
    return {"t0": {"kind": "file", "path": str(place), "size_bytes": size_bytes}}


def total(encoded: str | None) -> int:
    """How many durations a histogram has."""
    return int(HdrHistogram.decode(encoded).get_total_count()) if encoded else 0


def refused(tested_build: Path, targets: dict[str, Any], job: dict[str, Any]) -> str:
    done = execute(tested_build / "microbench", spec_of(targets, measured(job, 10)))
    assert done.returncode == 2
    return done.stderr


def failed(tested_build: Path, targets: dict[str, Any], job: dict[str, Any], count: int) -> str:
    done = execute(tested_build / "microbench", spec_of(targets, measured(job, count)))
    assert done.returncode == 1
    return str(json.loads(done.stdout)["error"])


@pytest.mark.parametrize(
    "job",
    [
        file(),
        file(threads=4, access_bytes=16 * KIB),
        file(pattern="sequential", access_bytes=MIB, threads=2),
        file(direct="no", access_bytes=576),
        file(access_bytes=576),  # parts of blocks: past the page cache on some file systems alone
        file(operation="write", access_bytes=1600, sync="fsync"),
        file(operation="write"),
        file(operation="write", direct="no", sync="fsync", sync_every=10),
        log(sync="dsync"),
        log(access_bytes=512, direct="no"),
        log(threads=4, access_bytes=64 * KIB),
        log(threads=4, partitions=0, direct="no", appends=True),
        log(threads=4, appends=True, access_bytes=16 * KIB),
    ],
    ids=str,
)
def test_every_call_is_counted_and_timed(microbench, place, job):
    """Timed are those that were made while all threads ran."""
    (measured_job,) = jobs(microbench(target(place), measured(job, 200)))
    moved = "read_bytes" if job["operation"] == "read" else "written_bytes"
    assert measured_job["operations"] == 200
    assert measured_job[moved] == 200 * job["access_bytes"]
    assert measured_job["read_bytes"] + measured_job["written_bytes"] == measured_job[moved]
    facts, timed = measured_job["facts"], measured_job["window"]["operations"]
    synced = timed if job.get("sync") in ("fsync", "fdatasync") else 0
    assert total(measured_job["latency_hdr"]) == timed
    assert total(facts.get("write_call_hdr")) == synced
    assert total(facts.get("sync_hdr")) == synced // job.get("sync_every", 1)
    assert facts["direct"] is False or "direct" not in job
    assert all(thread["cpu_ns"] > 0 for thread in measured_job["threads"])
    assert list(place.iterdir()) == []


@pytest.fixture
def io_uring():
    """Containers, and kernel.io_uring_disabled, switch it off."""
    if ctypes.CDLL(None, use_errno=True).syscall(SYS_IO_URING_SETUP, 0, None) < 0 and (
        ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
    ):
        pytest.skip("io_uring is switched off")


@pytest.mark.usefixtures("io_uring")
@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_queue_is_filled_again_and_again(microbench, place, operation):
    """Operations under way at the end are waited for, and do not count in the measurement."""
    job = file(operation=operation, queue_depth=16, threads=2)
    measurement = {"duration_ns": 50 * MS, "warm_up_ns": 10 * MS, "repeats": 2, "jobs": [job]}
    result = microbench(target(place), measurement, measured(job, 1001))
    by_time, by_count = (measurement["repeats"] for measurement in result["measurements"])
    for repeat in (*by_time, *by_count):
        (measured_job,) = repeat["jobs"]
        moved = measured_job["read_bytes"] + measured_job["written_bytes"]
        assert moved == 4 * KIB * measured_job["operations"]
        assert total(measured_job["latency_hdr"]) == measured_job["window"]["operations"]
    assert by_count[0]["jobs"][0]["operations"] == 1001


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the calls")
@pytest.mark.parametrize(
    ("job", "calls"),
    [
        (file(), {"pread64": 288, "fadvise64": 0}),
        (file(cold=True), {"pread64": 288, "fadvise64": 288}),
        # The range has 16 accesses, before each sixteenth of which all of it is evicted.
        (file(cold=True, pattern="sequential"), {"pread64": 288, "fadvise64": 18}),
        (file(operation="write", threads=3), {"pwrite64": 288}),
        (log(), {"pwrite64": 288, "fdatasync": 288}),
        (log(sync="fsync", sync_every=4, threads=3), {"pwrite64": 288, "fsync": 72}),
        (log(retimed=True), {"pwrite64": 288, "fdatasync": 288, "utimensat": 288}),
        # The file has room for 16, and is cut for those that follow.
        (log(appends=True), {"pwrite64": 288, "fdatasync": 288, "ftruncate": 299 // 16}),
    ],
    ids=str,
)
def test_strace_sees_the_calls_that_are_counted(tested_build, memory, tmp_path, job, calls):
    """300 operations make so many calls more than 12: the others are those of preparation."""

    def seen(count: int) -> Counter[str]:
        spec = spec_of(target(memory, 64 * KIB), measured({**job, "direct": "no"}, count))
        path = tmp_path / f"strace-{count}"
        command = ["strace", "-f", "-qq", "-o", str(path), str(tested_build / "microbench"), "-"]
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # it traces, too
        subprocess.run(
            command, input=json.dumps(spec), text=True, env=environment, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return Counter(CALL.findall(path.read_text(errors="replace")))

    few, many = seen(12), seen(300)
    assert {name: many[name] - few[name] for name in calls} == calls


def test_a_growing_file_is_cut_when_it_is_full(microbench, place):
    """The time of the cut is subtracted; a second thread does not write meanwhile."""
    job = log(appends=True, range_bytes=64 * KIB)
    alone, shared = jobs(
        microbench(target(place), measured(job, 200), measured({**job, "threads": 2}, 200))
    )
    assert alone["facts"]["laps"] == (200 - 1) // 16
    assert 0 < shared["facts"]["laps"] <= (200 - 1) // 16
    ran_ns = alone["duration_ns"] - alone["facts"]["truncating_ns"]
    assert alone["operations_per_second"] == pytest.approx(200 * 1e9 / ran_ns)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_sync_serves_the_threads_that_wait_for_it(microbench, place, threads):
    """Each operation ends when a sync has covered it, which its own thread made or another."""
    job = log(threads=threads, grouped=True)
    (measured_job,) = jobs(microbench(target(place), measured(job, 200)))
    facts, timed = measured_job["facts"], measured_job["window"]["operations"]
    assert measured_job["operations"] == 200
    assert total(facts["write_call_hdr"]) == total(measured_job["latency_hdr"]) == timed
    # At the window's end, threads may be served by a sync that is no longer in it.
    assert timed // threads <= total(facts["sync_hdr"]) <= timed


def test_memory_that_is_touched_in_between_is_in_no_figure(microbench, memory):
    """It takes more than half of the time: a read of a tmpfs copies 4 KiB."""
    (measured_job,) = jobs(microbench(target(memory), measured(file(touch_bytes=16 * MIB), 50)))
    ran_s = measured_job["operations"] / measured_job["operations_per_second"]
    assert ran_s < measured_job["duration_ns"] / 1e9 / 2
    assert measured_job["threads"][0]["cpu_ns"] < measured_job["duration_ns"] / 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("outside", [True, False])
def test_what_an_operation_uses_outside_of_all_threads_is_stated(
    microbench, memory, outside, threads
):
    job = file(outside=outside, threads=threads)
    measured_jobs = jobs(microbench(target(memory), measured(job, 300)))
    (stated,) = [measured_job["facts"].get("outside_ns") for measured_job in measured_jobs]
    assert isinstance(stated, float) if outside else stated is None


def test_jobs_write_and_read_the_same_file_at_the_same_time(microbench, memory):
    half = 2 * MIB
    writer = {**log(range_bytes=half), "name": "writer"}
    reader = {**file(offset_bytes=half, range_bytes=half, threads=2), "name": "reader"}
    both = {"jobs": [{**job, "operations": 200} for job in (writer, reader)]}
    (repeat,) = microbench(target(memory), both)["measurements"][0]["repeats"]
    assert [job["operations"] for job in repeat["jobs"]] == [200, 200]


def test_a_pace_is_kept_without_the_processor(microbench, memory):
    """100 pages a second of each thread: the tenth is due after 90 ms at the earliest."""
    job = file(threads=2, pace={"bytes_per_second": 100 * 4 * KIB})
    (measured_job,) = jobs(microbench(target(memory), measured(job, 20)))
    assert measured_job["duration_ns"] >= 90 * MS
    assert all(thread["cpu_ns"] < 45 * MS for thread in measured_job["threads"])
    assert all(thread["excluded_cpu_ns"] > 0 for thread in measured_job["threads"])  # of sleeping


# ---- what cannot be measured ----


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("sync", {"sync": "fsync"}),
        ("sync_every", {"operation": "write", "sync_every": 2}),
        ("appends", {"appends": True}),
        ("appends", {"operation": "write", "appends": True}),
        ("grouped", {"operation": "write", "grouped": True}),
        ("grouped", {"operation": "write", "sync": "fsync", "sync_every": 2, "grouped": True}),
        ("queue_depth", {"queue_depth": 2, "direct": "no"}),
        ("queue_depth", {"queue_depth": 2, "operation": "write", "sync": "fsync"}),
        ("queue_depth", {"queue_depth": 2, "pace": {"pause_ns": 5}}),
        ("queue_depth", {"queue_depth": 2, "touch_bytes": 64}),
        ("cold", {"cold": True}),
        ("retimed", {"retimed": True}),
        ("cold", {"cold": True, "direct": "no", "operation": "write"}),
        ("access_bytes", {"direct": "yes", "access_bytes": 576}),
        ("access_bytes", {"access_bytes": 100}),
        ("range_bytes", {"range_bytes": 4 * KIB, "threads": 2, "partitions": 2}),
        ("operation", {"operation": "copy"}),
    ],
    ids=str,
)
def test_keys_that_contradict_are_refused(tested_build, memory, key, keys):
    assert f"job j0: {key}: " in refused(tested_build, target(memory), file(**keys))


def test_other_jobs_need_another_target(tested_build, memory):
    load = {"kind": "throughput", "operation": "load", "pattern": "random", "access_bytes": 64}
    spec = spec_of(target(memory), measured(load), measured(file()))
    assert execute(tested_build / "microbench", spec).returncode == 2
    memory_only = {"t0": {"kind": "dram", "size_bytes": MIB}}
    assert "job j0: target: " in refused(tested_build, memory_only, file())


def test_a_file_that_cannot_be_opened_is_named(tested_build):
    """/proc is a file system in which no file can be made."""
    assert "target t0: /proc" in failed(tested_build, target(Path("/proc")), file(), 10)


def test_a_file_that_is_there_is_written_only_if_that_is_said(tested_build, microbench, tmp_path):
    path = tmp_path / "mine"
    path.write_bytes(bytes(MIB))
    assert "overwrite" in refused(tested_build, target(path, MIB), file())
    assert path.read_bytes() == bytes(MIB)
    mine = {"t0": {**target(path, MIB)["t0"], "overwrite": True}}
    assert jobs(microbench(mine, measured(file(), 20)))[0]["operations"] == 20
    assert "appends: " in refused(tested_build, mine, log(appends=True))
    assert path.stat().st_size == MIB


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
@pytest.mark.parametrize("job", [file(), log(appends=True)], ids=["file", "growing"])
def test_a_full_disk_is_an_error_and_leaves_nothing(tested_build, tmp_path, job):
    """As it is made, or while it grows: there is room for the file, but not for another one."""
    size_bytes = 4 * MIB if job["operation"] == "read" else MIB
    options = "size=1500k,mode=777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", tmp_path], check=True)
    try:
        words = failed(tested_build, target(tmp_path, size_bytes), job, 1000)
        assert os.strerror(errno.ENOSPC) in words
        assert list(tmp_path.iterdir()) == []
        assert os.statvfs(tmp_path).f_bfree == os.statvfs(tmp_path).f_blocks
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_stopped_leaves_no_file(tested_build, place, number):
    job = log(appends=True, threads=2)
    spec = spec_of(target(place), {"duration_ns": 3600 * 1000 * MS, "jobs": [job]})
    reading, writing = os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" - 3>&{writing}', tested_build / "microbench"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[writing], text=True,
    )  # fmt: skip
    os.close(writing)
    with process, os.fdopen(reading) as progress:
        assert process.stdin is not None
        process.stdin.write(json.dumps({**spec, "report_windows": True}))
        process.stdin.close()
        while "window_begins" not in (line := progress.readline()):
            assert line, "it ended"
        assert list(place.iterdir()) == []
        process.send_signal(number)
    assert process.returncode == -number
    assert list(place.iterdir()) == []
