"""The program as a whole: specs, targets, threads, addresses, counts."""

import ctypes
import fcntl
import json
import math
import os
import struct
import tempfile
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from microbench_build import chain, execute, jobs, latency, measured, spec_of, throughput

MIB = 1 << 20
MS = 1_000_000
LINE = 64
STORED = b"\xa5"
KEEP_SIZE, PUNCH_HOLE = 1, 2  # linux/falloc.h
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
DRAM = {"near": {"kind": "dram", "pages": "base", "size_bytes": 16 * MIB}}


def only_job(result: dict[str, Any]) -> dict[str, Any]:
    (job,) = jobs(result)
    return job


def lines_of(path: Path) -> list[bool]:
    """Report for each line of a file if it was stored; half a line is an error."""
    content = path.read_bytes()
    lines = [content[at : at + LINE] for at in range(0, len(content), LINE)]
    assert set(lines) <= {STORED * LINE, bytes(LINE)}
    return [line == STORED * LINE for line in lines]


@pytest.fixture
def written(tmp_path, microbench):
    """Run one job over a file of zeros; the job's result, and which lines it stored."""

    def run(size_bytes: int, seed: int = 1, **job) -> tuple[dict[str, Any], list[bool]]:
        path = tmp_path / "target"
        path.write_bytes(bytes(size_bytes))
        target = {"kind": "file", "path": str(path), "size_bytes": size_bytes, "overwrite": True}
        measurement = {"jobs": [throughput(**{"operation": "store", **job})]}
        return only_job(microbench({"t": target}, measurement, seed=seed)), lines_of(path)

    return run


def test_pages_taken_away_while_they_are_measured_are_counted(microbench):
    """By holes, punched into a file in memory each millisecond: no disk is waited for."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="tierbench-test-") as file:
        ended = threading.Event()

        def punch() -> None:
            while not ended.wait(0.001):
                assert _fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, 0, MIB) == 0

        target = {"kind": "file", "path": file.name, "size_bytes": MIB, "overwrite": True}
        file.truncate(MIB)
        taker = threading.Thread(target=punch)
        taker.start()
        try:
            measurement = {"duration_ns": 300 * MS, "jobs": [throughput("store")]}
            (thread,) = only_job(microbench({"t": target}, measurement))["threads"]
        finally:
            ended.set()
            taker.join()
    assert thread["minor_faults"] > 0


# ---- what is written ----


@pytest.mark.parametrize("isa", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("access", [64, 192, 1024, 4096])
def test_a_sequential_lap_stores_every_line(written, isa, access):
    """Custom operations of 1 KiB touch all of it: the peer's touched 512 bytes."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii")
    if isa == "avx512" and "avx512f" not in flags:
        isa = "auto"  # the compiled loops are counted in test_microbench_loops.py
    size = access * 256
    job, lines = written(size, access_bytes=access, operations=256, isa=isa)
    assert all(lines)
    assert job["operations"] == 256
    assert (job["read_bytes"], job["written_bytes"]) == (0, size)
    assert isa in ("auto", job["facts"]["isa"])


@pytest.mark.parametrize(
    "how",
    [
        {"operation": "ntstore"},
        {"operation": "ntstore", "fence": "sfence"},
        {"flush": "clwb", "fence": "sfence"},
        {"flush": "clwb", "fence": "mfence", "flush_when": "line"},
        {"flush": "clflushopt", "fence": "sfence", "flush_when": "line"},
        {"flush": "clflush"},
        {"fence": "sfence", "fence_every_bytes": 256},
        {"fence": "sfence", "fence_every_bytes": 4096},
        {"pattern": "sequential_desc"},
        {"threads": 2},
        {"threads": 2, "partitions": 0},
        {"threads": 4, "partitions": 2, "chunk_bytes": 8192, "pattern": "sequential_desc"},
        {"pattern": "strided", "stride_bytes": 8192},
    ],
    ids=str,
)
def test_however_it_is_stored_all_of_it_is(written, how):
    job, lines = written(MIB, access_bytes=1024, operations=1024, **how)
    assert all(lines)
    assert job["written_bytes"] == MIB
    assert job["durable"] == "no"
    assert "MAP_SYNC" in job["durable_why"]


