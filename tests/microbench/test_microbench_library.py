"""Additions to microbench: a library as an index, a new kernel; its C tests, and arm64."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from microbench_build import SOURCE, execute, jobs, measured, runner, spec_of

# A library in C and, where there is g++, in C++ -------------------------------------

SOURCES = Path(__file__).parents[2] / "microbench/tests"
TARGETS = {"t0": {"kind": "dram", "size_bytes": 1 << 20, "pages": "base"}}
IN_FILE, IN_FOLDER = '-DIN_FILE=""', '-DIN_FILE="/tree"'
LANGUAGES = ["gcc", "g++"] if shutil.which("g++") else ["gcc"]


def built(folder: Path, compiler: str = "gcc", *options: str) -> Path:
    source = SOURCES / ("index_library.cpp" if compiler == "g++" else "index_library.c")
    file = folder / "library.so"
    subprocess.run([compiler, "-shared", "-fPIC", *options, source, "-o", file], check=True)
    return file


def job(library: Path | str, workload: str = "a", **more) -> dict[str, Any]:
    about = {"kind": "index", "index": "library", "library": str(library), "workload": workload}
    return {**about, "target": "t0", "threads": 1, **more}


@pytest.mark.parametrize("compiler", LANGUAGES)
def test_a_library_is_an_index(microbench, tmp_path, compiler):
    library = built(tmp_path, compiler)
    workloads = [
        measured(job(library, workload, threads=2), 2000) for workload in ("a", "b", "d", "insert")
    ]
    for measurement in microbench(TARGETS, *workloads)["measurements"]:
        (done,) = measurement["repeats"][0]["jobs"]
        assert done["operations"] > 0 and done["facts"]["records"] >= 2000
        assert "flushes_per_write" not in done["facts"]


@pytest.mark.parametrize(
    ("options", "workload", "threads", "words"),
    [(("-DLOSES",), "a", 1, "lost a record"),
     (("-DRACES", "-DTHREADS=16"), "c", 16, "lost an update")],
)  # fmt: skip
def test_a_library_with_losses_fails(tested_build, tmp_path, options, workload, threads, words):
    library = built(tmp_path, "gcc", *options)
    spec = spec_of(TARGETS, measured(job(library, workload, threads=threads), 2000))
    done = execute(tested_build / "microbench", spec)
    assert done.returncode == 1 and words in done.stderr


def test_keys_and_values_are_as_large_as_requested(tested_build, microbench, tmp_path):
    """A library that keeps a part of its values loses records."""
    sizes = {"key_bytes": 16, "value_bytes": 200}
    large = ("-DKEY_BYTES=16", "-DVALUE_BYTES=200")
    library = built(tmp_path, "gcc", *large)
    workloads = [measured(job(library, workload, **sizes)) for workload in ("a", "c", "insert")]
    for result in jobs(microbench(TARGETS, *workloads)):
        assert result["read_bytes"] + result["written_bytes"] == 2000 * 216
    cut = spec_of(TARGETS, measured(job(built(tmp_path, "gcc", *large, "-DCUTS"), "c", **sizes)))
    done = execute(tested_build / "microbench", cut)
    assert done.returncode == 1 and "lost a record" in done.stderr


@pytest.mark.parametrize(("keys", "code"), [("uniform", 0), ("zipf", 1)])
def test_uniform_operations_meet_no_record_often(tested_build, tmp_path, keys, code):
    """Each of 4096 records is read at most 60 times: by Zipf's law, one is read 200 times."""
    library = built(tmp_path, "gcc", "-DMOST=60")
    spec = spec_of(TARGETS, measured(job(library, "c", keys=keys)))
    assert execute(tested_build / "microbench", spec).returncode == code


@pytest.mark.parametrize("options", [(), (IN_FILE,)])
def test_threads_share_the_tree_of_a_library_that_declares_it(microbench, tmp_path, options):
    library = built(tmp_path, "gcc", "-DSHARES", "-DTHREADS=16", *options)
    in_file = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    workloads = ("a", "b", "c", "d", "f", "insert")
    jobs = [measured(job(library, workload, threads=16), 2000) for workload in workloads]
    for measurement in microbench(in_file if options else TARGETS, *jobs)["measurements"]:
        (done,) = measurement["repeats"][0]["jobs"]
        assert done["facts"]["indexes"] == 1 and done["operations"] > 0


