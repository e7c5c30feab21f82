"""``harness run micro`` with the real program, on memory, on an emulated tier and on files."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from patience import PATIENCE_S
from run_values import uncontrolled

from harness.micro.metrics import NOTHING_DONE

LIBRARY = Path(__file__).parents[2] / "microbench/tests/index_library.c"
#: Small and short: what is right must not depend on it.
BRIEF = ("-p", "range=16MiB", "-p", "duration=100ms", "-p", "warm_up=5ms")

PERMA = """
writes:
  matrix: {number_threads: [1, 64], persist_instruction: [cache, nocache]}
  args: {operation: write, access_size: 256, memory_range: 128M, min_io_chunk_size: 1M}
update:
  args: {exec_mode: custom, custom_operations: "r_512,w_64_cache_128,w_64_cache_-128",
         memory_range: 128M, min_io_chunk_size: 64K, number_operations: 20000,
         latency_sample_frequency: 10}
beside:
  parallel_benchmark:
    log: {args: {operation: write, memory_range: 128M, run_time: 1, access_size: 256}}
    index: {args: {exec_mode: random, operation: write, persist_instruction: none,
                   access_size: 64, dram_operation_ratio: 1, dram_memory_range: 128M,
                   memory_range: 64M, run_time: 1}}
"""

FIO = """
schema: 1
name: calls
description: d
program: fio
params:
  size: 8MiB
  duration: 50ms
  measurements:
    wal: {operation: write, pattern: sequential, access: 4KiB, sync: [fdatasync, dsync]}
    read: {operation: read, pattern: random, access: 64}