def test_random_stores_are_drawn_from_the_seed(written):
    first, lines = written(MIB, pattern="random", operations=4096)
    _, again = written(MIB, pattern="random", operations=4096)
    _, other = written(MIB, pattern="random", operations=4096, seed=2)
    assert lines == again
    assert lines != other
    # 4096 draws of 16384 lines: about 16384 · (1 - e^-¼) = 3624 different ones.
    assert 3450 < sum(lines) < 3800
    assert first["operations"] == 4096


def test_a_hot_spot_and_a_range_are_kept_to(written):
    _, lines = written(
        MIB, pattern="hotspot", hotspot_bytes=4096, offset_bytes=65536, range_bytes=131072,
        operations=5000,
    )  # fmt: skip
    assert all(lines[1024:1088])
    assert sum(lines) == 64


def test_reading_leaves_everything_as_it_is(written):
    job, lines = written(MIB, operation="load", operations=20000, pattern="random")
    assert not any(lines)
    assert (job["read_bytes"], job["written_bytes"]) == (20000 * LINE, 0)
    assert job["durable"] is None


# ---- mixes ----


def test_a_mix_has_its_share_of_reads(written):
    job, lines = written(
        MIB, operation="mixed", read_share=0.7, pattern="random", operations=10000,
        flush="clwb", fence="sfence",
    )  # fmt: skip
    assert job["read_bytes"] == pytest.approx(7000 * LINE, abs=32 * LINE)
    assert job["read_bytes"] + job["written_bytes"] == 10000 * LINE
    assert any(lines)


def test_a_second_target_gets_its_share(microbench):
    targets = {**DRAM, "far": {"kind": "dram", "pages": "base", "size_bytes": MIB}}
    second = {"target": "far", "share": 0.25}
    requested = throughput(pattern="random", operations=8000, second=second)
    job = only_job(microbench(targets, {"jobs": [requested]}))
    assert job["second_bytes"] == pytest.approx(2000 * LINE, abs=32 * LINE)
    assert job["read_bytes"] == 8000 * LINE


# ---- time and threads ----


def test_operations_are_shared_out_exactly(microbench):
    job = only_job(microbench(DRAM, {"jobs": [throughput(threads=2, operations=10001)]}))
    assert [thread["operations"] for thread in job["threads"]] == [5001, 5000]
    assert job["operations"] == 10001
    assert all(job["window"][what] <= job[what] for what in ("operations", "duration_ns"))


def test_a_set_time_is_kept_and_the_warm_up_is_not_in_it(microbench):
    measurement = {
        "warm_up_ns": 50 * MS, "duration_ns": 100 * MS, "repeats": 20, "jobs": [throughput()],
    }  # fmt: skip
    repeats = microbench(DRAM, measurement)["measurements"][0]["repeats"]
    for before, after in pairwise(repeats):
        assert after["begin_ns"] >= before["begin_ns"] + before["duration_ns"] + 50 * MS
    # One that was interrupted as it was to begin begins late, and ends when it would have anyway.
    assert max(repeat["duration_ns"] for repeat in repeats) >= 99 * MS
    for repeat in repeats:
        (job,) = repeat["jobs"]
        assert job["operations"] * LINE == job["read_bytes"] == job["window"]["read_bytes"]
        rate = job["read_bytes"] / job["window"]["duration_ns"] * 1e9
        assert job["bandwidth_bytes_per_second"] == pytest.approx(rate, rel=1e-6)


def test_jobs_of_a_measurement_run_at_the_same_time(microbench):
    """One without an end of its own runs as long as the others.

    In some of the repeats: in another one its processor may have been somebody else's until the
    counted one was through.
    """
    both = [
        throughput(name="counted", operations=2_000_000, pattern="random"),
        throughput(name="beside", operation="ntstore", threads=1),
    ]
    (measurement,) = microbench(DRAM, {"repeats": 8, "jobs": both})["measurements"]
    met = 0
    for counted, beside in (repeat["jobs"] for repeat in measurement["repeats"]):
        assert counted["operations"] == 2_000_000
        assert beside["threads"][0]["end_ns"] >= counted["threads"][0]["end_ns"]
        together = beside["threads"][0]["begin_ns"] < counted["threads"][0]["end_ns"]
        met += together and beside["operations"] > 0
    assert met