@pytest.mark.parametrize("where", [IN_FILE, IN_FOLDER])
def test_in_a_directory_a_library_keeps_its_tree_in_files_there(microbench, tmp_path, where):
    folder = tmp_path / "tier"
    folder.mkdir()
    targets = {"t0": {"kind": "file", "path": str(folder), "size_bytes": 1 << 20}}
    library = built(tmp_path, "gcc", where)
    repeated = {**measured(job(library, threads=2), 2000), "repeats": 2}
    (measurement,) = microbench(targets, repeated)["measurements"]
    assert [repeat["jobs"][0]["durable"] for repeat in measurement["repeats"]] == [None, None]
    assert not list(folder.iterdir())


def test_a_library_whose_records_are_not_in_its_file_fails(tested_build, tmp_path):
    targets = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    done = execute(tested_build / "microbench", spec_of(targets, measured(job(built(tmp_path)))))
    assert done.returncode == 1 and "library: 0 bytes" in done.stderr


def test_a_file_that_is_there_is_not_the_librarys(tested_build, tmp_path):
    (there := tmp_path / "index-0").write_text("somebody's")
    targets = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    library = built(tmp_path, "gcc", IN_FILE)
    done = execute(tested_build / "microbench", spec_of(targets, measured(job(library))))
    assert done.returncode == 1
    assert there.read_text() == "somebody's"


@pytest.mark.parametrize("options", [(), ("-DOTHER_NAME=create",)])
@pytest.mark.parametrize("how", ["--check", "-"])
def test_what_cannot_be_loaded_is_refused(tested_build, tmp_path, options, how):
    library = built(tmp_path, "gcc", *options) if options else tmp_path / "none.so"
    spec = spec_of(TARGETS, measured(job(library), 10))
    done = execute(tested_build / "microbench", spec, how)
    assert done.returncode == 2 and "job j0: library: " in done.stderr
    assert ("create_tree" if options else "none.so") in done.stderr


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("library", {"flush": "clwb"}),
        ("library", {"index": "level_hash"}),
        ("target", {"target": "t1"}),
    ],
)
def test_what_would_be_another_measurement_is_refused(tested_build, tmp_path, key, more):
    targets = TARGETS | {"t1": {"kind": "dram", "pages": "huge", "size_bytes": 1 << 20}}
    spec = spec_of(targets, measured(job(built(tmp_path), **more), 10))
    done = execute(tested_build / "microbench", spec)
    assert done.returncode == 2 and f"job j0: {key}: " in done.stderr


# A new kernel is one file and one line in the registry: tests/toy_kernels/increment.c ---


def test_it_runs_in_a_measurement(release_build):
    toy = {"duration_ns": 10_000_000, "jobs": [{"kind": "increment", "step_bytes": 128}]}
    dram = {"t0": {"kind": "dram", "size_bytes": 1 << 20}}
    (job,) = jobs(runner(release_build / "microbench")(dram, toy))
    assert job["operations"] > 0
    assert job["written_bytes"] == 64 * job["operations"]


