"""The program as a whole: specs, targets, threads, addresses, counts."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from microbench_build import Run, jobs, throughput

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
    """Which lines of a file were stored; half a line is an error."""
    content = path.read_bytes()
    lines = [content[at : at + LINE] for at in range(0, len(content), LINE)]
    assert set(lines) <= {STORED * LINE, bytes(LINE)}
    return [line == STORED * LINE for line in lines]


@pytest.fixture
def written(tmp_path: Path, microbench: Run):
    """Run one job over a file of zeros; the job's result, and which lines it stored."""

    def run(size_bytes: int, seed: int = 1, **job: Any) -> tuple[dict[str, Any], list[bool]]:
        path = tmp_path / "target"
        path.write_bytes(bytes(size_bytes))
        target = {"kind": "file", "path": str(path), "size_bytes": size_bytes, "overwrite": True}
        measurement = {"jobs": [throughput(**{"operation": "store", **job})]}
        return only_job(microbench({"t": target}, measurement, seed=seed)), lines_of(path)

    return run


def test_pages_taken_away_while_they_are_measured_are_counted(microbench: Run):
    """By holes, punched into a file in memory again and again: no disk is waited for."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="tierbench-test-") as file:
        ended = threading.Event()

        def punch() -> None:
            while not ended.is_set():
                assert _fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, 0, 16 * MIB) == 0

        target = {"kind": "file", "path": file.name, "size_bytes": 16 * MIB, "overwrite": True}
        file.truncate(16 * MIB)
        taker = threading.Thread(target=punch)
        taker.start()
        try:
            measurement = {"duration_ns": 1000 * MS, "jobs": [throughput("store")]}
            (thread,) = only_job(microbench({"t": target}, measurement))["threads"]
        finally:
            ended.set()
            taker.join()
    assert thread["minor_faults"] > 0


# ---- what is written ----


@pytest.mark.parametrize("isa", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("access", [64, 192, 1024, 4096])
def test_a_sequential_lap_stores_every_line(written, isa: str, access: int):
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
def test_however_it_is_stored_all_of_it_is(written, how: dict[str, Any]):
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


def test_a_second_target_gets_its_share(microbench: Run):
    targets = {**DRAM, "far": {"kind": "dram", "pages": "base", "size_bytes": MIB}}
    second = {"target": "far", "share": 0.25}
    requested = throughput(pattern="random", operations=8000, second=second)
    job = only_job(microbench(targets, {"jobs": [requested]}))
    assert job["second_bytes"] == pytest.approx(2000 * LINE, abs=32 * LINE)
    assert job["read_bytes"] == 8000 * LINE


# ---- time and threads ----


def test_operations_are_shared_out_exactly(microbench: Run):
    job = only_job(microbench(DRAM, {"jobs": [throughput(threads=2, operations=10001)]}))
    assert [thread["operations"] for thread in job["threads"]] == [5001, 5000]
    assert job["operations"] == 10001
    assert all(job["window"][what] <= job[what] for what in ("operations", "duration_ns"))


def test_a_set_time_is_kept_and_the_warm_up_is_not_in_it(microbench: Run):
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


def test_jobs_of_a_measurement_run_at_the_same_time(microbench: Run):
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
def test_a_pace_is_not_gone_beyond(microbench: Run, pace: dict[str, int], most: int):
    """A fifth of a second at that pace, and longer where somebody else has the processor."""
    operations = most // LINE // 5
    job = only_job(microbench(DRAM, {"jobs": [throughput(pace=pace, operations=operations)]}))
    assert job["operations"] == operations
    assert 0 < job["bandwidth_bytes_per_second"] <= most * 1.02


def test_threads_run_where_they_are_told(microbench: Run):
    last = max(os.sched_getaffinity(0))
    job = only_job(microbench(DRAM, {"jobs": [throughput(operations=1, cpus=[last])]}))
    assert job["threads"][0]["cpu"] == last


def test_threads_that_share_a_processor_are_told_of(microbench: Run):
    one = min(os.sched_getaffinity(0))
    result = microbench(DRAM, {"jobs": [throughput(operations=64, threads=2, cpus=[one])]})
    assert any("shared a processor" in note for note in result["notes"])


# ---- targets ----


def test_memory_lies_on_the_pages_that_were_asked_for(microbench: Run):
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


def test_a_file_in_a_directory_leaves_nothing_behind(microbench: Run, tmp_path: Path):
    target = {"kind": "file", "path": str(tmp_path), "size_bytes": MIB}
    result = microbench({"t": target}, {"jobs": [throughput("store", operations=16384)]})
    assert list(tmp_path.iterdir()) == []
    facts = result["targets"]["t"]
    assert facts["filesystem"] and (facts["map_sync"], facts["pages"]) == (False, None)