@pytest.mark.parametrize(
    ("pace", "most"),
    [({"bytes_per_second": 10_000_000}, 10_000_000), ({"pause_ns": 10_000}, 100_000 * LINE)],
)
def test_a_pace_is_not_gone_beyond(microbench, pace, most):
    """A fifth of a second at that pace, and longer where somebody else has the processor."""
    operations = most // LINE // 5
    job = only_job(microbench(DRAM, {"jobs": [throughput(pace=pace, operations=operations)]}))
    assert job["operations"] == operations
    assert 0 < job["bandwidth_bytes_per_second"] <= most * 1.02


def test_threads_run_where_they_are_told(microbench):
    last = max(os.sched_getaffinity(0))
    job = only_job(microbench(DRAM, {"jobs": [throughput(operations=1, cpus=[last])]}))
    assert job["threads"][0]["cpu"] == last


def test_threads_that_share_a_processor_are_told_of(microbench):
    cpu = min(os.sched_getaffinity(0))
    result = microbench(DRAM, {"jobs": [throughput(operations=64, threads=2, cpus=[cpu])]})
    assert any("shared a processor" in note for note in result["notes"])


# ---- targets ----


def test_memory_lies_on_the_pages_that_were_asked_for(microbench):
    size = 16 * MIB
    targets = {
        "huge": {"kind": "dram", "pages": "huge", "size_bytes": size},
        "base": {"kind": "dram", "pages": "base", "size_bytes": size, "node": 0},
    }
    result = microbench(targets, {"jobs": [throughput(operations=1)]})
    facts = result["targets"]
    assert facts["base"]["huge_bytes"] == 0
    assert facts["huge"]["huge_bytes"] == size or any("huge pages" in n for n in result["notes"])
    assert set(facts["base"]["nodes"]) == {"0"}


def extents(path: Path) -> list[tuple[int, int]]:
    """Offset in the file and on the device of each piece; none where Linux does not say."""
    head, most = struct.Struct("=QQLLLL"), 4096
    request = bytearray(head.pack(0, 2**63, 1, 0, most, 0) + bytes(56 * most))
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, 0xC020660B, request)  # FS_IOC_FIEMAP, linux/fiemap.h
        except OSError:
            return []
    pieces = range(head.unpack_from(request)[3])
    return [struct.unpack_from("=QQ", request, head.size + 56 * at) for at in pieces]


def test_the_pieces_of_a_file_are_as_linux_maps_them(microbench, tmp_path):
    """Two files that grow in turns; on a file system that lays each out in one piece, that is 0."""
    path, other = tmp_path / "file", tmp_path / "other"
    with path.open("wb") as file, other.open("wb") as between:
        for turn in range(64):
            for stream in (file, between):
                stream.write(bytes([turn]) * (12 << 10))
                stream.flush()
                os.fsync(stream.fileno())
    target = {"kind": "file", "path": str(path), "size_bytes": 64 * 12 << 10, "overwrite": True}
    result = microbench({"t": target, **DRAM}, {"jobs": [throughput(operations=1)]})
    pieces = [physical - logical for logical, physical in extents(path)]
    expected = math.gcd(*(each - pieces[0] for each in pieces)) if pieces else None
    assert result["targets"]["t"]["extent_unit_bytes"] == expected
    assert result["targets"][next(iter(DRAM))]["extent_unit_bytes"] is None


def test_a_file_in_a_directory_leaves_nothing_behind(microbench, tmp_path):
    target = {"kind": "file", "path": str(tmp_path), "size_bytes": MIB}
    result = microbench({"t": target}, {"jobs": [throughput("store", operations=16384)]})
    assert list(tmp_path.iterdir()) == []
    facts = result["targets"]["t"]
    assert facts["filesystem"] and (facts["map_sync"], facts["pages"]) == (False, None)


# Specs that the program refuses: by the key, and before anything is touched ---------

TARGETS = {
    "t0": {"kind": "dram", "size_bytes": 16 * MIB, "pages": "base"},
    "t1": {"kind": "dram", "size_bytes": 8 * MIB, "pages": "base"},
}
dependent = partial(chain, dependent=True)
SECOND = {"target": "t1", "share": 0, "range_bytes": 512}
LOG = {"kind": "log", "writer": "zero", "entry_bytes": 64}
INDEX = {"kind": "index", "index": "woart", "workload": "a", "flush": "clflush"}
PAGE = {"kind": "page", "method": "cow", "page_bytes": 4096, "dirty_lines": 1}


