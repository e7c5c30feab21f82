"""What is printed of a run of microbenchmarks, and of what one would do: read off its table."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.micro_table import print_figures
from harness.micro.fio_result import histogram
from harness.store.result import Metric

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


@pytest.fixture
def fio_suite(loaded: Any) -> Any:
    file = loaded.root / "calls.yml"
    file.write_text(FIO)
    return file


def metric(name: str, ns: int, **labels: str) -> Metric:
    """All of whose times are ``ns``."""
    return Metric(name, "ns", "lower", labels, hdr=histogram({str(ns): 9}).encode())


def shown(*metrics: Metric) -> None:
    print_figures(metrics)


def test_percentiles_of_a_part_do_not_stand_under_those_of_the_whole(capsys: Any) -> None:
    of = {"configuration": "wal/sync=fdatasync", "sync": "fdatasync"}
    shown(
        metric("write_call_duration_ns", 12_000, **of),
        metric("fdatasync_duration_ns", 84_000, **of),
        metric("operation_duration_ns", 94_000, configuration="wal/sync=dsync", sync="dsync"),
    )
    head, call, sync, whole = (line.rstrip() for line in capsys.readouterr().out.splitlines())
    parts = head.index("of each call: p50, p99.9, max")
    assert call[parts:].startswith("write call 12 µs") and sync[parts:].startswith("fdatasync 84")
    at = head.rindex("p50, p99.9, max")
    assert whole[at:].startswith("94 µs") and call[at:] == sync[at:] == ""


def test_a_tail_that_too_few_operations_have_is_not_told(capsys: Any) -> None:
    for count in (999, 1000):
        encoded = histogram({"90": count - 1, "700": 1}).encode()
        shown(replace(metric("operation_duration_ns", 0, configuration="c"), hdr=encoded))
    few, enough = (line.rstrip() for line in capsys.readouterr().out.splitlines()[1::2])
    assert few.endswith("90 ns, —, 700 ns") and enough.endswith("90 ns, 90 ns, 700 ns")


@pytest.mark.parametrize("suite", ["ioping", "block-io"])
def test_a_tier_without_files_is_refused_beforehand(loaded: Any, suite: str) -> None:
    done = loaded("run", "micro", "--suite", suite, "--tier", "dram", "--dry-run")
    assert done.code == 2, done.out
    assert "a numa has no files" in done.err and "a tier that is a directory" in done.err


@pytest.mark.parametrize(("suite", "key"), [("ioping", "working_set"), ("file-io", "size")])
def test_a_file_that_does_not_fit_is_refused_beforehand(loaded: Any, suite: str, key: str) -> None:
    stored = sorted(loaded.results.glob("runs/*"))
    done = loaded("run", "micro", "--suite", suite, "--tier", "ssd", "-p", f"{key}=100TiB")
    assert done.code == 2, done.out
    assert f"-p {key}=" in done.err and "95% of that may go" in done.err
    assert sorted(loaded.results.glob("runs/*")) == stored


def test_a_users_directory_is_left_as_it_was(loaded: Any, fio_suite: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        theirs = Path(name)
        theirs.chmod(0o755)
        (theirs / "notes.txt").write_text("mine")
        where = ("--tier", "pmem", "--emulate", f"pmem={name}")
        done = loaded("run", "micro", "--suite", fio_suite, *where, "-p", "only=read", "-q",
                      "-p", "duration=1s")  # fmt: skip
        assert done.code == 0, done.err
        assert [path.name for path in theirs.iterdir()] == ["notes.txt"]