"""


def metrics(run, name, **labels):
    return [m for m in run["metrics"]
            if m["name"] == name and labels.items() <= m["labels"].items()]  # fmt: skip


@pytest.fixture(scope="module")
def quick(loaded):
    return loaded.microbench("--suite", "quick", "--tier", "dram", "--repeats", "2", *BRIEF,
                             "--json", "-q").run  # fmt: skip


def test_a_suite_is_stored_as_a_run_with_a_sample_of_every_repeat(quick):
    assert (quick["status"], quick["spec"]["workload"]) == ("complete", "micro")
    assert quick["spec"]["placement"]["data"] == "dram"
    rates = metrics(quick, "bandwidth_bytes_per_second")
    assert len(rates) >= 9
    assert all(len(rate["samples"]) == 2 and min(rate["samples"]) > 0 for rate in rates)
    names = [(rate["labels"]["configuration"], rate["labels"].get("job")) for rate in rates]
    assert len(names) == len(set(names))


def test_latencies_are_histograms_beside_the_cost_of_an_empty_body(quick):
    assert len(metrics(quick, "operation_duration_ns", measurement="latency")) == 3
    for empty in metrics(quick, "empty_body_ns"):
        assert min(empty["samples"]) > 0
    (chase,) = metrics(quick, "latency_ns", measurement="chase")
    assert min(chase["samples"]) > 0


def test_an_emulated_tier_is_marked_and_left_as_it_was(loaded, tmp_path):
    place = Path(f"/dev/shm/tierbench-{os.geteuid()}-named")
    place.mkdir()
    place.chmod(0o755)
    (place / "notes.txt").write_text("mine")
    (calls := tmp_path / "calls.yml").write_text(FIO)
    try:
        emulated = ("--tier", "pmem", "--emulate", f"pmem={place}", "-p", "only=latency,chase")
        run = loaded.microbench("--suite", "quick", *emulated, *BRIEF, "--json", "-q").run
        assert [path.name for path in place.iterdir()] == ["notes.txt"]
        only = ("only=read", "-p", "duration=1s", "-q")
        assert loaded.microbench("--suite", calls, *emulated[:-1], *only).code == 0
        assert [path.name for path in place.iterdir()] == ["notes.txt"]
    finally:
        shutil.rmtree(place)
    assert run["spec"]["emulate"] == ["pmem"]
    assert run["emulated"] == [{"tier": "pmem", "by": f"tmpfs at {place}"}]
    assert {m["labels"]["pages"] for m in run["metrics"] if m["labels"]} == {"file"}
    assert loaded.settled() == []


def test_the_baseline_measures_files_and_memory_of_a_tier(loaded):
    """On files in memory; each call of a synced write has its own times."""
    place = Path(f"/dev/shm/tierbench-{os.geteuid()}-files")
    place.mkdir()
    place.chmod(0o755)
    pages, growth = "page_read/access=4KiB,threads=[14]", "log_growth/access=4KiB,threads=1"
    chosen = f"{pages},{growth},checkpoint/access=8KiB,chase"
    only = ("-p", f"only={chosen}", "--repeats", "2")
    try:
        tier = ("--tier", "pmem", "--emulate", f"pmem={place}")
        run = loaded.microbench("--suite", "baseline", *tier, *only, *BRIEF, "--json", "-q").run
        assert list(place.iterdir()) == []
    finally:
        shutil.rmtree(place)
    rates = metrics(run, "operations_per_second", kind="file")
    assert {rate["labels"]["measurement"] for rate in rates} == {
        "page_read", "log_growth", "checkpoint",
    }  # fmt: skip
    assert all(len(rate["samples"]) == 2 and min(rate["samples"]) > 0 for rate in rates)
    reads = metrics(run, "operation_duration_ns", measurement="page_read")
    assert {metric["labels"]["threads"] for metric in reads} == {1, 4}
    for metric in (*reads, *metrics(run, "operation_kernel_ns")):
        assert metric["labels"]["direct"] in (True, False)
    (synced,) = metrics(run, "fdatasync_duration_ns", measurement="log_growth")
    assert synced["labels"]["appends"] is True
    for call in ("write_call", "fsync"):
        assert len(metrics(run, f"{call}_duration_ns", measurement="checkpoint")) == 1
    assert len(metrics(run, "latency_ns", measurement="chase")) == 1


def test_a_file_of_perma_benchs_is_run_as_it_is_and_told_in_its_own_form(loaded, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(PERMA)
    argv = ("--suite", file, "--tier", "dram", "--format", "perma", "-q")
    before = loaded("runs", "list", "--json").json
    refused = loaded("run", "micro", *argv)
    assert refused.code == 2 and "-p threads=" in refused.err
    assert loaded("runs", "list", "--json").json == before
    done = loaded.microbench(*argv, "-p", "threads=2")
    writes, update, beside = done.document
    assert (writes["bm_name"], writes["bm_type"]) == ("writes", "single")
    assert writes["matrix_args"] == ["number_threads", "persist_instruction"]
    config = writes["benchmarks"][0]["config"]
    assert (config["access_size"], config["persist_instruction"]) == (256, "cache")
    results = writes["benchmarks"][0]["results"]
    assert results["accessed_bytes"] == 128 << 20
    assert results["bandwidth"] > 0
    assert len(results["threads"]) == config["number_threads"]
    latency = update["benchmarks"][0]["results"]["latency"]
    assert latency["min"] <= latency["median"] <= latency["percentile_999"] <= latency["max"]
    assert update["benchmarks"][0]["results"]["num_operations"] == 20000
    assert beside["sub_bm_names"] == ["log", "index"]
    (both,) = beside["benchmarks"]
    assert both["results"]["index"]["results"]["bandwidth"] > 0
    assert both["config"]["index"]["dram_operation_ratio"] == 1


def test_a_stored_suite_is_repeated_from_what_is_stored(loaded, quick):
    for _ in range(5):  # a thread may stand still for all of a measurement
        done = loaded("repro", quick["run_id"], "--tolerance", "1000", "--json", "-q")
        if NOTHING_DONE not in done.out:
            break
    repeated = done.document["repro"]
    assert repeated["differences"] == [] and repeated["ratio"] > 0
    assert done.run["spec_hash"] == quick["spec_hash"]


def test_what_was_done_in_no_time_is_no_rate_of_nothing(loaded, tmp_path):
    """A window that ends before any thread has begun: once reported as 0 GB/s."""
    done = loaded("run", "micro", "--suite", "quick", "--tier", "dram", "-p", "range=16MiB",
                   "-p", "duration=1ns", "-p", "warm_up=1ns", "--json", "-q")  # fmt: skip
    (run,) = done.json["runs"]
    assert run["status"] == "unknown"
    assert [m for m in run["metrics"] if m["better"] != "none"] == []
    warned = {c["labels"]["configuration"]: c for c in run["checks"] if c["name"] == "measured"}
    assert len(warned) >= 13
    assert {c["status"] for c in warned.values()} == {"unknown"}
    assert "-p duration" in warned["chase"]["detail"]


def test_perma_benchs_form_has_no_rate_of_nothing_either(loaded, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("w: {args: {operation: write, memory_range: 128M, run_time: 1}}")
    done = loaded("run", "micro", "--suite", file, "--tier", "dram", "--format", "perma", "-q",
                   "-p", "duration=1ns", "-p", "warm_up=1ns")  # fmt: skip
    (warned,) = done.json
    assert list(warned["benchmarks"][0]["results"]) == ["error"]


def test_a_program_that_dies_is_told_with_the_configuration_that_it_measured(loaded):
    process = loaded.start("run", "micro", "--suite", "quick", "--tier", "dram", "--json",
                            "-p", "only=chase", "-p", "range=16MiB",
                            "-p", "duration=600s", "--retries", "0")  # fmt: skip
    process_id = _microbench_of(process)
    time.sleep(2)  # threads touch its memory, too, before they measure
    os.kill(process_id, signal.SIGKILL)
    done = loaded.ended(process)
    assert done.code == 1
    (run,) = done.json["runs"]
    assert run["error"]["problem"] == "measure chase (repeat 1 of 1): measure with microbench"
    assert "killed by signal 9" in run["error"]["context"]
    stored = loaded("runs", "show", run["run_id"]).out
    assert "measure chase (repeat 1 of 1)" in stored


def _microbench_of(process):
    """The process id of the program that measures for this command, once its chase has begun."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                supervisor = _parent(folder) if _name(folder) == "microbench" else 0
                mine = supervisor and _parent(Path(f"/proc/{supervisor}")) == process.pid
                threads = len(list((folder / "task").iterdir()))
            except OSError:
                continue
            if mine and threads > 1:
                return int(folder.name)
        time.sleep(0.05)
    raise AssertionError("microbench was never started")