def test_suites_know_it_by_the_keys_next_to_its_file(release_build, tmp_path):
    native, suite = tmp_path / "native", tmp_path / "toy.yml"
    install = ["cmake", "--install", str(release_build), "--prefix", str(native)]
    subprocess.run(install, check=True, capture_output=True)
    (next(native.glob("**/kernels")) / "other.json").write_text('{"count": {}}')
    suite.write_text(
        "schema: 1\nname: toy\ndescription: d\nmeasurements:\n  lines:\n"
        "    matrix: {step: [64, 128]}\n"
        "    args: {kind: increment, range: 1MiB, duration: 100ms}\n"
    )
    argv = ["run", "micro", "--suite", str(suite), "--tier", "dram", "--dry-run", "--json", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *argv],
        env={**os.environ, "HARNESS_NATIVE": str(native)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["plan"]
    assert plan["configurations"] == ["lines/step=64", "lines/step=128"]


# The C tests; and that all of it compiles for arm64 ---------------------------------

NATIVE = SOURCE.parent / "native"
IOTRACE = SOURCE.parent / "iotrace"
INCLUDES = [f"-I{SOURCE}", f"-I{NATIVE}", f"-I{NATIVE / 'tests'}"]
# jansson's and zlib's headers are the same everywhere; the cross compiler has its own libc.
SHARED = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
OPTIONS = ["-std=c11", "-O1", *WARNINGS, "-D_GNU_SOURCE"]
DEFINES = ["-DMB_ISA=neon", '-DMICROBENCH_VERSION="test"']


X86 = {"sse2": "-msse4.1", "avx2": "-mavx2", "avx512": "-mavx512f"}


@pytest.mark.parametrize("isa", X86)
def test_no_file_has_a_warning(isa):
    """Set-up, which compiles what is measured, only prints them: newer compilers warn of more."""
    others = [*SOURCE.glob("*.c"), *SOURCE.glob("[!tl]*/*.c")]
    sources = [*SOURCE.glob("loops/*.c"), *(others if isa == "sse2" else [])]
    options = [*OPTIONS, f"-DMB_ISA={isa}", DEFINES[-1], X86[isa], *INCLUDES]
    subprocess.run(["gcc", "-fsyntax-only", *options, *sources], check=True)


def test_the_c_tests_pass(tested_build):
    command = ["ctest", "--test-dir", str(tested_build), "--output-on-failure"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "No tests were found" not in done.stdout


@pytest.mark.sanitizers
def test_threads_that_share_an_index_do_not_race(tmp_path):
    sources = [SOURCE / "tests" / "test_index_threads.c", NATIVE / "random.c"]
    sources += [SOURCE / "indexes" / name for name in ("level_hash.c", "fast_fair.c")]
    options = [*OPTIONS, "-g", "-fsanitize=thread", "-pthread", *INCLUDES]
    subprocess.run(["gcc", *options, *sources, "-lm", "-o", tmp_path / "test"], check=True)
    subprocess.run([tmp_path / "test"], check=True)


@pytest.mark.sanitizers
@pytest.mark.parametrize("index", ["level_hash", "fast_fair", "woart"])
def test_an_index_survives_100000_power_cuts(index, tested_build):
    command = [str(tested_build / f"microbench_test_{index}"), "100000"]
    assert int(subprocess.check_output(command, text=True).split()[1]) >= 100_000


def test_a_search_leaves_out_what_an_index_does_not_need(tested_build):
    program = str(tested_build / "microbench_test_level_hash")
    done = subprocess.run([program, "--search", "designed"], capture_output=True, check=True)
    answer = json.loads(done.stdout)
    left_out = [
        (place["function"], place["kind"]) for place in answer["places"] if place["left_out"]
    ]
    assert left_out == [("persist", "flush"), ("persist", "flush"), ("persist", "fence")]
    assert answer["needed"] == len(answer["places"]) - answer["left_out"]
    assert answer["passed"] and answer["memories"] > answer["cuts"] > 0
    assert subprocess.run([program, "--search", "unaware"], check=False).returncode == 2


@pytest.mark.parametrize(
    "source",
    sorted(
        [*SOURCE.glob("*.c"), *SOURCE.glob("[!t]*/*.c"), *NATIVE.glob("*.c"), *IOTRACE.glob("*.c")]
    ),
    ids=lambda path: str(path.relative_to(SOURCE.parent)),
)
def test_each_file_compiles_for_arm64(source, tmp_path):
    command = ["aarch64-linux-gnu-gcc", *OPTIONS, *DEFINES, *INCLUDES, *SHARED]
    compiled = tmp_path / "compiled.o"
    subprocess.run([*command, "-c", str(source), "-o", str(compiled)], check=True)
    dump = ["aarch64-linux-gnu-objdump", "-fd", "--no-show-raw-insn", str(compiled)]
    described = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    assert "architecture: aarch64" in described
    # Cleaned to the point of persistence (cvap); cvac ends at that of coherency.
    assert not re.search(r"\tdc\tcvac\b", described)
    # A barrier of stores alone does not wait for lines to be cleaned.
    assert not re.search(r"\tdsb\t(ish|osh|nsh)?st$", described, re.MULTILINE)
