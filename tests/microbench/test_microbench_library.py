"""An index of a shared library by PiBench's interface, in C and, where there is g++, in C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from microbench_build import Run, execute, measured, spec_of

SOURCES = Path(__file__).parents[2] / "microbench/tests"
TARGETS = {"t0": {"kind": "dram", "size_bytes": 1 << 20, "pages": "base"}}
LANGUAGES = ["gcc", "g++"] if shutil.which("g++") else ["gcc"]


def built(folder: Path, compiler: str = "gcc", *options: str) -> Path:
    source = SOURCES / ("index_library.cpp" if compiler == "g++" else "index_library.c")
    file = folder / "library.so"
    subprocess.run([compiler, "-shared", "-fPIC", *options, source, "-o", file], check=True)
    return file


def job(library: Path | str, workload: str = "a", **more: Any) -> dict[str, Any]:
    about = {"kind": "index", "index": "library", "library": str(library), "workload": workload}
    return {**about, "target": "t0", "threads": 1, **more}


@pytest.mark.parametrize("compiler", LANGUAGES)
def test_a_library_is_an_index(microbench: Run, tmp_path: Path, compiler: str) -> None:
    library = built(tmp_path, compiler)
    workloads = [measured(job(library, one, threads=2), 2000) for one in ("a", "b", "d", "insert")]
    for one in microbench(TARGETS, *workloads)["measurements"]:
        (found,) = one["repeats"][0]["jobs"]
        assert found["operations"] > 0 and found["facts"]["records"] >= 2000
        assert "flushes_per_write" not in found["facts"]


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


@pytest.mark.parametrize("options", [(), ("-DIN_FILE",)])
def test_threads_share_the_tree_of_a_library_that_declares_it(microbench, tmp_path, options):
    library = built(tmp_path, "gcc", "-DSHARES", "-DTHREADS=16", *options)
    kept = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    workloads = ("a", "b", "c", "d", "f", "insert")
    jobs = [measured(job(library, one, threads=16), 2000) for one in workloads]
    for one in microbench(kept if options else TARGETS, *jobs)["measurements"]:
        (found,) = one["repeats"][0]["jobs"]
        assert found["facts"]["indexes"] == 1 and found["operations"] > 0


def test_in_a_directory_a_library_keeps_its_tree_in_a_file_there(microbench, tmp_path):
    folder = tmp_path / "tier"
    folder.mkdir()
    targets = {"t0": {"kind": "file", "path": str(folder), "size_bytes": 1 << 20}}
    library = built(tmp_path, "gcc", "-DIN_FILE")
    repeated = {**measured(job(library, threads=2), 2000), "repeats": 2}
    (one,) = microbench(targets, repeated)["measurements"]
    assert [repeat["jobs"][0]["durable"] for repeat in one["repeats"]] == [None, None]
    assert not list(folder.iterdir())


def test_a_library_whose_records_are_not_in_its_file_fails(tested_build, tmp_path):
    targets = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    done = execute(tested_build / "microbench", spec_of(targets, measured(job(built(tmp_path)))))
    assert done.returncode == 1 and "library: 0 bytes" in done.stderr


def test_a_file_that_is_there_is_not_the_librarys(tested_build: Path, tmp_path: Path) -> None:
    (there := tmp_path / "index-0").write_text("somebody's")
    targets = {"t0": {"kind": "file", "path": str(tmp_path), "size_bytes": 1 << 20}}
    library = built(tmp_path, "gcc", "-DIN_FILE")
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