@pytest.mark.parametrize(
    ("key", "job"),
    [
        ("acess", throughput(acess=64)),
        ("kind", {"kind": "dance"}),
        ("target", throughput(target="moon")),
        ("access_bytes", throughput(access_bytes=100)),
        ("access_bytes", throughput(access_bytes=32 * MIB)),
        ("fence_every_bytes", throughput("store", fence_every_bytes=192, access_bytes=128)),
        ("cpus", throughput(cpus=[1023])),
        ("dimms", throughput(pattern="dimms", dimms=7)),
        ("stripe_bytes", throughput(pattern="dimms", stripe_bytes=6000)),
        ("access_bytes", throughput(pattern="dimms", access_bytes=8192)),
        ("partitions", throughput(pattern="dimms", threads=2, partitions=2)),
        ("second: range_bytes", throughput(threads=2, second=SECOND | {"range_bytes": 64})),
        ("range_bytes", throughput(range_bytes=1 << 40)),
        ("distance, written_by", latency(operation="load", distance=4)),
        ("flush", latency(operation="load", flush="clwb")),
        ("steps[0]: hotspot_bytes", dependent("r_512", pattern="hotspot", hotspot_bytes=64)),
        ("steps[1]: range_bytes",
         dependent("r_64,r_512", pattern="sequential", threads=4, range_bytes=1024)),
        ("steps[0]: range_bytes", dependent("rd_512", pattern="strided", threads=2, second=SECOND)),
        ("steps[0]", dependent("w_64_cache")),
        ("call", {"kind": "pmdk", "call": "log_append", "entry_bytes": 64}),
        ("mix[0]: share", {"kind": "chain", "dependent": True, "mix": [{"share": 0, "steps": []}]}),
        ("mix[0]: steps", {"kind": "chain", "dependent": True, "mix": [{"share": 1}]}),
        ("steps, mix", {**dependent("r_64"), "mix": []}),
        ("steps[1]", dependent("r_64,wd_64_cache")),
        ("steps[0]", dependent("rd_64")),
        ("steps[1]: persist", dependent("r_64,w_64_cash")),
        ("steps[0]", dependent("r_512,w_64_cache_128", range_bytes=256)),
        ("dependent", {"kind": "chain", "steps": []}),
        ("range_bytes", LOG | {"range_bytes": 4096}),
        ("writer", LOG | {"writer": "zeros"}),
        ("range_bytes", PAGE | {"range_bytes": 8192}),
        ("index", INDEX | {"index": "btree"}),
        ("discipline", INDEX | {"discipline": "unaware"}),
        ("flush", INDEX | {"flush": "ntstore"}),
        ("range_bytes", INDEX | {"range_bytes": 8192}),
    ],
)  # fmt: skip
def test_a_job_is_refused_by_its_key(tested_build, key, job):
    done = execute(tested_build / "microbench", spec_of(TARGETS, measured(job, 10)))
    assert done.returncode == 2, done.stderr
    assert f"microbench: measurement m0: job j0: {key}: " in done.stderr


def test_a_measurement_that_would_never_end_is_refused(tested_build):
    done = execute(tested_build / "microbench", spec_of(TARGETS, {"jobs": [throughput()]}))
    assert done.returncode == 2
    assert "microbench: measurement m0: duration_ns: " in done.stderr


@pytest.mark.parametrize(
    ("status", "key", "target"),
    [
        (1, "target t: sync", {"kind": "file", "path": "TMP", "sync": "required"}),
        (2, "target t", {"kind": "file", "path": "TMP/there"}),
        (2, "target t", {"kind": "devdax", "path": "/dev/null", "overwrite": True}),
        (2, "target t: pages", {"kind": "dram", "pages": "big"}),
        (1, "target t: node", {"kind": "dram", "node": 999}),
    ],
)
def test_a_target_is_refused_and_left_as_it_was(tested_build, tmp_path, status, key, target):
    (tmp_path / "there").write_bytes(b"something of somebody")
    text = json.dumps({"size_bytes": MIB} | target).replace("TMP", str(tmp_path))
    spec = spec_of({"t": json.loads(text)}, measured(throughput(), 1))
    done = execute(tested_build / "microbench", spec)
    assert done.returncode == status, done.stderr
    assert f"microbench: {key}: " in done.stderr
    assert (tmp_path / "there").read_bytes() == b"something of somebody"
    if status == 1:  # what was begun has a result that says so
        result = json.loads(done.stdout)
        assert result["status"] == "failed" and result["error"].startswith(f"{key}: ")
