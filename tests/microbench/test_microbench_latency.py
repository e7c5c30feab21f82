"""Latency kernels and dependent loads: what they count, and what they tell apart.

No absolute times: only what holds on any machine, with a wide margin.
"""

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from microbench_build import execute, jobs, latency, measured, spec_of

MIB = 1 << 20
DRAM = {"t0": {"kind": "dram", "size_bytes": 64 * MIB, "pages": "base"}}
SMALL = {"t0": {"kind": "dram", "size_bytes": MIB, "pages": "base"}}
#: FAST'20's LATTester: ten kernels of three sizes, and one with nothing between its stamps.
KERNELS: dict[str, dict[str, str]] = {
    "load": {"operation": "load"},
    "ntload": {"operation": "ntload"},
    "store": {"operation": "store"},
    "store+clflush": {"operation": "store", "flush": "clflush"},
    "store+clwb": {"operation": "store", "flush": "clwb"},
    "store+clflushopt": {"operation": "store", "flush": "clflushopt"},
    "ntstore": {"operation": "ntstore"},
    "store, words": {"operation": "store", "lane": "words"},
    "store+clflush, words": {"operation": "store", "flush": "clflush", "lane": "words"},
    "load, words": {"operation": "load", "lane": "words"},
}
BASIC = [
    {"kind": "latency", "access_bytes": size, **kernel, "flush_when": "line"}
    for kernel in KERNELS.values()
    for size in (64, 128, 256)
] + [{"kind": "latency", "access_bytes": 64, "operation": "empty"}]


def histogram(job: dict[str, Any]) -> HdrHistogram:
    return HdrHistogram.decode(job["latency_hdr"])


def p50(job: dict[str, Any]) -> float:
    return float(histogram(job).get_value_at_percentile(50))


def least(job: dict[str, Any]) -> float:
    """Return the duration that no other load of the machine has lengthened."""
    return float(histogram(job).get_min_value())


@pytest.mark.parametrize("pattern", ["sequential", "random"])
def test_lattesters_31_kernels_time_every_operation(microbench, pattern):
    assert len(BASIC) == 31
    result = microbench(SMALL, *(measured({**job, "pattern": pattern}, 200) for job in BASIC))
    for requested, job in zip(BASIC, jobs(result), strict=True):
        assert job["operations"] == 200
        assert histogram(job).get_total_count() == 200
        moved = 0 if requested["operation"] == "empty" else 200 * requested["access_bytes"]
        assert job["read_bytes"] + job["written_bytes"] == moved
        assert (job["durable"] is None) == (requested["operation"] in ("load", "ntload", "empty"))
        assert job["facts"]["empty_body_ns"] > 0
        assert job["facts"]["isa"] == requested.get("lane", job["facts"]["isa"])