def _name(folder):
    return (folder / "comm").read_text().strip()


def _parent(folder):
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def test_ctrl_c_leaves_no_run_and_no_process(loaded):
    before = loaded("runs", "list", "--json").json
    process = loaded.start("run", "micro", "--suite", "quick", "--tier", "pmem",
                            "--emulate", "pmem", "-p", "duration=600s")  # fmt: skip
    _microbench_of(process)
    done = loaded.interrupt(process, signal.SIGINT)
    assert done.code == 130
    assert loaded.settled() == []
    assert loaded("runs", "list", "--json").json == before


def test_a_processor_that_others_had_is_told(loaded, tmp_path):
    file = tmp_path / "mine.yml"
    file.write_text(
        "schema: 1\nname: mine\ndescription: d\nmeasurements:\n  reads:\n"
        "    args: {kernel: load, access: 64, pattern: random, range: 16MiB, duration: 1s}\n"
    )
    cpu = min(os.sched_getaffinity(0))
    other = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
    try:
        argv = ("--suite", file, "--tier", "dram", "--cpus", str(cpu), "--json", "-q")
        done = loaded.microbench(*argv)
    finally:
        other.kill()
        other.wait()
    assert "in 1 of 1 measurements" in uncontrolled(done.run)["processors-shared"]


