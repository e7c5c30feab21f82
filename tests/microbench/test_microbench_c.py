"""The C tests; and that all of it compiles for arm64."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from microbench_build import SOURCE

NATIVE = SOURCE.parent / "native"
IOTRACE = SOURCE.parent / "iotrace"
INCLUDES = [f"-I{SOURCE}", f"-I{NATIVE}", f"-I{NATIVE / 'tests'}"]
# jansson's and zlib's headers are the same everywhere; the cross compiler has its own libc.
SHARED = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
OPTIONS = [
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
    "-D_GNU_SOURCE",
]
DEFINES = ["-DMB_ISA=neon", '-DMICROBENCH_VERSION="test"']


def test_the_c_tests_pass(tested_build: Path):
    command = ["ctest", "--test-dir", str(tested_build), "--output-on-failure"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "No tests were found" not in done.stdout


@pytest.mark.sanitizers
def test_threads_that_share_an_index_do_not_race(tmp_path: Path):
    sources = [SOURCE / "tests" / "test_index_threads.c", NATIVE / "random.c"]
    sources += [SOURCE / "indexes" / name for name in ("level_hash.c", "fast_fair.c")]
    options = [*OPTIONS, "-O1", "-g", "-fsanitize=thread", "-pthread", *INCLUDES]
    subprocess.run(["gcc", *options, *sources, "-o", tmp_path / "test"], check=True)
    subprocess.run([tmp_path / "test"], check=True)


@pytest.mark.sanitizers
@pytest.mark.parametrize("index", ["level_hash", "fast_fair", "woart"])
def test_an_index_survives_100000_power_cuts(index: str, tested_build: Path):
    command = [str(tested_build / f"microbench_test_{index}"), "100000"]
    assert int(subprocess.check_output(command, text=True).split()[1]) >= 100_000


def test_a_search_leaves_out_what_an_index_does_not_need(tested_build: Path):
    program = str(tested_build / "microbench_test_level_hash")
    done = subprocess.run([program, "--search", "designed"], capture_output=True, check=True)
    found = json.loads(done.stdout)
    left_out = [(one["function"], one["kind"]) for one in found["places"] if one["left_out"]]
    assert left_out == [("persist", "flush"), ("persist", "flush"), ("persist", "fence")]
    assert found["needed"] == len(found["places"]) - found["left_out"]
    assert found["passed"] and found["memories"] > found["cuts"] > 0
    assert subprocess.run([program, "--search", "unaware"], check=False).returncode == 2


@pytest.mark.parametrize(
    "source",
    sorted(
        [*SOURCE.glob("*.c"), *SOURCE.glob("[!t]*/*.c"), *NATIVE.glob("*.c"), *IOTRACE.glob("*.c")]
    ),
    ids=lambda path: str(path.relative_to(SOURCE.parent)),
)
def test_each_file_compiles_for_arm64(source: Path, tmp_path: Path):
    command = ["aarch64-linux-gnu-gcc", *OPTIONS, *DEFINES, *INCLUDES, *SHARED]
    compiled = tmp_path / "compiled.o"
    subprocess.run([*command, "-c", str(source), "-o", str(compiled)], check=True)
    dump = ["aarch64-linux-gnu-objdump", "-fd", "--no-show-raw-insn", str(compiled)]
    described = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    assert "architecture: aarch64" in described
    # A barrier of stores alone does not wait for lines to be cleaned.
    assert not re.search(r"\tdsb\t(ish|osh|nsh)?st$", described, re.MULTILINE)