def test_an_operation_of_many_seconds_is_told_with_its_whole_length(release_build):
    """A device may stand still, as this program is made to: more cycles than 32 bits hold."""
    stopped_s = 5
    longest_s = 0.0
    job = latency(operation="store", flush="clflush", before="none", access_bytes=2 * MIB)
    spec = spec_of(DRAM, {"duration_ns": 2 * 10**9, "jobs": [job]})
    for _ in range(5):  # it may be stopped between two operations
        progress, end = os.pipe()
        with (
            os.fdopen(progress) as lines,
            subprocess.Popen(
                ["bash", "-c", f'exec "$0" - 3>&{end}', str(release_build / "microbench")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[end],
            ) as program,
        ):
            os.close(end)
            assert program.stdin
            program.stdin.write(json.dumps(spec))
            program.stdin.close()
            assert any(json.loads(line)["event"] == "measuring" for line in lines)
            time.sleep(0.3)
            program.send_signal(signal.SIGSTOP)
            time.sleep(stopped_s)
            program.send_signal(signal.SIGCONT)
            assert program.stdout
            (told,) = jobs(json.loads(program.stdout.read()))
        longest_s = histogram(told).get_max_value() / 1e9
        if longest_s > 0.9 * stopped_s:
            break
    assert longest_s > 0.9 * stopped_s


def test_what_was_flushed_is_read_from_memory(released):
    requested = [measured(latency(operation="load", before=what)) for what in ("flushed", "loaded")]
    flushed, loaded = jobs(released(SMALL, *requested))
    assert p50(flushed) > 1.5 * least(loaded)


def test_read_after_write_reads_what_was_written_so_long_ago(microbench):
    raw = [
        latency(operation="load", before="written", distance=distance, written_by=by)
        for distance in (0, 1, 7, 500)
        for by in ("ntstore", "clwb", "clflushopt", "clflush", "store")
    ]
    for job in jobs(microbench(SMALL, *(measured(raw_job, 1500) for raw_job in raw))):
        assert histogram(job).get_total_count() == 1500
        assert job["read_bytes"] == 1500 * 64 and job["written_bytes"] == 0


@pytest.mark.parametrize(
    "keys",
    [{}, {"node_bytes": 256}, {"locality_bytes": 65536}, {"order": "sequential"},
     {"order": "strided", "stride_bytes": 4096}, {"chains": 5}, {"threads": 2},
     {"threads": 2, "partitions": 2}],
)  # fmt: skip
def test_a_chase_counts_its_loads(microbench, keys):
    (job,) = jobs(microbench(SMALL, measured({"kind": "chase", **keys}, 100_003)))
    assert (job["operations"], job["read_bytes"]) == (100_003, 64 * 100_003)
    assert job["durable"] is None


def test_a_chase_through_memory_waits_longer_than_one_through_the_cache(released):
    cached = measured({"kind": "chase", "range_bytes": 8192}, 10_000_000)
    near, far = jobs(released(DRAM, cached, measured({"kind": "chase"}, 2_000_000)))
    assert p50(far) > 5 * least(near)


def test_several_chases_at_once_overlap(released):
    """Of 20 repeats of some milliseconds, other programs do not lengthen all."""
    requested = [measured({"kind": "chase", "chains": chains}, 20_000) for chains in (1, 4)]
    repeated = [{**measurement, "repeats": 20} for measurement in requested]
    single_ns, four_ns = (
        min(repeat["jobs"][0]["duration_ns"] for repeat in measurement["repeats"])
        for measurement in released(DRAM, *repeated)["measurements"]
    )
    assert single_ns > 1.5 * four_ns


def test_a_chase_beside_a_load_is_a_point_of_the_loaded_latency_curve(released):
    beside = {"kind": "throughput", "operation": "load", "access_bytes": 4096,
              "pattern": "sequential", "pace": {"bytes_per_second": 500_000_000},
              "range_bytes": 32 * MIB, "offset_bytes": 32 * MIB, "operations": 12_000}  # fmt: skip
    jobs = [{"kind": "chase", "range_bytes": 32 * MIB}, {"name": "load", **beside}]
    repeats = released(DRAM, {"repeats": 4, "jobs": jobs})["measurements"][0]["repeats"]
    met = 0  # of a repeat, the chase may have had no processor until the load was through
    for chase, load in (repeat["jobs"] for repeat in repeats):
        assert load["operations"] == 12_000
        assert load["bandwidth_bytes_per_second"] <= 1.02 * 500_000_000
        met += chase["window"]["operations"] > 0 and p50(chase) > 0
    assert met


@pytest.mark.parametrize("beside", [0, MIB // 2])
def test_nobody_writes_over_the_pointers_of_a_chase(release_build, beside):
    chase = {"kind": "chase", "range_bytes": MIB // 2, "operations": 1000}
    writer = {"kind": "throughput", "name": "writer", "operation": "store", "access_bytes": 64,
              "pattern": "sequential", "offset_bytes": beside, "range_bytes": MIB // 2,
              "operations": 1000}  # fmt: skip
    spec = spec_of(SMALL, {"jobs": [chase, writer]})
    done = execute(release_build / "microbench", spec)
    assert done.returncode == (0 if beside else 1)
    if not beside:
        assert "measurement m0: range_bytes: " in done.stderr