@pytest.mark.parametrize("readable", [True, False])
def test_an_index_library_is_loaded_by_the_unprivileged_user_alone(loaded, tmp_path, readable):
    """Also from where that user cannot read it; what it cannot load is refused."""
    file = tmp_path / "tree.so"  # below a directory that only we may enter
    extra = ["-DREFUSES_ROOT"] if readable else ["-DOTHER_NAME=create"]
    subprocess.run(["gcc", "-shared", "-fPIC", *extra, LIBRARY, "-o", file], check=True)
    before = loaded("runs", "list", "--json").json
    limits = ("-p", "range=1MiB", "-p", "operations=1000")
    done = loaded(
        "run", "micro", "--suite", "bento/fig1", "--tier", "dram", "--index-library", file, *limits,
        "--json", "-q", "--repeats", "1",
    )  # fmt: skip
    if not readable:
        assert done.code == 2 and f"--index-library {file}: " in done.err
        assert loaded("runs", "list", "--json").json == before
        return
    labels = [metric["labels"] for metric in done.run["metrics"]]
    assert {label["index"] for label in labels if "index" in label} == {"library"}


CXL_BENCH = """
lookup:
  matrix: {custom_operations: ["r_64", "r_64,w_64_none"], number_threads: [1, 2]}
  args: {exec_mode: custom, memory_region_size: 64M, min_io_batch_size: 1M, numa_memory_nodes: [0],
         numa_task_nodes: [0], run_time: 1}
counter:
  matrix: {operation: [compare-and-swap, fetch-and-add]}
  args: {exec_mode: latency, memory_region_size: 64M, numa_memory_nodes: [0], numa_task_nodes: [0],
         access_size: 8, number_operations: 10000, latency_sample_frequency: 10}
start:
  matrix: {operation: [memory-map-private, memory-unmap-shared]}
  args: {exec_mode: latency, memory_region_size: 64M, numa_memory_nodes: [0], numa_task_nodes: [0],
         number_operations: 3, latency_sample_frequency: 1}
"""


def test_a_file_of_cxl_bench_is_imported_and_runs(loaded, tmp_path):
    (file := tmp_path / "theirs.yaml").write_text(CXL_BENCH)
    out = tmp_path / "ours.yml"
    done = loaded("micro", "import", file, "--out", out, "--json").json
    assert (done["configurations"], done["device"]) == (8, None)
    run = loaded.microbench("--suite", out, "--tier", "dram", "-p", "duration=50ms",
                            "-p", "warm_up=1ms", "--json", "-q").run  # fmt: skip
    assert run["status"] == "complete"
    assert {check["status"] for check in run["checks"]} == {"passed"}
    assert len(metrics(run, "operations_per_second", kind="chain", nodes="0")) == 4
    (share,) = metrics(run, "success_share", kind="atomic")
    assert all(0 < sample <= 1 for sample in share["samples"])
    times = metrics(run, "time_per_gib_ns", kind="map")
    assert {time["labels"]["operation"] for time in times} == {"populate", "release"}
    assert {time["labels"]["pages"] for time in times} == {"base"}


def test_an_import_names_what_it_refuses_and_overwrites_nothing(loaded, tmp_path):
    (file := tmp_path / "theirs.yaml").write_text(CXL_BENCH.replace("number_threads", "threads"))
    out = tmp_path / "ours.yml"
    refused = loaded("micro", "import", file, "--out", out)
    assert refused.code == 2 and "threads" in refused.err and not out.exists()
    assert loaded("micro", "import", out, "--out", out).code == 2
    file.write_text(CXL_BENCH)
    (tmp_path / "there.yml").write_text("mine")
    assert loaded("micro", "import", file, "--out", tmp_path / "there.yml").code == 2
    assert loaded("micro", "import", file, "--out", tmp_path / "suite.txt").code == 2
    assert (tmp_path / "there.yml").read_text() == "mine"
